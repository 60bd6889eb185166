//! HIP as calling processes see it: found as the dynamic linker would bind it, with a kernel and memory.

use std::{
    error::Error,
    ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    ptr::null_mut,
};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};
use xsched_tests::artifacts::{app, hip_sim};

pub(crate) type Handle = *mut c_void;
pub(crate) type HipError = c_int;

/// `hipErrorNotReady`
pub(crate) const NOT_READY: HipError = 600;
/// `hipStreamNonBlocking`
const NON_BLOCKING: c_uint = 1;

const BYTES: usize = 1024;

/// Function, grid and block by axis, shared memory, stream, arguments, extra.
type ModuleLaunchKernel = unsafe extern "C" fn(
    Handle,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    Handle,
    *mut Handle,
    *mut Handle,
) -> HipError;

/// The called functions, with the types of HIP's headers.
struct Functions {
    module_load_data: Symbol<unsafe extern "C" fn(*mut Handle, *const c_void) -> HipError>,
    module_get_function: Symbol<unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> HipError>,
    malloc: Symbol<unsafe extern "C" fn(*mut Handle, usize) -> HipError>,
    get_device: Symbol<unsafe extern "C" fn(*mut c_int) -> HipError>,
    stream_create: Symbol<unsafe extern "C" fn(*mut Handle, c_uint) -> HipError>,
    stream_create_with_priority: Symbol<unsafe extern "C" fn(*mut Handle, c_uint, c_int) -> HipError>,
    stream_query: Symbol<unsafe extern "C" fn(Handle) -> HipError>,
    stream_synchronize: Symbol<unsafe extern "C" fn(Handle) -> HipError>,
    memset_async: Symbol<unsafe extern "C" fn(Handle, c_int, usize, Handle) -> HipError>,
    module_launch_kernel: Symbol<ModuleLaunchKernel>,
}

/// The runtime, a kernel, and memory for it. Several threads may use it, as with HIP.
pub(crate) struct Hip {
    functions: Functions,
    kernel: Handle,
    memory: Handle,
    _runtime: Library,
}

// SAFETY: HIP's handles and functions belong to no thread, and there are no other fields.
unsafe impl Sync for Hip {}

/// Arguments of the kernel `module_step(unsigned *y, const unsigned *x, unsigned key, unsigned size)`.
#[repr(C)]
struct Arguments {
    y: Handle,
    x: Handle,
    key: c_uint,
    size: c_uint,
}

impl Hip {
    /// Loads the simulated runtime into the global scope, and finds its functions in the linker's order: in a
    /// preloaded library first.
    pub(crate) fn open() -> Result<Self, Box<dyn Error>> {
        // SAFETY: the simulator's initialisers have no requirements; it stays loaded to the end.
        let runtime =
            unsafe { Library::open(Some(hip_sim(6).join("libamdhip64.so.6")), RTLD_NOW | RTLD_GLOBAL)? };
        // SAFETY: these are the names and types of HIP's headers.
        let functions = unsafe { Functions::find(&Library::this())? };
        let code = std::fs::read(app("obj/module_step.co"))?;
        let (mut module, mut kernel, mut memory): (Handle, Handle, Handle) =
            (null_mut(), null_mut(), null_mut());
        // SAFETY: every pointer is to a local that outlives the call, and `code` is a whole code object.
        unsafe {
            check((functions.module_load_data)(&raw mut module, code.as_ptr().cast()))?;
            check((functions.module_get_function)(&raw mut kernel, module, c"module_step".as_ptr()))?;
            check((functions.malloc)(&raw mut memory, BYTES))?;
        }
        Ok(Self { functions, kernel, memory, _runtime: runtime })
    }

    /// A stream that is not ordered with the null stream.
    pub(crate) fn stream(&self) -> Result<Handle, Box<dyn Error>> {
        let mut stream = null_mut();
        // SAFETY: an out-parameter for the stream.
        check(unsafe { (self.functions.stream_create)(&raw mut stream, NON_BLOCKING) })?;
        Ok(stream)
    }

