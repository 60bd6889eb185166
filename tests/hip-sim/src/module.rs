//! Modules: code objects that a program loads itself.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::abi::{hipDeviceptr_t, hipError_t, hipFunction_t, hipJitOption, hipModule_t};
use crate::boundary::{self, write};
use crate::code_object::{CodeObject, UNKNOWN_LEN};
use crate::error::HipError;
use crate::handles::Handles;
use crate::memory::Kind;
use crate::runtime::table;
use crate::{kernel, memory, stream};

table! {
    /// Loaded modules.
    listed: Handles<Module> = Handles::default()
}

/// A loaded module.
pub(crate) struct Module {
    code: CodeObject,
    /// Device addresses of globals, after their first use.
    globals: Mutex<HashMap<String, usize>>,
}

impl Module {
    /// Device address and size of a global; allocates it on first use.
    fn global(&self, name: &str) -> Result<(usize, usize), HipError> {
        let initial = &self.code.globals.get(name).ok_or(HipError::NotFound)?.initial;
        let mut allocated = self.globals.lock().expect("no holder panics");
        if let Some(address) = allocated.get(name) {
            return Ok((*address, initial.len()));
        }
        let memory = memory::known();
        let address = memory.allocate(initial.len(), Kind::Device, 0).ok_or(HipError::OutOfMemory)?;
        // SAFETY: the allocation was just made with this size.
        unsafe { address.cast::<u8>().copy_from_nonoverlapping(initial.as_ptr(), initial.len()) };
        allocated.insert(name.to_owned(), address as usize);
        Ok((address as usize, initial.len()))
    }
}

/// Parses an image and returns a handle for it.
///
/// # Safety
///
/// `image` points to a bundle or an ELF file. It is as long as its headers say, or as `len`.
unsafe fn load_image(module: *mut hipModule_t, image: *const c_void, len: usize) -> Result<(), HipError> {
    if module.is_null() || image.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller upholds this function's contract.
    let code = unsafe { CodeObject::from_address(image, len) }?;
    let loaded = Arc::new(Module { code, globals: Mutex::default() });
    // SAFETY: the application passes null or a writable out-parameter.
    unsafe { write(module, listed().insert(&loaded)) }
}

/// A name from the application; null and empty ones are invalid.
///
/// # Safety
///
/// `name` is null or a terminated string.
pub(crate) unsafe fn text<'a>(name: *const c_char) -> Result<&'a CStr, HipError> {
    if name.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller upholds this function's contract.
    let name = unsafe { CStr::from_ptr(name) };
    if name.is_empty() { Err(HipError::InvalidValue) } else { Ok(name) }
}

/// A live module; null and unloaded ones are invalid handles.
fn resolve(module: hipModule_t) -> Result<Arc<Module>, HipError> {
    listed().get(module).ok_or(HipError::InvalidHandle)
}

/// `hipModuleLoad`
pub(crate) unsafe extern "C" fn load(module: *mut hipModule_t, path: *const c_char) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes a terminated string.
        let path = unsafe { text(path) }?;
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let image = fs::read(path).map_err(|_| HipError::FileNotFound)?;
        // SAFETY: by HIP's contract the file is a bundle or an ELF file; it is not needed after parsing.
        unsafe { load_image(module, image.as_ptr().cast(), image.len()) }
    })
}

/// `hipModuleLoadData`, `hipModuleLoadFatBinary`: both accept bundles and bare files.
pub(crate) unsafe extern "C" fn load_data(module: *mut hipModule_t, image: *const c_void) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe { load_image(module, image, UNKNOWN_LEN) })
}

/// `hipModuleLoadDataEx`: ignores the options, which are for a compiler.
pub(crate) unsafe extern "C" fn load_data_ex(
    module: *mut hipModule_t,
    image: *const c_void,
    _count: u32,
    _options: *mut hipJitOption,
    _values: *mut *mut c_void,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe { load_image(module, image, UNKNOWN_LEN) })
}

