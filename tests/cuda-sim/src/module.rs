//! Modules, libraries and the functions in them. A library is a module here, and a kernel of a library is its function.

use core::ffi::{c_char, c_int, c_void};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use crate::context::{check_initialized, enter};
use crate::export::exports;
use crate::hip;
use crate::result::{Handle, INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, of_hip, write};

/// Functions by handle, with the module of each.
static FUNCTIONS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
/// Handles that are kernels of libraries: launches take them, functions that ask about `CUfunction` do not.
static KERNELS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Kernels of libraries are told apart from their functions by this bit, which no address of a function has.
const KERNEL: usize = 1;

/// The function that a handle of a function or of a kernel means.
pub(crate) fn function_of(handle: Handle) -> Option<Handle> {
    let is_kernel = lock(&KERNELS).contains(&(handle as usize));
    Some(if is_kernel { handle.wrapping_byte_sub(KERNEL) } else { handle })
        .filter(|function| !function.is_null())
}

fn lock<T>(mutex: &'static Mutex<T>) -> std::sync::MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// # Safety
///
/// `out` is null or valid for a write; `name` is a terminated string.
unsafe fn find(out: *mut Handle, module: Handle, name: *const c_char) -> Result<Handle, u32> {
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut function = core::ptr::null_mut();
    // SAFETY: the caller upholds this function's contract.
    of_hip(unsafe { hip::hipModuleGetFunction(&raw mut function, module, name) })?;
    lock(&FUNCTIONS).insert(function as usize, module as usize);
    Ok(function)
}

/// # Safety
///
/// `name` is null or valid for a write.
unsafe fn name_of(name: *mut *const c_char, function: Handle) -> Result<(), u32> {
    // SAFETY: handles are looked up, not followed.
    let text = unsafe { hip::hipKernelNameRef(function) };
    if text.is_null() {
        return Err(INVALID_HANDLE);
    }
    // SAFETY: the caller upholds this function's contract.
    unsafe { write(name, text) }
}

/// # Safety
///
/// Out-parameters are null or valid for a write.
unsafe fn parameter(function: Handle, index: usize, offset: *mut usize, size: *mut usize) -> Result<(), u32> {
    let (mut at, mut len) = (0, 0);
    // SAFETY: local out-parameters.
    of_hip(unsafe { hip::hipKernelGetParamInfo(function, index, &raw mut at, &raw mut len) })?;
    // SAFETY: the caller upholds this function's contract.
    unsafe {
        write(offset, at)?;
        if size.is_null() { Ok(()) } else { write(size, len) }
    }
}

fn forget(module: Handle) {
    lock(&FUNCTIONS).retain(|function, of| {
        let goes = *of == module as usize;
        if goes {
            lock(&KERNELS).remove(&(function + KERNEL));
        }
        !goes
    });
}

exports! {
    @2000 cuModuleLoad(module: *mut Handle, path: *const c_char) { enter()?; of_hip(hip::hipModuleLoad(module, path)) }
    @2000 cuModuleLoadData(module: *mut Handle, image: *const c_void) { enter()?; of_hip(hip::hipModuleLoadData(module, image)) }
    @2010 cuModuleLoadDataEx(
        module: *mut Handle, image: *const c_void, _count: u32, _options: *mut u32, _values: *mut *mut c_void,
    ) {
        enter()?;
        of_hip(hip::hipModuleLoadData(module, image))
    }
    @2000 cuModuleLoadFatBinary(module: *mut Handle, image: *const c_void) {
        enter()?;
        of_hip(hip::hipModuleLoadData(module, image))
    }
    @2000 cuModuleUnload(module: Handle) { enter()?; forget(module); of_hip(hip::hipModuleUnload(module)) }
    @2000 cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        enter()?;
        let found = find(function, module, name)?;
        write(function, found)
    }
    @12040 cuModuleGetFunctionCount(count: *mut u32, module: Handle) { of_hip(hip::hipModuleGetFunctionCount(count, module)) }
    // CU_MODULE_EAGER_LOADING
    @11070 cuModuleGetLoadingMode(mode: *mut u32) { check_initialized()?; write(mode, 1) }
    @12000 cuLibraryLoadData(
        library: *mut Handle, image: *const c_void, _jit: *mut u32, _jit_values: *mut *mut c_void, _jit_count: u32,
        _options: *mut u32, _values: *mut *mut c_void, _count: u32,
    ) {
        check_initialized()?;
        of_hip(hip::hipModuleLoadData(library, image))
    }
    @12000 cuLibraryUnload(library: Handle) { check_initialized()?; forget(library); of_hip(hip::hipModuleUnload(library)) }
    @12000 cuLibraryGetKernel(kernel: *mut Handle, library: Handle, name: *const c_char) {
        check_initialized()?;
        let function = find(kernel, library, name)?;
        let found = function.wrapping_byte_add(KERNEL);
        lock(&KERNELS).insert(found as usize);
        write(kernel, found)
    }
    @12000 cuLibraryGetModule(module: *mut Handle, library: Handle) { enter()?; write(module, library) }
    @12000 cuKernelGetFunction(function: *mut Handle, kernel: Handle) {
        enter()?;
        write(function, function_of(kernel).ok_or(INVALID_HANDLE)?)
    }
    @12030 cuKernelGetName(name: *mut *const c_char, kernel: Handle) {
        name_of(name, function_of(kernel).ok_or(INVALID_HANDLE)?)
    }
    @12040 cuKernelGetParamInfo(kernel: Handle, index: usize, offset: *mut usize, size: *mut usize) {
        parameter(function_of(kernel).ok_or(INVALID_HANDLE)?, index, offset, size)
    }
    @12030 cuFuncGetName(name: *mut *const c_char, function: Handle) { name_of(name, function) }
    @12040 cuFuncGetParamInfo(function: Handle, index: usize, offset: *mut usize, size: *mut usize) {
        parameter(function, index, offset, size)
    }
    @11000 cuFuncGetModule(module: *mut Handle, function: Handle) {
        let found = lock(&FUNCTIONS).get(&(function as usize)).copied().ok_or(INVALID_HANDLE)?;
        write(module, core::ptr::with_exposed_provenance_mut(found))
    }
    @2020 cuFuncGetAttribute(value: *mut c_int, attribute: u32, function: Handle) {
        of_hip(hip::hipFuncGetAttribute(value, attribute, function))
    }
    @9000 cuFuncSetAttribute(function: Handle, _attribute: u32, _value: c_int) {
        if lock(&FUNCTIONS).contains_key(&(function as usize)) { Ok(()) } else { Err(INVALID_HANDLE) }
    }
    @12040 cuFuncIsLoaded(state: *mut u32, _function: Handle) { write(state, 1) }
    @12040 cuFuncLoad(function: Handle) {
        if lock(&FUNCTIONS).contains_key(&(function as usize)) { Ok(()) } else { Err(NOT_FOUND) }
    }
}
