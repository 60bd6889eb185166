//! What is known about kernels: how their arguments lie in memory, so that a launch that is held back can own them.
//!
//! Compiled code registers fat binaries and the handles of its kernels; modules are loaded and asked for functions.
//! Both are noted as they happen. Registered code is only read when a launch of it is first held back, and stays
//! where it is until it is taken back; a module's image may be gone after loading, so that is read at once.
//!
//! A kernel that is not known here is never held back: its launch waits in place.

mod bundle;
mod metadata;

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::process::Renewable;

/// One explicit argument in the buffer that a kernel reads them from. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// What the metadata says about a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) parameters: Vec<Parameter>,
    /// Threads of a block at most.
    pub(crate) threads_max: u32,
    /// Local data share that it takes by itself.
    pub(crate) shared_bytes: u32,
}

/// Why an image gives no metadata.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("neither a bundle nor a code object")]
    Unknown,
    #[error("it ends too early")]
    Cut,
    #[error("compressed in version {0}")]
    Version(u64),
    #[error("cannot be decompressed")]
    Compression,
    #[error("not an ELF file")]
    Elf,
    #[error("no metadata of kernels")]
    NoMetadata,
}

/// Kernels of one image, by name.
type Kernels = HashMap<String, Arc<Kernel>>;

/// A runtime copy's place and a handle or address in it.
type Key = (usize, usize);

/// A kernel that compiled code has registered.
struct Registered {
    /// The handle of its fat binary.
    modules: Key,
    name: String,
}

/// A fat binary that compiled code has registered.
struct FatBinary {
    wrapper: usize,
    /// None until a launch asks.
    kernels: Option<Arc<Kernels>>,
}

/// Everything that was registered and loaded.
#[derive(Default)]
pub(crate) struct Registry {
    fat_binaries: HashMap<Key, FatBinary>,
    registered: HashMap<Key, Registered>,
    modules: HashMap<Key, Arc<Kernels>>,
    functions: HashMap<Key, (usize, Arc<Kernel>)>,
}

static REGISTRY: Renewable<Mutex<Registry>> = Renewable::new();

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a forked child: what was registered before the fork is still true, unless another thread was just noting
/// something.
pub(crate) fn begin_afresh() {
    if REGISTRY.get().try_lock().is_err() {
        REGISTRY.renew();
    }
}

/// Notes a fat binary that the copy answered with the handle `modules`.
pub(crate) fn fat_binary_registered(copy: usize, modules: usize, wrapper: usize) {
    registry().fat_binaries.insert((copy, modules), FatBinary { wrapper, kernels: None });
}

/// Notes a kernel's handle.
///
/// # Safety
/// `name` must be null or a C string.
pub(crate) unsafe fn kernel_registered(copy: usize, modules: usize, handle: usize, name: *const i8) {
    if name.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    registry().registered.insert((copy, handle), Registered { modules: (copy, modules), name });
}

/// Forgets a fat binary and its kernels; returns the address that it was registered with.
pub(crate) fn fat_binary_taken_back(copy: usize, modules: usize) -> Option<usize> {
    let mut registry = registry();
    registry.registered.retain(|_, registered| registered.modules != (copy, modules));
    registry.fat_binaries.remove(&(copy, modules)).map(|fat_binary| fat_binary.wrapper)
}

/// Notes a module that was loaded from an image in memory.
///
/// # Safety
/// `image` must be null or a complete image.
pub(crate) unsafe fn module_loaded(copy: usize, module: usize, image: *const u8) {
    // SAFETY: the caller's promise. Modules are also loaded from the wrapper of a fat binary.
    let image = unsafe {
        if image.is_null() {
            return;
        }
        bundle::image(bundle::unwrap(image).unwrap_or(image))
    };
    module_read(copy, module, image.and_then(read));
}

/// Notes a module that was loaded from a file.
pub(crate) fn module_loaded_from_file(copy: usize, module: usize, path: &CStr) {
    let image = std::fs::read(OsStr::from_bytes(path.to_bytes()));
    module_read(copy, module, image.map_err(|_| ImageError::Unknown).and_then(|image| read(&image)));
}

fn module_read(copy: usize, module: usize, kernels: Result<Kernels, ImageError>) {
    // A module whose metadata cannot be read has no known kernels.
    registry().modules.insert((copy, module), Arc::new(kernels.unwrap_or_default()));
}

/// Notes a module's function.
pub(crate) fn function_found(copy: usize, module: usize, function: usize, name: &CStr) {
    let mut registry = registry();
    let kernel =
        registry.modules.get(&(copy, module)).and_then(|kernels| kernels.get(&*name.to_string_lossy()));
    match kernel.cloned() {
        Some(kernel) => registry.functions.insert((copy, function), (module, kernel)),
        // The address may have been another module's.
        None => registry.functions.remove(&(copy, function)),
    };
}

/// Forgets a module and its functions.
pub(crate) fn module_unloaded(copy: usize, module: usize) {
    let mut registry = registry();
    registry.modules.remove(&(copy, module));
    registry.functions.retain(|&(of, _), (from, _)| of != copy || *from != module);
}

/// A kernel by the handle that compiled code launches it with.
pub(crate) fn by_handle(copy: usize, handle: usize) -> Option<Arc<Kernel>> {
    let mut registry = registry();
    let Registry { fat_binaries, registered, .. } = &mut *registry;
    let kernel = registered.get(&(copy, handle))?;
    let fat_binary = fat_binaries.get_mut(&kernel.modules)?;
    let kernels = fat_binary.kernels.get_or_insert_with(|| {
        // SAFETY: compiled code registers what lies in its own data, and takes it back before that goes away.
        let kernels = unsafe {
            bundle::unwrap(fat_binary.wrapper as *const u8)
                .ok_or(ImageError::Unknown)
                .and_then(|image| read(bundle::image(image)?))
        };
        Arc::new(kernels.unwrap_or_default())
    });
    kernels.get(&kernel.name).cloned()
}

/// A kernel by the function that a module gave.
pub(crate) fn by_function(copy: usize, function: usize) -> Option<Arc<Kernel>> {
    registry().functions.get(&(copy, function)).map(|(_, kernel)| Arc::clone(kernel))
}

/// The kernels of an image. Arguments lie the same for every GPU, so the first code object tells all.
fn read(image: &[u8]) -> Result<Kernels, ImageError> {
    let mut kernels = Kernels::new();
    bundle::code_objects(image, &mut |code_object| {
        kernels.extend(
            metadata::kernels(code_object)?.into_iter().map(|(name, kernel)| (name, Arc::new(kernel))),
        );
        Ok(!kernels.is_empty())
    })?;
    Ok(kernels)
}

#[cfg(test)]
mod tests;
