//! What is known about kernels: how their arguments lie in memory, so that a deferred launch can own them.
//!
//! Compiled code registers fat binaries and the handles of its kernels. Modules and libraries are loaded and asked
//! for functions, and the runtime returns the function of a handle. All of this is noted as it happens. Registered
//! code is only read when a launch of it is first deferred, and stays where it is until it is unregistered. A
//! module's image may be gone after loading, so it is read at once; of a compressed one, a copy waits for a deferred launch.
//!
//! A launch of an unknown kernel is never deferred: it waits in place.

mod bundle;
mod metadata;

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use foldhash::HashMap;
use xsched_preload::fork::Renewable;
use xsched_preload::memory;

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
    /// The most threads of a block.
    pub(crate) threads_max: u32,
    /// Shared memory that it takes by itself.
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
    #[error("not enough memory to read it")]
    NoMemory,
    #[error("not an ELF file")]
    Elf,
    #[error("no metadata of kernels")]
    NoMetadata,
}

/// Kernels of one image, by name.
type Kernels = HashMap<String, Arc<Kernel>>;

/// A runtime copy's index and a handle or address in it.
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
    contents: Arc<Contents>,
}

/// The kernels of a fat binary; None until a launch needs them. A large one takes seconds to read, so each has a lock of its own.
/// That lock is taken before the registry's is released, and held while reading: calls for other code objects go on, and this one
/// is unregistered only afterwards.
type Contents = Mutex<Option<Kernels>>;

/// Everything that was registered and loaded.
#[derive(Default)]
pub(crate) struct Registry {
    fat_binaries: HashMap<Key, FatBinary>,
    registered: HashMap<Key, Registered>,
    modules: HashMap<Key, Arc<Module>>,
    functions: HashMap<Key, Function>,
    /// Names of functions, with their modules.
    names: HashMap<Key, (usize, String)>,
}

/// The code of a module or library. The lock is held while it is read, and never together with the registry's.
type Module = Mutex<ModuleCode>;

enum ModuleCode {
    /// As it was loaded. A launch that is deferred reads it: to decompress code takes longer than all else at the start of a library.
    Compressed(Vec<u8>),
    Read(Kernels),
}

impl ModuleCode {
    /// Of an image, of which this keeps a copy if it is small and takes long to read.
    fn new(image: &[u8]) -> Self {
        if bundle::is_compressed(image) {
            let mut kept = Vec::new();
            if kept.try_reserve_exact(image.len()).is_ok() && !memory::is_reserve(&kept) {
                kept.extend_from_slice(image);
                return Self::Compressed(kept);
            }
        }
        // A module whose metadata cannot be read has no known kernels.
        Self::Read(read(image).unwrap_or_default())
    }

    fn kernel(&mut self, name: &str) -> Option<Arc<Kernel>> {
        if let Self::Compressed(image) = self {
            *self = Self::Read(read(image).unwrap_or_default());
        }
        match self {
            Self::Compressed(_) => None,
            Self::Read(kernels) => kernels.get(name).cloned(),
        }
    }
}

/// A function that a launch can name.
enum Function {
    /// Of this module or library; None: its code was not read yet.
    Loaded(usize, Option<Arc<Kernel>>),
    /// What compiled code launches by this handle.
    Registered(usize),
}

static REGISTRY: Renewable<Mutex<Registry>> = Renewable::new();

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes something; without memory it stays unknown, which is always correct.
fn insert<V>(map: &mut HashMap<Key, V>, key: Key, value: V) {
    map.remove(&key);
    if map.try_reserve(1).is_ok() {
        map.insert(key, value);
    }
}

/// Notes what a name means now, if anything.
fn replace<V>(map: &mut HashMap<Key, V>, key: Key, value: Option<V>) {
    match value {
        Some(value) => insert(map, key, value),
        None => drop(map.remove(&key)),
    }
}

