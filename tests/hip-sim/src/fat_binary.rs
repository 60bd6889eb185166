//! Registrations that compiled code makes before `main`: its device code, and the host address of each
//! kernel.
//!
//! Registration only stores its arguments, since a library may register tens of thousands of kernels that are
//! never launched. A binary is parsed when one of its kernels or variables is first used.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use std::sync::{Arc, OnceLock};

use crate::abi::{FatBinaryWrapper, dim3, uint3};
use crate::memory::Kind;
use crate::{boundary, devices, fork, memory, stream};

mod object;

pub(crate) use object::registered;
use object::{FatBinary, Function, Variable};

/// `HIPF`: the code is in this image.
const MAGIC: u32 = 0x4849_5046;
/// `HIPK`: the code is in archives beside the library.
const MAGIC_EXTERNAL: u32 = 0x4b50_4948;
const VERSION: u32 = 1;

/// A C string from compiled code.
///
/// # Safety
///
/// `text` is a terminated string, as clang's registration code passes it.
unsafe fn owned(text: *const c_char) -> String {
    // SAFETY: the caller upholds this function's contract.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// `__hipRegisterFatBinary`: null for a binary of another kind, as from a genuine runtime that does not
/// support external code. Kernels registered with a null handle belong to no binary, so they are invalid
/// device functions.
pub(crate) unsafe extern "C" fn register(data: *const c_void) -> *mut *mut c_void {
    boundary::value(ptr::null_mut(), || {
        devices::all();
        // SAFETY: clang passes the address of such a wrapper.
        let wrapper = unsafe { &*data.cast::<FatBinaryWrapper>() };
        if wrapper.magic != MAGIC || wrapper.version != VERSION {
            if wrapper.magic == MAGIC_EXTERNAL {
                eprintln!(
                    "hip-sim: fat binary at {data:p}: its code is in external files, which is not supported"
                );
            }
            return ptr::null_mut();
        }
        let image = wrapper.binary.expose_provenance();
        let binary = Arc::new(FatBinary { image, code: OnceLock::new() });
        registered().binaries.insert(&binary).cast()
    })
}

/// `__hipRegisterFunction`: several libraries may register the same host address, because of templates. The
/// first one wins.
pub(crate) unsafe extern "C" fn register_function(
    modules: *mut *mut c_void,
    host: *const c_void,
    _device_function: *mut c_char,
    device_name: *const c_char,
    _thread_limit: u32,
    _thread: *mut uint3,
    _block: *mut uint3,
    _block_dim: *mut dim3,
    _grid_dim: *mut dim3,
    _warp_size: *mut i32,
) {
    boundary::value((), || {
        let registered = registered();
        let Some(binary) = registered.binaries.get(modules.cast()) else { return };
        // SAFETY: the compiler passes a terminated string.
        let name = unsafe { owned(device_name) };
        let mut functions = registered.functions.write().expect("no holder panics");
        functions.entry(host as usize).or_insert(Function { name, binary });
    });
}

/// `__hipRegisterVar`
pub(crate) unsafe extern "C" fn register_variable(
    modules: *mut *mut c_void,
    host: *mut c_void,
    _host_name: *mut c_char,
    device_name: *mut c_char,
    _is_external: i32,
    size: usize,
    _is_constant: i32,
    _is_global: i32,
) {
    boundary::value((), || {
        let registered = registered();
        let Some(binary) = registered.binaries.get(modules.cast()) else { return };
        // SAFETY: the compiler passes a terminated string.
        let name = unsafe { owned(device_name) };
        let variable = Variable { name, size, binary, address: OnceLock::new() };
        registered.variables.write().expect("no holder panics").entry(host as usize).or_insert(variable);
    });
}

/// `__hipRegisterManagedVar`: allocates memory that host and device share, with the variable's initial value,
/// and stores its address in `pointer`. It stays until the process ends.
pub(crate) unsafe extern "C" fn register_managed_variable(
    _module: *mut c_void,
    pointer: *mut *mut c_void,
    initial: *mut c_void,
    _name: *const c_char,
    size: usize,
    _alignment: u32,
) {
    boundary::value((), || {
        let Some(memory) = memory::known().allocate(size, Kind::Managed, 1) else { return };
        // SAFETY: the compiler passes a variable's address and its `size` initial bytes.
        unsafe {
            memory.cast::<u8>().copy_from_nonoverlapping(initial.cast(), size);
            pointer.write(memory);
        }
    });
}

/// `__hipUnregisterFatBinary`: called at exit or `dlclose`, when work may still be in progress.
pub(crate) unsafe extern "C" fn unregister(modules: *mut *mut c_void) {
    if fork::is_forked_child() {
        return;
    }
    boundary::value((), || {
        stream::wait_for_all();
        registered().remove(modules.cast());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_of_another_kind_is_refused() {
        for wrapper in [[0_u64; 3], [1 << 32 | u64::from(MAGIC_EXTERNAL), 0, 0]] {
            // SAFETY: the array has the wrapper's three words.
            assert!(unsafe { register(wrapper.as_ptr().cast()) }.is_null());
        }
    }
}
