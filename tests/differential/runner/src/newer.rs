//! Functions of newer runtimes, and their replacements in older ones: `newer.cpp`, compiled for each runtime.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::boxes::{BoxOperation, PeerBox};
use crate::error::Error;
use crate::hip::{self, Code, Handle};
use crate::process::{KERNELS, check};

unsafe extern "C" {
    fn newer_launch_by_config(
        kernel: *const c_void,
        threads: c_uint,
        arguments: *mut Handle,
        stream: Handle,
        is_cooperative: c_int,
    ) -> Code;
    fn newer_launch_by_driver_config(
        function: Handle,
        threads: c_uint,
        arguments: *mut Handle,
        stream: Handle,
    ) -> Code;
    fn newer_launch_cooperative_by_driver_config(
        function: Handle,
        threads: c_uint,
        arguments: *mut Handle,
        stream: Handle,
    ) -> Code;
    fn newer_launch_not_cooperative(
        kernel: *const c_void,
        threads: c_uint,
        arguments: *mut Handle,
        stream: Handle,
    ) -> Code;
    fn newer_launch_with_events(
        function: Handle,
        threads: c_uint,
        arguments: *mut Handle,
        stream: Handle,
        start: Handle,
        stop: Handle,
    ) -> Code;
    pub(crate) fn newer_record(event: Handle, stream: Handle) -> Code;
    fn newer_function_of_symbol(kernel: *const c_void, function: *mut Handle) -> Code;
    fn newer_function_of_library(path: *const c_char, name: *const c_char, function: *mut Handle) -> Code;
    fn newer_copy_peer_box(copy: *const PeerBox, stream: Handle) -> Code;
    fn newer_copy_halves(to: Handle, from: Handle, size: usize, stream: Handle) -> Code;
    fn newer_copy_boxes(count: usize, copies: *const BoxOperation, stream: Handle) -> Code;
    fn newer_write_words(stream: Handle, word: Handle, value: c_uint, wide: u64) -> Code;
    fn newer_wait_for_word(stream: Handle, word: Handle, at_least: c_uint) -> Code;
    fn newer_fill_rows(to: Handle, pitch: usize, value: u8, height: usize, stream: Handle) -> Code;
    fn newer_copy_to_array(array: Handle, from: Handle, size: usize, stream: Handle) -> Code;
    fn newer_copy_from_array(to: Handle, array: Handle, size: usize, stream: Handle) -> Code;
    fn newer_prefetch(address: Handle, size: usize, device: c_int, stream: Handle) -> Code;
    fn newer_launch_with_events_by_hcc(
        function: Handle,
        threads: c_uint,
        extra: *mut Handle,
        stream: Handle,
        start: Handle,
        stop: Handle,
    ) -> Code;
    fn newer_memory_type(is_host: c_int, is_array: c_int) -> c_uint;
}

/// Launches one block of this many threads.
///
/// # Safety
///
/// As for `hipLaunchKernel`.
pub(crate) unsafe fn launch_by_config(
    kernel: *const c_void,
    threads: c_uint,
    arguments: *mut Handle,
    stream: Handle,
    is_cooperative: bool,
) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_launch_by_config(kernel, threads, arguments, stream, is_cooperative.into()) }
}

/// The same for a function.
///
/// # Safety
///
/// As for `hipModuleLaunchKernel`.
pub(crate) unsafe fn launch_by_driver_config(
    function: Handle,
    threads: c_uint,
    arguments: *mut Handle,
    stream: Handle,
) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_launch_by_driver_config(function, threads, arguments, stream) }
}

/// The same as a cooperative launch.
///
/// # Safety
///
/// As for `hipModuleLaunchKernel`.
pub(crate) unsafe fn launch_cooperative_by_driver_config(
    function: Handle,
    threads: c_uint,
    arguments: *mut Handle,
    stream: Handle,
) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_launch_cooperative_by_driver_config(function, threads, arguments, stream) }
}

/// A launch that is refused for its attributes, or for zero blocks in runtimes without attributes.
///
/// # Safety
///
/// As for `hipLaunchKernel`.
pub(crate) unsafe fn launch_not_cooperative(
    kernel: *const c_void,
    threads: c_uint,
    arguments: *mut Handle,
    stream: Handle,
) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_launch_not_cooperative(kernel, threads, arguments, stream) }
}

/// The same between two events.
///
/// # Safety
///
/// As for `hipExtModuleLaunchKernel`.
pub(crate) unsafe fn launch_with_events(
    function: Handle,
    threads: c_uint,
    arguments: *mut Handle,
    stream: Handle,
    start: Handle,
    stop: Handle,
) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_launch_with_events(function, threads, arguments, stream, start, stop) }
}

