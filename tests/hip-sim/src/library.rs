//! Libraries (HIP 7.2): code objects whose kernels a program finds by name, without a module.
//!
//! The genuine runtime copies the image and loads it on first use. Here it is parsed at once, and an error is
//! reported on first use.

use core::ffi::{c_char, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use crate::abi::{hipError_t, hipFunction_t, hipJitOption, hipKernel_t, hipLibrary_t, hipLibraryOption};
use crate::boundary::{self, write};
use crate::code_object::{CodeObject, UNKNOWN_LEN};
use crate::error::HipError;
use crate::handles::Handles;
use crate::kernel::Kernel;
use crate::module::text;
use crate::{kernel, stream};

/// A library, or the error of its image.
struct Library {
    code: Result<CodeObject, HipError>,
}

impl Library {
    fn code(&self) -> Result<&CodeObject, HipError> {
        self.code.as_ref().map_err(|error| *error)
    }

    fn has(&self, kernel: hipKernel_t) -> bool {
        let kernels = self.code.iter().flat_map(|code| code.kernels.values());
        kernels.map(Arc::as_ptr).any(|known| known.cast::<c_void>() == kernel.cast_const())
    }
}

static LIBRARIES: LazyLock<Handles<Library>> = LazyLock::new(Handles::default);

fn resolve(library: hipLibrary_t) -> Result<Arc<Library>, HipError> {
    LIBRARIES.get(library).ok_or(HipError::InvalidValue)
}

/// The library in which a kernel was found.
fn library_of(kernel: hipKernel_t) -> Result<Arc<Library>, HipError> {
    LIBRARIES.all().into_iter().find(|library| library.has(kernel)).ok_or(HipError::InvalidHandle)
}

/// # Safety
///
/// `image` points to a bundle or an ELF file. It is as long as its headers say, or as `len`.
unsafe fn load(library: *mut hipLibrary_t, image: *const c_void, len: usize) -> Result<(), HipError> {
    // SAFETY: the caller upholds this function's contract.
    let code = unsafe { CodeObject::from_address(image, len) }.map_err(HipError::from);
    if code.as_ref().err() == Some(&HipError::InvalidKernelFile) {
        return Err(HipError::InvalidImage);
    }
    let loaded = Arc::new(Library { code });
    // SAFETY: the application passes null or a writable out-parameter.
    unsafe { write(library, LIBRARIES.insert(&loaded)) }
}

/// `hipLibraryLoadData`: ignores the options, which are for a compiler.
pub(crate) unsafe extern "C" fn load_data(
    library: *mut hipLibrary_t,
    image: *const c_void,
    _jit_options: *mut hipJitOption,
    _jit_values: *mut *mut c_void,
    jit_count: u32,
    _options: *mut hipLibraryOption,
    _values: *mut *mut c_void,
    _count: u32,
) -> hipError_t {
    boundary::call(|| {
        if library.is_null() || image.is_null() || jit_count > 0 {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller upholds this function's contract.
        unsafe { load(library, image, UNKNOWN_LEN) }
    })
}

/// `hipLibraryLoadFromFile`
pub(crate) unsafe extern "C" fn load_file(
    library: *mut hipLibrary_t,
    path: *const c_char,
    _jit_options: *mut hipJitOption,
    _jit_values: *mut *mut c_void,
    jit_count: u32,
    _options: *mut hipLibraryOption,
    _values: *mut *mut c_void,
    _count: u32,
) -> hipError_t {
    boundary::call(|| {
        if library.is_null() || jit_count > 0 {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes a terminated string.
        let path = unsafe { text(path) }?;
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let image = fs::read(path).map_err(|_| HipError::InvalidValue)?;
        // SAFETY: the length is the file's; the file is not needed after parsing.
        unsafe { load(library, image.as_ptr().cast(), image.len()) }
    })
}

/// `hipLibraryUnload`: its kernels are invalid from now on.
pub(crate) unsafe extern "C" fn unload(library: hipLibrary_t) -> hipError_t {
    boundary::call(|| {
        let library = LIBRARIES.remove(library).ok_or(HipError::InvalidHandle)?;
        stream::wait_for_all();
        for kernel in library.code.iter().flat_map(|code| code.kernels.values()) {
            kernel::listed().remove(Arc::as_ptr(kernel).cast());
        }
        Ok(())
    })
}

/// `hipLibraryGetKernel`
pub(crate) unsafe extern "C" fn kernel(
    kernel: *mut hipKernel_t,
    library: hipLibrary_t,
    name: *const c_char,
) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes a terminated string.
        let name = unsafe { text(name) }?;
        let library = resolve(library)?;
        let found = name.to_str().ok().map(|name| library.code().map(|code| code.kernels.get(name)));
        let found = found.transpose()?.flatten().ok_or(HipError::NotFound)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(kernel, kernel::listed().insert(found)) }
    })
}

