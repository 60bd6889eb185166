//! Registrations that compiled code makes before `main`: its device code, and the host address of each
//! kernel.
//!
//! Registration only stores its arguments, since a library may register tens of thousands of kernels that are
//! never launched. A binary is parsed when one of its kernels or variables is first used.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

use crate::abi::{FatBinaryWrapper, dim3, uint3};
use crate::code_object::{CodeObject, UNKNOWN_LEN};
use crate::error::HipError;
use crate::handles::Handles;
use crate::kernel::Kernel;
use crate::memory::Kind;
use crate::{boundary, fork, runtime};

/// `HIPF`: the code is in this image.
const MAGIC: u32 = 0x4849_5046;
/// `HIPK`: the code is in archives beside the library.
const MAGIC_EXTERNAL: u32 = 0x4b50_4948;
const VERSION: u32 = 1;

/// One registered binary.
pub(crate) struct FatBinary {
    /// Address of the bundle.
    image: usize,
    code: OnceLock<Result<CodeObject, HipError>>,
}

impl FatBinary {
    fn code(&self) -> Result<&CodeObject, HipError> {
        let parse = || {
            // SAFETY: the registered wrapper guarantees a bundle at this address.
            let code =
                unsafe { CodeObject::from_address(ptr::with_exposed_provenance(self.image), UNKNOWN_LEN) };
            code.map_err(HipError::from)
        };
        self.code.get_or_init(parse).as_ref().map_err(|error| *error)
    }
}

struct Function {
    name: String,
    binary: Arc<FatBinary>,
}

struct Variable {
    name: String,
    size: usize,
    binary: Arc<FatBinary>,
    /// Address of the device's copy, after its first use.
    address: OnceLock<Result<usize, HipError>>,
}

/// All registered binaries, kernels and variables; the latter by host address.
#[derive(Default)]
pub(crate) struct FatBinaries {
    binaries: Handles<FatBinary>,
    functions: RwLock<HashMap<usize, Function>>,
    variables: RwLock<HashMap<usize, Variable>>,
}

impl FatBinaries {
    /// The kernel that is registered for a host address.
    ///
    /// Unknown addresses, and kernels that the code object lacks, are invalid device functions. A binary
    /// without code for this device keeps its own error.
    pub(crate) fn kernel(&self, host: *const c_void) -> Result<Arc<Kernel>, HipError> {
        let functions = self.functions.read().expect("no holder panics");
        let function = functions.get(&(host as usize)).ok_or(HipError::InvalidDeviceFunction)?;
        let code = function.binary.code().map_err(|error| match error {
            HipError::NoBinaryForGpu => error,
            _ => HipError::InvalidDeviceFunction,
        })?;
        code.kernels.get(&function.name).cloned().ok_or(HipError::InvalidDeviceFunction)
    }

    /// Device address and size of the variable that is registered for a host address.
    pub(crate) fn variable(&self, host: *const c_void) -> Result<(usize, usize), HipError> {
        let variables = self.variables.read().expect("no holder panics");
        let variable = variables.get(&(host as usize)).ok_or(HipError::InvalidSymbol)?;
        let address = *variable.address.get_or_init(|| variable.allocate());
        Ok((address?, variable.size))
    }

    fn remove(&self, handle: *const c_void) {
        let Some(binary) = self.binaries.remove(handle) else { return };
        self.functions.write().expect("no holder panics").retain(|_, f| !Arc::ptr_eq(&f.binary, &binary));
        let mut variables = self.variables.write().expect("no holder panics");
        for (_, variable) in variables.extract_if(|_, v| Arc::ptr_eq(&v.binary, &binary)) {
            if let Some(Ok(address)) = variable.address.get() {
                drop(runtime::get().memory.remove(*address));
            }
        }
    }
}

impl Variable {
    /// Allocates device memory and fills it with the initial value from the code object.
    fn allocate(&self) -> Result<usize, HipError> {
        let global = self.binary.code()?.globals.get(&self.name).ok_or(HipError::InvalidSymbol)?;
        let memory =
            runtime::get().memory.allocate(self.size, Kind::Device, 0).ok_or(HipError::OutOfMemory)?;
        let size = self.size.min(global.initial.len());
        // SAFETY: the allocation was just made with at least this size.
        unsafe { memory.cast::<u8>().copy_from_nonoverlapping(global.initial.as_ptr(), size) };
        Ok(memory as usize)
    }
}

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
        runtime::get().fat_binaries.binaries.insert(&binary).cast()
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
        let registered = &runtime::get().fat_binaries;
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
        let registered = &runtime::get().fat_binaries;
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
        let Some(memory) = runtime::get().memory.allocate(size, Kind::Managed, 1) else { return };
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
        let runtime = runtime::get();
        runtime.synchronize_all();
        runtime.fat_binaries.remove(modules.cast());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unregistered_kernel_is_invalid() {
        let registered = FatBinaries::default();
        let kernel = registered.kernel(ptr::without_provenance(0x1234)).map(drop);
        assert_eq!(kernel, Err(HipError::InvalidDeviceFunction));
        assert_eq!(registered.variable(ptr::without_provenance(0x1234)), Err(HipError::InvalidSymbol));
    }

    #[test]
    fn a_binary_of_another_kind_is_refused() {
        for wrapper in [[0_u64; 3], [1 << 32 | u64::from(MAGIC_EXTERNAL), 0, 0]] {
            // SAFETY: the array has the wrapper's three words.
            assert!(unsafe { register(wrapper.as_ptr().cast()) }.is_null());
        }
    }
}