/// # Safety
///
/// As for `hipMemcpy3DPeerAsync`.
pub(crate) unsafe fn copy_peer_box(copy: *const PeerBox, stream: Handle) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_copy_peer_box(copy, stream) }
}

/// Copies both halves of a range in one call.
///
/// # Safety
///
/// As for `hipMemcpyBatchAsync`.
pub(crate) unsafe fn copy_halves(to: Handle, from: Handle, size: usize, stream: Handle) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_copy_halves(to, from, size, stream) }
}

/// Copies boxes in one call; none if the runtime has no such call.
///
/// # Safety
///
/// As for `hipMemcpy3DBatchAsync`.
pub(crate) unsafe fn copy_boxes(copies: *const [BoxOperation; 2], stream: Handle) -> Option<Code> {
    // SAFETY: the caller's promise, passed on.
    let code = unsafe { newer_copy_boxes(2, copies.cast(), stream) };
    (code >= 0).then_some(code)
}

/// Writes eight bytes and then the first four of them, in one call.
///
/// # Safety
///
/// As for `hipStreamBatchMemOp`.
pub(crate) unsafe fn write_words(stream: Handle, word: Handle, value: c_uint, wide: u64) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_write_words(stream, word, value, wide) }
}

/// # Safety
///
/// As for `hipStreamBatchMemOp`.
pub(crate) unsafe fn wait_for_word(stream: Handle, word: Handle, at_least: c_uint) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_wait_for_word(stream, word, at_least) }
}

/// Fills whole rows, in elements of one, two or four bytes.
///
/// # Safety
///
/// As for `hipMemsetD2D8Async`.
pub(crate) unsafe fn fill_rows(to: Handle, pitch: usize, value: u8, height: usize, stream: Handle) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_fill_rows(to, pitch, value, height, stream) }
}

/// Copies into the first row.
///
/// # Safety
///
/// As for `hipMemcpyHtoAAsync`.
pub(crate) unsafe fn copy_to_array(array: Handle, from: Handle, size: usize, stream: Handle) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_copy_to_array(array, from, size, stream) }
}

/// Copies out of the first row.
///
/// # Safety
///
/// As for `hipMemcpyAtoHAsync`.
pub(crate) unsafe fn copy_from_array(to: Handle, array: Handle, size: usize, stream: Handle) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_copy_from_array(to, array, size, stream) }
}

/// # Safety
///
/// As for `hipMemPrefetchAsync_v2`.
pub(crate) unsafe fn prefetch(address: Handle, size: usize, device: c_int, stream: Handle) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_prefetch(address, size, device, stream) }
}

/// Launches between two events, with the arguments in a buffer.
///
/// # Safety
///
/// As for `hipHccModuleLaunchKernel`.
pub(crate) unsafe fn launch_with_events_by_hcc(
    function: Handle,
    threads: c_uint,
    extra: *mut Handle,
    stream: Handle,
    start: Handle,
    stop: Handle,
) -> Code {
    // SAFETY: the caller's promise, passed on.
    unsafe { newer_launch_with_events_by_hcc(function, threads, extra, stream, start, stop) }
}

/// `hipMemoryType`, whose numbers differ between releases.
pub(crate) fn memory_type(is_host: bool, is_array: bool) -> c_uint {
    // SAFETY: numbers only.
    unsafe { newer_memory_type(is_host.into(), is_array.into()) }
}

/// The kernels' functions by their host addresses; those of the module if the runtime has no such query.
pub(crate) fn of_symbols(of_module: [Handle; KERNELS.len()]) -> Result<[Handle; KERNELS.len()], Error> {
    let mut functions = of_module;
    for (number, function) in functions.iter_mut().enumerate() {
        // SAFETY: a kernel of this program, and an out-parameter for its function.
        let code = unsafe { newer_function_of_symbol(hip::diff_kernel(number as c_uint), function) };
        check("hipGetFuncBySymbol", code)?;
    }
    Ok(functions)
}

/// The kernels of the module's file as a library; those of the module if the runtime has no libraries.
pub(crate) fn of_library(
    path: &CStr,
    of_module: [Handle; KERNELS.len()],
) -> Result<[Handle; KERNELS.len()], Error> {
    let mut functions = of_module;
    for (name, function) in KERNELS.iter().zip(&mut functions) {
        // SAFETY: terminated strings, and an out-parameter for the function.
        let code = unsafe { newer_function_of_library(path.as_ptr(), name.as_ptr(), function) };
        check("hipLibraryGetKernel", code)?;
    }
    Ok(functions)
}
