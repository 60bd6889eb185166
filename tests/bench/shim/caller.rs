//! The process that calls: finds HIP's functions as the dynamic linker would bind them, and times each in a loop.

use std::{
    error::Error,
    ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void},
    hint::black_box,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    ptr::null_mut,
    time::Instant,
};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};
use xsched_tests::artifacts::{app, hip_sim};

/// What is timed: a call that nobody cares about, one that drains a stream, a set and a launch.
pub(crate) const FUNCTIONS: [&str; 4] =
    ["hipGetDevice", "hipStreamSynchronize", "hipMemsetAsync", "hipModuleLaunchKernel"];

const CALLS: u32 = 100_000;
const WARM_UP_CALLS: u32 = 1_000;

type Handle = *mut c_void;
type HipError = c_int;

const BYTES: usize = 1024;

/// Prints a line a function: name, nanoseconds per call, the library that was entered; tabs between.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    // SAFETY: the simulator's library has no initialisers with conditions; it stays loaded to the end.
    let _runtime =
        unsafe { Library::open(Some(hip_sim(6).join("libamdhip64.so.6")), RTLD_NOW | RTLD_GLOBAL)? };
    // The program's own handle searches the global scope in the linker's order: a preloaded library first.
    let scope = Library::this();

    let code = std::fs::read(app("obj/module_step.co"))?;
    let stream: Handle = null_mut();
    let (mut module, mut kernel, mut memory): (Handle, Handle, Handle) = (null_mut(), null_mut(), null_mut());
    let mut device: c_int = 0;
    // SAFETY: the types are those of HIP's declarations for these names.
    let hip = unsafe { Hip::find(&scope)? };
    // SAFETY: every pointer is to a local that outlives the call, and `code` is a whole code object.
    unsafe {
        check("hipModuleLoadData", (hip.module_load_data)(&raw mut module, code.as_ptr().cast()))?;
        check(
            "hipModuleGetFunction",
            (hip.module_get_function)(&raw mut kernel, module, c"module_step".as_ptr()),
        )?;
        check("hipMalloc", (hip.malloc)(&raw mut memory, BYTES))?;
    }
    // module_step(unsigned *y, const unsigned *x, unsigned key, unsigned size)
    let (mut key, mut size): (c_uint, c_uint) = (7, (BYTES / 4) as c_uint);
    let (mut y, mut x) = (memory, memory);
    let mut arguments: [Handle; 4] =
        [(&raw mut y).cast(), (&raw mut x).cast(), (&raw mut key).cast(), (&raw mut size).cast()];

    // SAFETY: as above; `device` is written, the stream is the default one, and the memory has `BYTES` bytes.
    unsafe {
        time("hipGetDevice", &hip.get_device, |f| f(&raw mut device))?;
        time("hipStreamSynchronize", &hip.stream_synchronize, |f| f(stream))?;
        time("hipMemsetAsync", &hip.memset_async, |f| f(memory, 0, BYTES, stream))?;
        time("hipModuleLaunchKernel", &hip.module_launch_kernel, |f| {
            f(kernel, 4, 1, 1, 64, 1, 1, 0, stream, arguments.as_mut_ptr(), null_mut())
        })?;
    }
    black_box(device);
    Ok(())
}

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

/// The functions that are called, with HIP's types.
struct Hip {
    module_load_data: Symbol<unsafe extern "C" fn(*mut Handle, *const c_void) -> HipError>,
    module_get_function: Symbol<unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> HipError>,
    malloc: Symbol<unsafe extern "C" fn(*mut Handle, usize) -> HipError>,
    get_device: Symbol<unsafe extern "C" fn(*mut c_int) -> HipError>,
    stream_synchronize: Symbol<unsafe extern "C" fn(Handle) -> HipError>,
    memset_async: Symbol<unsafe extern "C" fn(Handle, c_int, usize, Handle) -> HipError>,
    module_launch_kernel: Symbol<ModuleLaunchKernel>,
}

impl Hip {
    /// # Safety
    ///
    /// `scope` must bind these names to HIP's functions.
    unsafe fn find(scope: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: the caller vouches for the names; the types are those of HIP's headers.
        unsafe {
            Ok(Self {
                module_load_data: scope.get("hipModuleLoadData")?,
                module_get_function: scope.get("hipModuleGetFunction")?,
                malloc: scope.get("hipMalloc")?,
                get_device: scope.get("hipGetDevice")?,
                stream_synchronize: scope.get("hipStreamSynchronize")?,
                memset_async: scope.get("hipMemsetAsync")?,
                module_launch_kernel: scope.get("hipModuleLaunchKernel")?,
            })
        }
    }
}

fn time<F: Copy>(
    name: &str,
    function: &Symbol<F>,
    mut call: impl FnMut(F) -> HipError,
) -> Result<(), Box<dyn Error>> {
    let library = library_of(function)?;
    for _ in 0..WARM_UP_CALLS {
        check(name, call(**function))?;
    }
    let started = Instant::now();
    for _ in 0..CALLS {
        check(name, call(**function))?;
    }
    let time_ns = started.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS);
    println!("{name}\t{time_ns}\t{}", library.display());
    Ok(())
}

/// The file that a function is in.
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

fn check(function: &str, error: HipError) -> Result<(), Box<dyn Error>> {
    if error == 0 { Ok(()) } else { Err(format!("{function} returned {error}").into()) }
}