/// In a forked child: what was registered before the fork still holds, unless another thread was just noting or reading
/// something.
pub(crate) fn renew_after_fork() {
    match REGISTRY.get().try_lock() {
        Ok(mut registry) => {
            registry.fat_binaries.retain(|_, fat_binary| fat_binary.contents.try_lock().is_ok());
            registry.modules.retain(|_, module| module.try_lock().is_ok());
        }
        Err(_) => REGISTRY.renew(),
    }
}

/// Notes a fat binary for which the copy has returned the handle `modules`.
pub(crate) fn fat_binary_registered(copy: usize, modules: usize, wrapper: usize) {
    insert(&mut registry().fat_binaries, (copy, modules), FatBinary { wrapper, contents: Arc::default() });
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
    insert(&mut registry().registered, (copy, handle), Registered { modules: (copy, modules), name });
}

/// Forgets a fat binary and its kernels; returns the address that it was registered with.
pub(crate) fn fat_binary_unregistered(copy: usize, modules: usize) -> Option<usize> {
    let mut registry = registry();
    let Registry { registered, functions, .. } = &mut *registry;
    registered.retain(|_, registered| registered.modules != (copy, modules));
    functions.retain(|&(of, _), function| match function {
        Function::Registered(handle) => registered.contains_key(&(of, *handle)),
        Function::Loaded(..) => true,
    });
    let fat_binary = registry.fat_binaries.remove(&(copy, modules))?;
    drop(registry);
    // A thread may be reading it.
    drop(fat_binary.contents.lock());
    Some(fat_binary.wrapper)
}

/// Notes a module or library that was loaded from an image in memory.
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
    note_module(copy, module, image.unwrap_or_default());
}

/// Notes a module or library that was loaded from a file.
pub(crate) fn module_loaded_from_file(copy: usize, module: usize, path: &CStr) {
    let image = std::fs::read(OsStr::from_bytes(path.to_bytes()));
    note_module(copy, module, &image.unwrap_or_default());
}

fn note_module(copy: usize, module: usize, image: &[u8]) {
    let code = Mutex::new(ModuleCode::new(image));
    insert(&mut registry().modules, (copy, module), Arc::new(code));
}

/// Notes a function of a module or library.
pub(crate) fn function_found(copy: usize, module: usize, function: usize, name: &CStr) {
    let mut registry = registry();
    insert(&mut registry.names, (copy, function), (module, name.to_string_lossy().into_owned()));
    // The address may have been another module's.
    let found = registry.modules.contains_key(&(copy, module)).then_some(Function::Loaded(module, None));
    replace(&mut registry.functions, (copy, function), found);
}

/// Notes the function of a kernel that compiled code launches by a handle. No code is read yet.
pub(crate) fn function_of_handle(copy: usize, function: usize, handle: usize) {
    let mut registry = registry();
    registry.names.remove(&(copy, function));
    insert(&mut registry.functions, (copy, function), Function::Registered(handle));
}

/// Notes another name of a function: of a library's kernel.
pub(crate) fn function_of_kernel(copy: usize, function: usize, kernel: usize) {
    let mut registry = registry();
    let name = registry.names.get(&(copy, kernel)).cloned();
    replace(&mut registry.names, (copy, function), name);
    let same = match registry.functions.get(&(copy, kernel)) {
        Some(Function::Loaded(module, kernel)) => Some(Function::Loaded(*module, kernel.clone())),
        Some(Function::Registered(handle)) => Some(Function::Registered(*handle)),
        None => None,
    };
    replace(&mut registry.functions, (copy, function), same);
}

/// Forgets a module or library and its functions.
pub(crate) fn module_unloaded(copy: usize, module: usize) {
    let mut registry = registry();
    registry.modules.remove(&(copy, module));
    registry.names.retain(|&(of, _), (from, _)| of != copy || *from != module);
    registry.functions.retain(|&(of, _), function| match function {
        Function::Loaded(from, _) => of != copy || *from != module,
        Function::Registered(_) => true,
    });
}

/// A kernel by the handle that compiled code launches it with.
pub(crate) fn by_handle(copy: usize, handle: usize) -> Option<Arc<Kernel>> {
    by_handle_in(registry(), copy, handle)
}

