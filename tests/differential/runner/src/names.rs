//! Functions that have two names: their own, and one with the suffix `_spt`, which code compiled for
//! per-thread null streams calls (`-DHIP_API_PER_THREAD_DEFAULT_STREAM`). For the latter, handle 0 means the
//! thread's own stream.
//!
//! Each thread selects its names. Streams stay the same, so calls for the shared null stream keep the functions' own names: the others
//! take `hipStreamLegacy` for the thread's own stream, too (ROCm 6.4 and 7.2, `PER_THREAD_DEFAULT_STREAM` in
//! <https://github.com/ROCm/clr/blob/rocm-6.3.0/hipamd/src/hip_internal.hpp>).

#![expect(non_snake_case, clippy::too_many_arguments, reason = "names and signatures are HIP's")]

use core::cell::Cell;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr;

use xsched_differential::program::Names;

use crate::boxes::{Box3d, Extent, Pitched};
use crate::hip::{Callback, Code, Dim3, Handle, HostFunction};

thread_local! {
    static NAMES: Cell<Names> = const { Cell::new(Names::Plain) };
}

/// Selects the names of this thread's functions from now on.
pub(crate) fn choose(names: Names) {
    NAMES.set(names);
}

/// Whether this thread uses the functions' own names.
pub(crate) fn are_plain() -> bool {
    !are_per_thread()
}

fn are_per_thread() -> bool {
    NAMES.get() == Names::PerThread
}

/// The handles of the null stream that all threads share, and of the thread's own.
const NULL: usize = 0;
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// A stream's handle for functions in which null means the thread's own stream. None: they cannot name it.
pub(crate) fn of_thread(stream: Handle) -> Option<Handle> {
    match stream.addr() {
        NULL | LEGACY => None,
        PER_THREAD => Some(ptr::null_mut()),
        _ => Some(stream),
    }
}

/// Defines each of these functions, which calls the name that the thread uses.
macro_rules! functions {
    (by $stream:ident; $(fn $name:ident / $spt:ident($($argument:ident: $type:ty),*);)*) => {
        mod plain {
            use super::*;
            unsafe extern "C" {
                $(pub(super) fn $name($($argument: $type),*) -> Code;)*
            }
        }
        unsafe extern "C" {
            $(pub(crate) fn $spt($($argument: $type),*) -> Code;)*
        }
        $(
            /// # Safety
            ///
            /// As for HIP's function.
            pub(crate) unsafe fn $name($($argument: $type),*) -> Code {
                // SAFETY: the caller upholds this function's contract.
                unsafe {
                    if !are_per_thread() {
                        return plain::$name($($argument),*);
                    }
                    match of_thread($stream) {
                        Some($stream) => $spt($($argument),*),
                        None => {
                            // `hipEventRecord` does not know the other handle (6.4 and 7.2).
                            let $stream = ptr::null_mut();
                            plain::$name($($argument),*)
                        }
                    }
                }
            }
        )*
    };
}

functions! {
    by stream;
    fn hipMemcpyAsync / hipMemcpyAsync_spt(
        to: Handle, from: Handle, size: usize, kind: c_uint, stream: Handle
    );
    fn hipMemcpy2DAsync / hipMemcpy2DAsync_spt(
        to: Handle, to_pitch: usize, from: Handle, from_pitch: usize, width: usize, height: usize,
        kind: c_uint, stream: Handle
    );
    fn hipMemcpy2DToArrayAsync / hipMemcpy2DToArrayAsync_spt(
        to: Handle, x: usize, y: usize, from: Handle, pitch: usize, width: usize, height: usize,
        kind: c_uint, stream: Handle
    );
    fn hipMemcpy2DFromArrayAsync / hipMemcpy2DFromArrayAsync_spt(
        to: Handle, pitch: usize, from: Handle, x: usize, y: usize, width: usize, height: usize,
        kind: c_uint, stream: Handle
    );
    fn hipMemcpy3DAsync / hipMemcpy3DAsync_spt(copy: *const Box3d, stream: Handle);
    fn hipMemcpyToSymbolAsync / hipMemcpyToSymbolAsync_spt(
        to: *const c_void, from: Handle, size: usize, offset: usize, kind: c_uint, stream: Handle
    );
    fn hipMemcpyFromSymbolAsync / hipMemcpyFromSymbolAsync_spt(
        to: Handle, from: *const c_void, size: usize, offset: usize, kind: c_uint, stream: Handle
    );
    fn hipMemsetAsync / hipMemsetAsync_spt(to: Handle, value: c_int, size: usize, stream: Handle);
    fn hipMemset2DAsync / hipMemset2DAsync_spt(
        to: Handle, pitch: usize, value: c_int, width: usize, height: usize, stream: Handle
    );
    fn hipMemset3DAsync / hipMemset3DAsync_spt(to: Pitched, value: c_int, extent: Extent, stream: Handle);
    fn hipLaunchKernel / hipLaunchKernel_spt(
        kernel: *const c_void, grid: Dim3, block: Dim3, arguments: *mut Handle, lds_size: usize,
        stream: Handle
    );
    fn hipLaunchCooperativeKernel / hipLaunchCooperativeKernel_spt(
        kernel: *const c_void, grid: Dim3, block: Dim3, arguments: *mut Handle, lds_size: c_uint,
        stream: Handle
    );
    fn hipLaunchHostFunc / hipLaunchHostFunc_spt(
        stream: Handle, function: Option<HostFunction>, user: Handle
    );
    fn hipStreamAddCallback / hipStreamAddCallback_spt(
        stream: Handle, callback: Callback, user: Handle, flags: c_uint
    );
    fn hipStreamWaitEvent / hipStreamWaitEvent_spt(stream: Handle, event: Handle, flags: c_uint);
    fn hipStreamSynchronize / hipStreamSynchronize_spt(stream: Handle);
    fn hipStreamQuery / hipStreamQuery_spt(stream: Handle);
    fn hipStreamBeginCapture / hipStreamBeginCapture_spt(stream: Handle, mode: c_uint);
    fn hipStreamEndCapture / hipStreamEndCapture_spt(stream: Handle, out: *mut Handle);
    fn hipEventRecord / hipEventRecord_spt(event: Handle, stream: Handle);
    fn hipGraphLaunch / hipGraphLaunch_spt(graph: Handle, stream: Handle);
}
