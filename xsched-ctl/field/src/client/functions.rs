//! The functions that the minimal client calls, of HIP and of CUDA's driver interface: nearly the same ones under other names.
//!
//! They are looked up at run time. With the feature `hip-runtime-sys` the program is linked with HIP instead, through the crate
//! of that name. Like most HIP programs, it then starts only where there is a libamdhip64.
//!
//! Every handle and every device address is as wide as a pointer in both, and every result is a number of which 0 is success.

use core::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::trouble::Trouble;

/// A stream, an event, a module, a function or a context.
pub(super) type Handle = *mut c_void;
/// An address on the device.
pub(super) type Address = usize;

/// Which of both a process uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interface {
    Hip,
    Cuda,
}

impl Interface {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hip => "HIP",
            Self::Cuda => "CUDA",
        }
    }

    /// By its name, as settings have it.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Hip, Self::Cuda].into_iter().find(|interface| interface.name().eq_ignore_ascii_case(name))
    }

    /// The interface of a library, by the name of its file.
    pub(super) fn of_file(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.contains("cuda") { Self::Cuda } else { Self::Hip }
    }

    /// File names of its library, the newest first.
    pub(super) fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::Hip => &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"],
            Self::Cuda => &["libcuda.so.1"],
        }
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident($($argument:ty),*): $hip:ident | $cuda:ident;)*) => {
        /// The functions of one library; the library stays loaded.
        pub(super) struct Functions {
            pub(super) interface: Interface,
            /// The file that was asked for.
            pub(super) file: PathBuf,
            $($(#[$doc])* pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            fn find(interface: Interface, file: PathBuf, library: &Library) -> Result<Self, Trouble> {
                Ok(Self {
                    $($field: {
                        let name = match interface {
                            Interface::Hip => stringify!($hip),
                            Interface::Cuda => stringify!($cuda),
                        };
                        // SAFETY: the library's documentation gives functions of these names this signature.
                        unsafe { symbol(library, &[name])? }
                    },)*
                    interface,
                    file,
                })
            }

            /// HIP's, as this program is linked with them.
            #[cfg(feature = "hip-runtime-sys")]
            fn linked() -> Self {
                Self {
                    $($field: {
                        let function: *const () = hip_runtime_sys::$hip as *const ();
                        // SAFETY: the signature differs in names only: enumerations and handles have the size of `c_int` and of a
                        // pointer. A result that the enumeration lacks is a number here.
                        unsafe {
                            core::mem::transmute::<*const (), unsafe extern "C" fn($($argument),*) -> c_int>(function)
                        }
                    },)*
                    interface: Interface::Hip,
                    file: "libamdhip64.so".into(),
                }
            }
        }
    };
}

functions! {
    init(u32): hipInit | cuInit;
    /// The version as HIP or CUDA number it.
    version(*mut c_int): hipRuntimeGetVersion | cuDriverGetVersion;
    device_count(*mut c_int): hipGetDeviceCount | cuDeviceGetCount;
    device_name(*mut c_char, c_int, c_int): hipDeviceGetName | cuDeviceGetName;
    device_memory(*mut usize, c_int): hipDeviceTotalMem | cuDeviceTotalMem_v2;
    device_attribute(*mut c_int, u32, c_int): hipDeviceGetAttribute | cuDeviceGetAttribute;
    module_load(*mut Handle, *const c_void): hipModuleLoadData | cuModuleLoadData;
    module_function(*mut Handle, Handle, *const c_char): hipModuleGetFunction | cuModuleGetFunction;
    /// Function, grid, block, dynamic shared memory, stream, arguments, nothing.
    launch(Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void):
        hipModuleLaunchKernel | cuLaunchKernel;
    allocate(*mut Address, usize): hipMalloc | cuMemAlloc_v2;
    fill_words(Address, u32, usize): hipMemsetD32 | cuMemsetD32_v2;
    copy_to_host(*mut c_void, Address, usize): hipMemcpyDtoH | cuMemcpyDtoH_v2;
    stream_create(*mut Handle, u32): hipStreamCreateWithFlags | cuStreamCreate;
    stream_synchronize(Handle): hipStreamSynchronize | cuStreamSynchronize;
    event_create(*mut Handle, u32): hipEventCreateWithFlags | cuEventCreate;
    event_record(Handle, Handle): hipEventRecord | cuEventRecord;
    event_synchronize(Handle): hipEventSynchronize | cuEventSynchronize;
}

/// Functions of which each interface has its own form; a library without one lacks the feature.
#[derive(Clone, Copy)]
pub(super) enum StreamWait {
    Hip(unsafe extern "C" fn(Handle, *mut c_void, u32, u32, u32) -> c_int),
    Cuda(unsafe extern "C" fn(Handle, Address, u32, u32) -> c_int),
}

/// A loaded library of HIP or CUDA.
pub(super) struct Runtime {
    pub(super) functions: Functions,
    library: Library,
}

impl Runtime {
    /// Loads a library of an interface: the named one, or the newest that the loader finds.
    pub(super) fn load(interface: Interface, asked: Option<&Path>) -> Result<Self, Trouble> {
        if let Some(path) = asked {
            let no_library = |cause| Trouble::NoLibrary { name: path.display().to_string(), cause };
            return Self::of(interface, path.to_owned(), open(path).map_err(no_library)?);
        }
        #[cfg(feature = "hip-runtime-sys")]
        if interface == Interface::Hip {
            return Ok(Self { functions: Functions::linked(), library: Library::this() });
        }
        let mut first = None;
        for name in interface.libraries() {
            match open(Path::new(name)) {
                Ok(library) => return Self::of(interface, name.into(), library),
                Err(cause) => {
                    first.get_or_insert(Trouble::NoLibrary { name: (*name).to_owned(), cause });
                }
            }
        }
        Err(first.expect("there are names, and each was tried"))
    }

    fn of(interface: Interface, file: PathBuf, library: Library) -> Result<Self, Trouble> {
        Ok(Self { functions: Functions::find(interface, file, &library)?, library })
    }

    /// A function of this library that it may lack.
    ///
    /// # Safety
    ///
    /// The function of this name has the type `F`.
    pub(super) unsafe fn optional<F: Copy>(&self, names: &[&str]) -> Result<F, Trouble> {
        // SAFETY: the caller upholds this function's contract.
        unsafe { symbol(&self.library, names) }
    }

    /// How streams wait for a word.
    pub(super) fn stream_wait(&self) -> Result<StreamWait, Trouble> {
        // SAFETY: the signatures of both functions, in HIP's and CUDA's documentation.
        unsafe {
            match self.functions.interface {
                Interface::Hip => self.optional(&["hipStreamWaitValue32"]).map(StreamWait::Hip),
                Interface::Cuda => {
                    self.optional(&["cuStreamWaitValue32_v2", "cuStreamWaitValue32"]).map(StreamWait::Cuda)
                }
            }
        }
    }
}

/// Opens a library for all that is loaded later: vendors' libraries must find the same runtime.
pub(super) fn open(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: a vendor's library may be loaded at any time; its constructors are its own affair.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }
}

/// The first of these symbols.
///
/// # Safety
///
/// The symbols are functions of the type `F`.
pub(super) unsafe fn symbol<F: Copy>(library: &Library, names: &[&str]) -> Result<F, Trouble> {
    // SAFETY: the caller upholds this function's contract.
    let found = names.iter().find_map(|name| unsafe { library.get::<F>(*name) }.ok());
    found
        .map(|function| *function)
        .ok_or_else(|| Trouble::NoFunction(names.first().copied().unwrap_or("").to_owned()))
}