/// A kernel by the function that a module, a library or the runtime gave.
pub(crate) fn by_function(copy: usize, function: usize) -> Option<Arc<Kernel>> {
    let registry = registry();
    match registry.functions.get(&(copy, function))? {
        Function::Loaded(_, Some(kernel)) => Some(Arc::clone(kernel)),
        &Function::Loaded(module, None) => by_module_in(registry, copy, function, module),
        &Function::Registered(handle) => by_handle_in(registry, copy, handle),
    }
}

/// Reads a module's code, if no thread has done that yet.
fn by_module_in(
    registry: MutexGuard<'static, Registry>,
    copy: usize,
    function: usize,
    module: usize,
) -> Option<Arc<Kernel>> {
    let (_, name) = registry.names.get(&(copy, function))?.clone();
    let code = Arc::clone(registry.modules.get(&(copy, module))?);
    drop(registry);
    let kernel = code.lock().unwrap_or_else(PoisonError::into_inner).kernel(&name)?;
    let mut registry = self::registry();
    // The module may have been unloaded meanwhile, and the function be another one's.
    let is_same = registry.modules.get(&(copy, module)).is_some_and(|module| Arc::ptr_eq(module, &code));
    if let Some(Function::Loaded(of, known)) = registry.functions.get_mut(&(copy, function))
        && *of == module
        && is_same
    {
        *known = Some(Arc::clone(&kernel));
    }
    Some(kernel)
}

/// The name of a kernel as its code object has it, by the handle or the function that a launch names.
pub(crate) fn name(copy: usize, handle: usize) -> Option<String> {
    let registry = registry();
    if let Some(registered) = registry.registered.get(&(copy, handle)) {
        return Some(registered.name.clone());
    }
    if let Some((_, name)) = registry.names.get(&(copy, handle)) {
        return Some(name.clone());
    }
    match registry.functions.get(&(copy, handle))? {
        Function::Registered(handle) => Some(registry.registered.get(&(copy, *handle))?.name.clone()),
        Function::Loaded(..) => None,
    }
}

fn by_handle_in(registry: MutexGuard<'static, Registry>, copy: usize, handle: usize) -> Option<Arc<Kernel>> {
    let kernel = registry.registered.get(&(copy, handle))?;
    let fat_binary = registry.fat_binaries.get(&kernel.modules)?;
    let (wrapper, shared) = (fat_binary.wrapper, Arc::clone(&fat_binary.contents));
    let mut contents = match shared.try_lock() {
        Ok(contents) => contents,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            let name = kernel.name.clone();
            drop(registry);
            // Whatever it was by then, it may be unregistered now: it must not be read here.
            let contents = shared.lock().unwrap_or_else(PoisonError::into_inner);
            return contents.as_ref()?.get(&name).cloned();
        }
    };
    if let Some(kernels) = &*contents {
        return kernels.get(&kernel.name).cloned();
    }
    let name = kernel.name.clone();
    drop(registry);
    // SAFETY: compiled code registers data of its own, and unregisters it, which waits for this, before it is unmapped.
    let kernels = unsafe {
        bundle::unwrap(wrapper as *const u8)
            .ok_or(ImageError::Unknown)
            .and_then(|image| read(bundle::image(image)?))
    };
    contents.insert(kernels.unwrap_or_default()).get(&name).cloned()
}

/// The kernels of an image. Arguments have the same layout for every GPU, so the first code object that can be read is enough. A
/// bundle may begin with code of another kind, such as SPIR-V.
fn read(image: &[u8]) -> Result<Kernels, ImageError> {
    if !memory::can_allocate(image.len()) {
        return Err(ImageError::NoMemory);
    }
    let mut read = Err(ImageError::NoMetadata);
    bundle::code_objects(image, &mut |code_object| {
        read = metadata::kernels(code_object)
            .map(|kernels| kernels.into_iter().map(|(name, kernel)| (name, Arc::new(kernel))).collect());
        read.is_ok()
    })?;
    read
}

#[cfg(test)]
mod tests;