/// `hipModuleUnload`: its functions are invalid from now on.
pub(crate) unsafe extern "C" fn unload(module: hipModule_t) -> hipError_t {
    boundary::call(|| {
        let module = listed().remove(module).ok_or(HipError::InvalidHandle)?;
        stream::wait_for_all();
        for kernel in module.code.kernels.values() {
            kernel::listed().remove(Arc::as_ptr(kernel).cast());
        }
        for (_, address) in module.globals.lock().expect("no holder panics").drain() {
            drop(memory::known().remove(address));
        }
        Ok(())
    })
}

/// `hipModuleGetFunction`
pub(crate) unsafe extern "C" fn function(
    function: *mut hipFunction_t,
    module: hipModule_t,
    name: *const c_char,
) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes a terminated string.
        let name = unsafe { text(name) }?;
        let module = resolve(module)?;
        let kernel = name.to_str().ok().and_then(|name| module.code.kernels.get(name));
        let kernel = kernel.ok_or(HipError::NotFound)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(function, kernel::listed().insert(kernel)) }
    })
}

/// `hipModuleGetFunctionCount`: the number of kernels.
pub(crate) unsafe extern "C" fn function_count(count: *mut u32, module: hipModule_t) -> hipError_t {
    boundary::call(|| {
        let kernels = resolve(module)?.code.kernels.len();
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(count, kernels as u32) }
    })
}

/// `hipModuleGetGlobal`
pub(crate) unsafe extern "C" fn global(
    address: *mut hipDeviceptr_t,
    size: *mut usize,
    module: hipModule_t,
    name: *const c_char,
) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes a terminated string.
        let name = unsafe { text(name) }?;
        let found = resolve(module)?.global(name.to_str().map_err(|_| HipError::NotFound)?)?;
        if address.is_null() && size.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes writable out-parameters; one may be null.
        unsafe {
            if !address.is_null() {
                address.write(ptr::with_exposed_provenance_mut(found.0));
            }
            if !size.is_null() {
                size.write(found.1);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;
    use crate::kernel::{Kernel, Resources};
    use crate::twin::Twin;

    #[test]
    fn a_modules_kernels_are_counted_until_it_is_unloaded() {
        let kernel = |name: &str| {
            Arc::new(Kernel {
                name: CString::new(name).unwrap(),
                arguments: Vec::new(),
                max_threads_per_block: 256,
                lds_size: 0,
                resources: Resources::default(),
                twin: Twin::default(),
            })
        };
        let kernels = HashMap::from(["first", "second"].map(|name| (name.to_owned(), kernel(name))));
        let code = CodeObject { kernels, globals: HashMap::new() };
        let handle = listed().insert(&Arc::new(Module { code, globals: Mutex::default() }));
        let mut count = 0;
        // SAFETY: a local out-parameter; handles are checked, not followed.
        unsafe {
            assert_eq!((function_count(&raw mut count, handle), count), (0, 2));
            assert_eq!(function_count(ptr::null_mut(), handle), HipError::InvalidValue.code());
            assert_eq!(unload(handle), 0);
            assert_eq!(function_count(&raw mut count, handle), HipError::InvalidHandle.code());
            assert_eq!(function_count(&raw mut count, ptr::null_mut()), HipError::InvalidHandle.code());
        }
    }

    #[test]
    fn data_that_is_no_code_object_is_not_loaded() {
        let mut module = ptr::null_mut();
        // SAFETY: a local out-parameter and strings.
        unsafe {
            assert_eq!(load(&raw mut module, c"/nowhere".as_ptr()), HipError::FileNotFound.code());
            let image = c"plain text";
            let code = load_data(&raw mut module, image.as_ptr().cast());
            assert_eq!(code, HipError::InvalidKernelFile.code());
        }
        assert!(module.is_null());
    }

    #[test]
    fn a_module_that_does_not_exist_is_an_invalid_handle() {
        let mut found = ptr::null_mut();
        // SAFETY: handles are looked up, not dereferenced.
        unsafe {
            let bogus = ptr::without_provenance_mut(0x1234);
            assert_eq!(function(&raw mut found, bogus, c"k".as_ptr()), HipError::InvalidHandle.code());
            assert_eq!(unload(bogus), HipError::InvalidHandle.code());
        }
    }
}