    /// The same, more urgent than others.
    pub(crate) fn urgent_stream(&self) -> Result<Handle, Box<dyn Error>> {
        const URGENT: c_int = -1;
        let mut stream = null_mut();
        // SAFETY: an out-parameter for the stream.
        check(unsafe {
            (self.functions.stream_create_with_priority)(&raw mut stream, NON_BLOCKING, URGENT)
        })?;
        Ok(stream)
    }

    pub(crate) fn get_device(&self) -> HipError {
        let mut device = 0;
        // SAFETY: an out-parameter for the number.
        unsafe { (self.functions.get_device)(&raw mut device) }
    }

    pub(crate) fn query(&self, stream: Handle) -> HipError {
        // SAFETY: a stream of this runtime, or the null stream.
        unsafe { (self.functions.stream_query)(stream) }
    }

    pub(crate) fn synchronize(&self, stream: Handle) -> HipError {
        // SAFETY: as above.
        unsafe { (self.functions.stream_synchronize)(stream) }
    }

    pub(crate) fn memset(&self, stream: Handle) -> HipError {
        // SAFETY: the memory has `BYTES` bytes, and is never freed.
        unsafe { (self.functions.memset_async)(self.memory, 0, BYTES, stream) }
    }

    pub(crate) fn launch(&self, stream: Handle) -> HipError {
        let mut own = Arguments {
            y: self.memory,
            x: self.memory,
            key: 7,
            size: (BYTES / size_of::<c_uint>()) as c_uint,
        };
        let mut pointers: [Handle; 4] = [
            (&raw mut own.y).cast(),
            (&raw mut own.x).cast(),
            (&raw mut own.key).cast(),
            (&raw mut own.size).cast(),
        ];
        // SAFETY: the kernel's four arguments, which the call copies.
        unsafe {
            (self.functions.module_launch_kernel)(
                self.kernel,
                4,
                1,
                1,
                64,
                1,
                1,
                0,
                stream,
                pointers.as_mut_ptr(),
                null_mut(),
            )
        }
    }

    /// The libraries that calls of these functions enter first.
    pub(crate) fn entered(&self) -> Result<[PathBuf; 4], Box<dyn Error>> {
        let Functions { get_device, stream_synchronize, memset_async, module_launch_kernel, .. } =
            &self.functions;
        Ok([
            library_of(get_device)?,
            library_of(stream_synchronize)?,
            library_of(memset_async)?,
            library_of(module_launch_kernel)?,
        ])
    }
}

impl Functions {
    /// # Safety
    ///
    /// `scope` must bind these names to HIP's functions.
    unsafe fn find(scope: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: the caller guarantees the names; the types are those of HIP's headers.
        unsafe {
            Ok(Self {
                module_load_data: scope.get("hipModuleLoadData")?,
                module_get_function: scope.get("hipModuleGetFunction")?,
                malloc: scope.get("hipMalloc")?,
                get_device: scope.get("hipGetDevice")?,
                stream_create: scope.get("hipStreamCreateWithFlags")?,
                stream_create_with_priority: scope.get("hipStreamCreateWithPriority")?,
                stream_query: scope.get("hipStreamQuery")?,
                stream_synchronize: scope.get("hipStreamSynchronize")?,
                memset_async: scope.get("hipMemsetAsync")?,
                module_launch_kernel: scope.get("hipModuleLaunchKernel")?,
            })
        }
    }
}

/// The file that contains a function.
fn library_of<F>(function: &Symbol<F>) -> Result<PathBuf, Box<dyn Error>> {
    let address = function.clone().as_raw_ptr();
    // SAFETY: an all-zero `Dl_info` is valid: null pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `dladdr` takes any address and fills `info`, whose name then points to the loader's own text.
    let name = unsafe {
        if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
            return Err("dladdr knows no library for a function that was found".into());
        }
        CStr::from_ptr(info.dli_fname)
    };
    Ok(OsStr::from_bytes(name.to_bytes()).into())
}

/// An error for a call that failed.
pub(crate) fn check(error: HipError) -> Result<(), Box<dyn Error>> {
    if error == 0 { Ok(()) } else { Err(format!("a HIP call returned {error}").into()) }
}
