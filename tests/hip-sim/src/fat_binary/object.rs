//! What compiled code has registered: binaries, and by host address their kernels and variables.

use core::ffi::c_void;
use core::ptr;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

use crate::code_object::{CodeObject, UNKNOWN_LEN};
use crate::error::HipError;
use crate::handles::Handles;
use crate::kernel::Kernel;
use crate::memory::{self, Kind};
use crate::runtime::table;

table! {
    /// What compiled code has registered.
    pub(crate) registered: FatBinaries = FatBinaries::default()
}

/// One registered binary.
pub(super) struct FatBinary {
    /// Address of the bundle.
    pub(super) image: usize,
    pub(super) code: OnceLock<Result<CodeObject, HipError>>,
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

pub(super) struct Function {
    pub(super) name: String,
    pub(super) binary: Arc<FatBinary>,
}

pub(super) struct Variable {
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) binary: Arc<FatBinary>,
    /// Address of the device's copy, after its first use.
    pub(super) address: OnceLock<Result<usize, HipError>>,
}

/// All registered binaries, kernels and variables; the latter by host address.
#[derive(Default)]
pub(crate) struct FatBinaries {
    pub(super) binaries: Handles<FatBinary>,
    pub(super) functions: RwLock<HashMap<usize, Function>>,
    pub(super) variables: RwLock<HashMap<usize, Variable>>,
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

    pub(super) fn remove(&self, handle: *const c_void) {
        let Some(binary) = self.binaries.remove(handle) else { return };
        self.functions.write().expect("no holder panics").retain(|_, f| !Arc::ptr_eq(&f.binary, &binary));
        let mut variables = self.variables.write().expect("no holder panics");
        for (_, variable) in variables.extract_if(|_, v| Arc::ptr_eq(&v.binary, &binary)) {
            if let Some(Ok(address)) = variable.address.get() {
                drop(memory::known().remove(*address));
            }
        }
    }
}

impl Variable {
    /// Allocates device memory and fills it with the initial value from the code object.
    fn allocate(&self) -> Result<usize, HipError> {
        let global = self.binary.code()?.globals.get(&self.name).ok_or(HipError::InvalidSymbol)?;
        let memory = memory::known().allocate(self.size, Kind::Device, 0).ok_or(HipError::OutOfMemory)?;
        let size = self.size.min(global.initial.len());
        // SAFETY: the allocation was just made with at least this size.
        unsafe { memory.cast::<u8>().copy_from_nonoverlapping(global.initial.as_ptr(), size) };
        Ok(memory as usize)
    }
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
}