/// `hipLibraryGetKernelCount`
pub(crate) unsafe extern "C" fn kernel_count(count: *mut u32, library: hipLibrary_t) -> hipError_t {
    boundary::call(|| {
        let kernels = resolve(library)?.code()?.kernels.len();
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(count, kernels as u32) }
    })
}

/// `hipLibraryEnumerateKernels`: all kernels, but at most `count`.
pub(crate) unsafe extern "C" fn kernels(
    kernels: *mut hipKernel_t,
    count: u32,
    library: hipLibrary_t,
) -> hipError_t {
    boundary::call(|| {
        let library = resolve(library)?;
        let all: Vec<&Arc<Kernel>> = library.code()?.kernels.values().collect();
        if kernels.is_null() {
            return Err(HipError::InvalidValue);
        }
        for (index, kernel) in all.into_iter().take(count as usize).enumerate() {
            // SAFETY: the caller's array has `count` elements.
            unsafe { write(kernels.add(index), kernel::listed().insert(kernel))? };
        }
        Ok(())
    })
}

/// `hipKernelGetLibrary`
pub(crate) unsafe extern "C" fn of_kernel(library: *mut hipLibrary_t, kernel: hipKernel_t) -> hipError_t {
    boundary::call(|| {
        if kernel.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(library, LIBRARIES.insert(&library_of(kernel)?)) }
    })
}

/// `hipKernelGetName`: valid as long as the library.
pub(crate) unsafe extern "C" fn name_of_kernel(name: *mut *const c_char, kernel: hipKernel_t) -> hipError_t {
    boundary::call(|| {
        if kernel.is_null() {
            return Err(HipError::InvalidValue);
        }
        library_of(kernel)?;
        let kernel = kernel::listed().get(kernel).ok_or(HipError::InvalidHandle)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(name, kernel.name.as_ptr()) }
    })
}

/// `hipKernelGetFunction`: both handles are the same.
pub(crate) unsafe extern "C" fn function_of_kernel(
    function: *mut hipFunction_t,
    kernel: hipKernel_t,
) -> hipError_t {
    boundary::call(|| {
        if kernel.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(function, kernel) }
    })
}

#[cfg(test)]
mod tests {
    use core::ptr;
    use std::collections::HashMap;

    use super::*;
    use crate::kernel::Resources;
    use crate::twin::Twin;

    fn library() -> Arc<Library> {
        let kernel = Arc::new(Kernel {
            name: c"in_library".to_owned(),
            arguments: Vec::new(),
            max_threads_per_block: 256,
            lds_size: 0,
            resources: Resources::default(),
            twin: Twin::default(),
        });
        let kernels = HashMap::from([("in_library".to_owned(), kernel)]);
        Arc::new(Library { code: Ok(CodeObject { kernels, globals: HashMap::new() }) })
    }

    #[test]
    fn a_kernel_is_found_until_its_library_is_unloaded() {
        let handle = LIBRARIES.insert(&library());
        let (mut found, mut count, mut back) = (ptr::null_mut(), 0, ptr::null_mut());
        let mut list = [ptr::null_mut(); 3];
        // SAFETY: local out-parameters; the array has three elements.
        unsafe {
            assert_eq!(kernel(&raw mut found, handle, c"in_library".as_ptr()), 0);
            assert_eq!(kernel(&raw mut back, handle, c"other".as_ptr()), HipError::NotFound.code());
            assert_eq!((kernel_count(&raw mut count, handle), count), (0, 1));
            assert_eq!(
                (kernels(list.as_mut_ptr(), 3, handle), list),
                (0, [found, ptr::null_mut(), ptr::null_mut()])
            );
            assert_eq!((of_kernel(&raw mut back, found), back), (0, handle));
            assert_eq!((function_of_kernel(&raw mut back, found), back), (0, found));
            assert_eq!(unload(handle), 0);
            assert_eq!(of_kernel(&raw mut back, found), HipError::InvalidHandle.code());
            assert_eq!(unload(handle), HipError::InvalidHandle.code());
        }
    }

    #[test]
    fn an_invalid_image_is_reported_on_first_use() {
        let mut handle = ptr::null_mut();
        let none = ptr::null_mut::<*mut c_void>();
        // SAFETY: local out-parameters and complete images.
        unsafe {
            let load = |handle, image: &[u8]| {
                load_data(handle, image.as_ptr().cast(), ptr::null_mut(), none, 0, ptr::null_mut(), none, 0)
            };
            assert_eq!(load(&raw mut handle, b"plain text"), HipError::InvalidImage.code());
            let empty_bundle = b"__CLANG_OFFLOAD_BUNDLE__\0\0\0\0\0\0\0\0";
            assert_eq!(load(&raw mut handle, empty_bundle), 0);
            let mut count = 0;
            assert_eq!(kernel_count(&raw mut count, handle), HipError::NoBinaryForGpu.code());
        }
    }
}
