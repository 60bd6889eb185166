//! Result codes, their names, and each thread's last error.

use core::cell::Cell;
use core::ffi::{CStr, c_char};

use crate::abi::hipError_t;
use crate::{boundary, fault, version};

/// `hipSuccess`.
pub(crate) const SUCCESS: hipError_t = 0;

/// Declares the codes of `hipError_t` with their names in C and this runtime's descriptions.
macro_rules! codes {
    ($($name:ident = $code:literal, $description:literal,)*) => {
        /// A failed call's result code, named as in `hip_runtime_api.h` without the prefix `hipError`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
        #[repr(u32)]
        #[expect(dead_code, reason = "some codes are only passed by callers that ask for their names")]
        pub(crate) enum HipError {
            $(#[error($description)] $name = $code,)*
        }

        /// Name and description of a code, as C strings.
        fn texts(code: hipError_t) -> (&'static CStr, &'static CStr) {
            match code {
                SUCCESS => (c"hipSuccess", c"no error"),
                $($code => (c_string(concat!("hipError", stringify!($name), "\0")),
                            c_string(concat!($description, "\0"))),)*
                _ => (c"hipErrorUnknown", c"unknown error"),
            }
        }
    };
}

codes! {
    InvalidValue = 1, "invalid argument",
    OutOfMemory = 2, "out of memory",
    NotInitialized = 3, "not initialized",
    Deinitialized = 4, "already shut down",
    ProfilerDisabled = 5, "profiler disabled",
    ProfilerNotInitialized = 6, "profiler not initialized",
    ProfilerAlreadyStarted = 7, "profiler already started",
    ProfilerAlreadyStopped = 8, "profiler already stopped",
    InvalidConfiguration = 9, "invalid launch configuration",
    InvalidPitchValue = 12, "invalid pitch",
    InvalidSymbol = 13, "invalid device symbol",
    InvalidDevicePointer = 17, "invalid device pointer",
    InvalidMemcpyDirection = 21, "invalid copy direction",
    InsufficientDriver = 35, "driver too old for this runtime",
    MissingConfiguration = 52, "no launch configuration",
    PriorLaunchFailure = 53, "an earlier launch failed",
    InvalidDeviceFunction = 98, "invalid device function",
    NoDevice = 100, "no device found",
    InvalidDevice = 101, "invalid device ordinal",
    InvalidImage = 200, "invalid device image",
    InvalidContext = 201, "invalid context",
    ContextAlreadyCurrent = 202, "context already current",
    MapFailed = 205, "mapping failed",
    UnmapFailed = 206, "unmapping failed",
    ArrayIsMapped = 207, "array is mapped",
    AlreadyMapped = 208, "already mapped",
    NoBinaryForGpu = 209, "no code object for this device",
    AlreadyAcquired = 210, "already acquired",
    NotMapped = 211, "not mapped",
    NotMappedAsArray = 212, "not mapped as an array",
    NotMappedAsPointer = 213, "not mapped as a pointer",
    ECCNotCorrectable = 214, "memory error that cannot be corrected",
    UnsupportedLimit = 215, "unsupported limit",
    ContextAlreadyInUse = 216, "context already in use",
    PeerAccessUnsupported = 217, "no access between these devices",
    InvalidKernelFile = 218, "invalid kernel file",
    InvalidGraphicsContext = 219, "invalid graphics context",
    InvalidSource = 300, "invalid source",
    FileNotFound = 301, "file not found",
    SharedObjectSymbolNotFound = 302, "no such symbol in the code object",
    SharedObjectInitFailed = 303, "initialization of a shared object failed",
    OperatingSystem = 304, "operating system call failed",
    InvalidHandle = 400, "invalid handle",
    IllegalState = 401, "illegal state",
    NotFound = 500, "not found",
    NotReady = 600, "not ready",
    IllegalAddress = 700, "illegal memory access",
    LaunchOutOfResources = 701, "out of resources for a launch",
    LaunchTimeOut = 702, "launch timed out",
    PeerAccessAlreadyEnabled = 704, "peer access already enabled",
    PeerAccessNotEnabled = 705, "peer access not enabled",
    SetOnActiveProcess = 708, "cannot be set once in use",
    ContextIsDestroyed = 709, "context is destroyed",
    Assert = 710, "device-side assertion failed",
    HostMemoryAlreadyRegistered = 712, "host memory already registered",
    HostMemoryNotRegistered = 713, "host memory not registered",
    LaunchFailure = 719, "unspecified launch failure",
    CooperativeLaunchTooLarge = 720, "too many blocks for a cooperative launch",
    NotSupported = 801, "not supported",
    StreamCaptureUnsupported = 900, "not permitted while the stream captures",
    StreamCaptureInvalidated = 901, "the capture was invalidated",
    StreamCaptureMerge = 902, "two captures would merge",
    StreamCaptureUnmatched = 903, "the capture began on another stream",
    StreamCaptureUnjoined = 904, "a captured stream was not joined",
    StreamCaptureIsolation = 905, "a dependency would cross the capture",
    StreamCaptureImplicit = 906, "an implicit dependency on a capture",
    CapturedEvent = 907, "the event was recorded in a capture",
    StreamCaptureWrongThread = 908, "the capture began in another thread",
    GraphExecUpdateFailure = 910, "the graph cannot be updated like this",
    InvalidChannelDescriptor = 911, "invalid channel descriptor",
    InvalidTexture = 912, "invalid texture",
    Unknown = 999, "unknown error",
    RuntimeMemory = 1052, "memory call of the lower runtime failed",
    RuntimeOther = 1053, "call of the lower runtime failed",
}

fn c_string(terminated: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(terminated.as_bytes())
        .expect("the macro ends each text with its only zero byte")
}

impl HipError {
    pub(crate) const fn code(self) -> hipError_t {
        self as hipError_t
    }
}

thread_local! {
    static LAST: Cell<hipError_t> = const { Cell::new(SUCCESS) };
}

/// Stores a call's result. Up to HIP 6 a success overwrites an earlier failure; since
/// [7.0](https://rocm.docs.amd.com/projects/HIP/en/latest/hip-7-changes.html) it does not, and work that is not ready counts as
/// no failure.
pub(crate) fn set_last(code: hipError_t) {
    let is_failure = code != SUCCESS && code != HipError::NotReady.code();
    if is_failure || version::major() < 7 {
        // A call from a destructor that runs after this thread's locals are destroyed stores nothing, as
        // intended.
        let _ = LAST.try_with(|last| last.set(code));
    }
}

/// `hipGetLastError`, `hipExtGetLastError`: returns and clears this thread's last error.
pub(crate) unsafe extern "C" fn last() -> hipError_t {
    fault::or(LAST.try_with(|last| last.replace(SUCCESS)).unwrap_or(SUCCESS))
}

/// `hipPeekAtLastError`
pub(crate) unsafe extern "C" fn peek() -> hipError_t {
    fault::or(LAST.try_with(Cell::get).unwrap_or(SUCCESS))
}

/// `hipGetErrorName`
pub(crate) unsafe extern "C" fn name(code: hipError_t) -> *const c_char {
    texts(code).0.as_ptr()
}

/// `hipGetErrorString`; the wording is this runtime's own.
pub(crate) unsafe extern "C" fn string(code: hipError_t) -> *const c_char {
    texts(code).1.as_ptr()
}

/// `hipDrvGetErrorName`
pub(crate) unsafe extern "C" fn driver_name(code: hipError_t, text: *mut *const c_char) -> hipError_t {
    // SAFETY: the caller passes null or a writable out-parameter.
    boundary::call(|| unsafe { boundary::write(text, texts(code).0.as_ptr()) })
}

/// `hipDrvGetErrorString`
pub(crate) unsafe extern "C" fn driver_string(code: hipError_t, text: *mut *const c_char) -> hipError_t {
    // SAFETY: the caller passes null or a writable out-parameter.
    boundary::call(|| unsafe { boundary::write(text, texts(code).1.as_ptr()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_c_names() {
        assert_eq!(texts(98).0, c"hipErrorInvalidDeviceFunction");
        assert_eq!(texts(0).0, c"hipSuccess");
        assert_eq!(texts(123_456).0, c"hipErrorUnknown");
        assert_eq!(HipError::NotSupported.code(), 801);
    }

    #[test]
    fn the_last_error_is_per_thread_and_cleared_by_reading() {
        set_last(HipError::InvalidValue.code());
        let elsewhere = std::thread::spawn(|| LAST.get()).join().unwrap();
        assert_eq!(elsewhere, SUCCESS);
        // SAFETY: these take no arguments.
        unsafe {
            assert_eq!(peek(), 1);
            assert_eq!(last(), 1);
            assert_eq!(last(), SUCCESS);
        }
    }
}
