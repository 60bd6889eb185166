//! Host functions that a stream calls in its order.

use core::ffi::c_void;

use crate::abi::{hipError_t, hipHostFn_t, hipStream_t, hipStreamCallback_t};
use crate::engine::Command;
use crate::error::{HipError, SUCCESS};
use crate::operation::{HostCall, Operation};
use crate::{boundary, capture, stream};

/// A pointer of the application that is sent to the stream's thread.
struct Sent(*mut c_void);

// SAFETY: it is only passed back to the application's own function, which by HIP's contract runs on another
// thread.
unsafe impl Send for Sent {}

impl Sent {
    /// Takes `self` by value, so that a closure captures the whole and not the bare pointer in it.
    fn into_inner(self) -> *mut c_void {
        self.0
    }
}

/// `hipLaunchHostFunc`
pub(crate) unsafe extern "C" fn launch(
    stream: hipStream_t,
    function: hipHostFn_t,
    user: *mut c_void,
) -> hipError_t {
    boundary::call(|| {
        function.ok_or(HipError::InvalidValue)?;
        let stream = stream::resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        let call = HostCall { function, user };
        if stream.is_captured()? {
            return capture::add(&stream, Operation::Host(call));
        }
        stream.submit(Command::transfer(move || call.call()));
        Ok(())
    })
}

/// `hipLaunchHostFunc_spt`
pub(crate) unsafe extern "C" fn launch_spt(
    stream: hipStream_t,
    function: hipHostFn_t,
    user: *mut c_void,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { launch(stream::or_per_thread(stream), function, user) }
}

/// `hipStreamAddCallback`: like a host function, but it also gets the stream and the code of success.
pub(crate) unsafe extern "C" fn add_callback(
    stream: hipStream_t,
    callback: hipStreamCallback_t,
    user: *mut c_void,
    flags: u32,
) -> hipError_t {
    boundary::call(|| {
        let callback = callback.filter(|_| flags == 0).ok_or(HipError::InvalidValue)?;
        let target = stream::resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        let (stream, user) = (Sent(stream), Sent(user));
        let call = move || {
            // SAFETY: the application passed the function together with its arguments.
            unsafe { callback(stream.into_inner(), SUCCESS, user.into_inner()) };
        };
        target.submit(Command::transfer(call));
        Ok(())
    })
}

/// `hipStreamAddCallback_spt`
pub(crate) unsafe extern "C" fn add_callback_spt(
    stream: hipStream_t,
    callback: hipStreamCallback_t,
    user: *mut c_void,
    flags: u32,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { add_callback(stream::or_per_thread(stream), callback, user, flags) }
}
