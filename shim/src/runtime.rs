//! Which real function a call would have reached if the shim were not there.
//!
//! The dynamic linker searches the global scope first and then the caller's own scope. So does this module, in what
//! the loader has mapped:
//!
//! 1. The objects after the shim in the global scope. Another interposer may be there: it gets the call.
//! 2. The caller's object and its dependencies, in their order, which skips preloaded libraries.
//! 3. The mapped runtime copies, for callers that have neither: objects that link no runtime, generated code. With
//!    several copies, the first is taken, and the ambiguity is counted.
//!
//! `RTLD_NEXT` alone is not enough: it is the first step only, and finds nothing of a runtime that was loaded with
//! `RTLD_LOCAL`. No step ever opens a file: a copy that was not mapped has none of the program's kernels.
//!
//! A library stays with the copy that it reached first. The linker usually binds all calls of a library when it is loaded. The
//! shim sees them one by one, and another copy may have become global in between.
//!
//! A copy that was called stays mapped: the addresses kept for its call sites must not dangle. A lookup may overwrite
//! the thread's `dlerror` message, as any call of the loader does.

pub(crate) mod by_name;
pub(crate) mod copies;
pub(crate) mod objects;
pub(crate) mod sites;
pub(crate) mod stopped;

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use xsched_preload::{dlsym, log};

use crate::api::{ApiFunction, Family, Id, TABLE};
use crate::counters::{self, Trouble};
use crate::runtime::copies::{RuntimeCopy, Way};
use crate::runtime::objects::{Answer, Objects, Question};
use crate::runtime::sites::{Key, Original, sites};
use crate::status::xsched_shim_status;

pub(crate) use crate::runtime::objects::{Handle, MappedObject};

/// How the file names of all runtimes begin: plain, versioned, or with a hash from a wheel.
const RUNTIME_FILE_PREFIX: &[u8] = b"libamdhip64";

/// Finds the real function for the call that returns to `return_address`, and remembers it.
pub(crate) fn resolve(function: &ApiFunction, key: Key, return_address: usize) -> Option<Original> {
    let _errno = Errno::save();
    let (Answer { original, is_pinned }, (caller, _)) =
        objects::answer(return_address, function.id as u64).or_else(|| answer(function, return_address))?;
    if original.way == Way::Undecided {
        return Some(original);
    }
    // Compiled code registers each kernel once, from a place of its own.
    if function.family != Family::registration {
        if caller == 0 {
            // The return address does not identify the caller: it may be the trampoline of a return probe.
            counters::trouble(Trouble::UnknownCaller);
        } else if !(is_pinned && sites().insert(key, original)) {
            site_not_kept();
        }
    }
    Some(original)
}

/// Looks an answer up, and keeps it for other calls from the same object.
fn answer(function: &ApiFunction, return_address: usize) -> Option<(Answer, Question)> {
    let objects = objects::mapped();
    let question = objects::question(&objects, return_address, function.id as u64);
    let answer = look_up(function, return_address, &objects)?;
    if answer.original.way != Way::Undecided {
        objects::remember(&objects, question, answer);
    }
    Some((answer, question))
}

/// Which function a call reaches, by the rules of the dynamic linker.
fn look_up(function: &ApiFunction, return_address: usize, objects: &Objects) -> Option<Answer> {
    let name = function.name;
    let caller = objects.containing(return_address);
    let mut found = Found::in_global_scope(name, objects)
        .or_else(|| Found::in_scope_of(caller?, name, objects))
        .or_else(|| Found::in_any_runtime(name, objects))?;
    let mut copy = found.copy(objects);
    if let (Some(caller), Some(first)) = (caller, copy)
        && found.is_in_a_runtime(objects)
    {
        let settled = objects::settled_copy(caller, first);
        if settled.index() != first.index()
            && let Some(address) = settled.definition(name)
        {
            (found, copy) = (Found { address }, Some(settled));
        }
    }
    let original = Original {
        address: found.address.as_ptr(),
        caller_is_runtime: caller.is_some_and(MappedObject::is_runtime),
        copy,
        way: copy.map_or(Way::Symbols, |copy| copy.settle(function.slot)),
    };
    Some(Answer { original, is_pinned: found.pin(objects) })
}

/// Counts a call whose site has no place, and says so at the first.
fn site_not_kept() {
    counters::trouble(Trouble::SiteNotKept);
    if xsched_shim_status.sites_full.swap(1, Ordering::Relaxed) == 0 {
        log::write(
            "xsched-shim: more places call HIP than the table of call sites has entries: the others are looked up at each call\n",
        );
    }
}

/// The copy that a caller would reach which returns to this address.
pub(crate) fn copy_of_caller(return_address: usize) -> Option<&'static RuntimeCopy> {
    let _errno = Errno::save();
    let (answer, _) = answer(&TABLE[Id::hipStreamGetFlags as usize], return_address)?;
    answer.original.copy
}

/// Whether the calls of a copy reach the shim: by its table, or since the linker finds the shim before it. A program that is linked
/// with the shim behind the runtime calls that one directly, and then the shim's own references to exports lead there as well.
pub(crate) fn reaches_shim(copy: Option<&RuntimeCopy>) -> bool {
    let launch = &TABLE[Id::hipLaunchKernel as usize];
    let is_by_table = copy.is_some_and(|copy| copy.way_of(launch.slot) == Way::Table);
    let first = dlsym::look_up(libc::RTLD_DEFAULT, launch.name);
    is_by_table || first.is_some_and(|first| Found { address: first }.is_shims(&objects::mapped()))
}

/// The copy whose code or data these addresses are in; most likely the first one is.
pub(crate) fn copy_of(addresses: impl IntoIterator<Item = usize>) -> Option<&'static RuntimeCopy> {
    let _errno = Errno::save();
    let objects = objects::mapped();
    let is_copy = |&address: &usize| objects.containing(address).filter(|object| object.is_runtime());
    let object = addresses.into_iter().find_map(|address| is_copy(&address))?;
    let copy = RuntimeCopy::of(object)?;
    copy.keep_mapped(object);
    Some(copy)
}

/// The copy whose code this is, if it is the only one in the process.
pub(crate) fn only_copy_at(address: usize) -> Option<&'static RuntimeCopy> {
    let _errno = Errno::save();
    let objects = objects::mapped();
    let mut runtimes = objects.iter().filter(|object| object.is_runtime());
    let only = runtimes.next().filter(|_| runtimes.next().is_none())?;
    if !only.contains(address) {
        return None;
    }
    let copy = RuntimeCopy::of(only)?;
    copy.keep_mapped(only);
    Some(copy)
}

/// Bytes from an address in a mapped object to the end of its segment.
pub(crate) fn bytes_mapped_from(address: usize) -> Option<u64> {
    let objects = objects::mapped();
    objects.containing(address)?.segment_end(address).map(|end| (end - address) as u64)
}

/// A symbol of a mapped library whose file name has this prefix, in any scope.
pub(crate) fn definition_in_library(prefix: &[u8], name: &CStr) -> Option<NonNull<c_void>> {
    let objects = objects::mapped();
    let mut libraries = objects.iter().filter(|object| object.file_name().starts_with(prefix));
    libraries.find_map(|library| Handle::of_mapped(library)?.definition(name))
}

/// The path of a mapped library whose file name begins so.
pub(crate) fn path_of_library(prefix: &[u8]) -> Option<CString> {
    objects::mapped()
        .iter()
        .find(|object| object.file_name().starts_with(prefix))
        .map(|object| object.path().to_owned())
}

/// Forgets the call sites of the library that contains an address: it may be about to be unloaded. False if there is none.
pub(crate) fn forget_library_at(address: usize) -> bool {
    let objects = objects::mapped();
    let library = objects.containing(address);
    if let Some(library) = library {
        sites().forget(|return_address| library.contains(return_address));
    }
    library.is_some()
}

/// A definition that is not the shim's own.
struct Found {
    address: NonNull<c_void>,
}

impl Found {
    fn in_global_scope(name: &CStr, objects: &Objects) -> Option<Self> {
        Self::unless_shims(objects::next_definition(name)?, objects)
    }

    fn in_scope_of(object: &MappedObject, name: &CStr, objects: &Objects) -> Option<Self> {
        Self::unless_shims(Handle::of_mapped(object)?.definition(name)?, objects)
    }

    fn in_any_runtime(name: &CStr, objects: &Objects) -> Option<Self> {
        let mut runtimes = objects.iter().filter(|object| object.is_runtime());
        let first = Self::in_scope_of(runtimes.next()?, name, objects);
        if runtimes.next().is_some() {
            counters::trouble(Trouble::Ambiguous);
        }
        first
    }

    fn unless_shims(address: NonNull<c_void>, objects: &Objects) -> Option<Self> {
        Some(Self { address }).filter(|found| !found.is_shims(objects))
    }

    fn is_shims(&self, objects: &Objects) -> bool {
        let shim = objects.containing(resolve as *const () as usize);
        shim.is_some_and(|object| object.contains(self.address.addr().get()))
    }

    fn is_in_a_runtime(&self, objects: &Objects) -> bool {
        objects.containing(self.address.addr().get()).is_some_and(MappedObject::is_runtime)
    }

    /// The copy that it belongs to. A definition outside of all copies is another interposer's: it serves the only
    /// copy, and is of no known copy if there are several.
    fn copy(&self, objects: &Objects) -> Option<&'static RuntimeCopy> {
        let object = objects.containing(self.address.addr().get()).filter(|object| object.is_runtime());
        let mut runtimes = objects.iter().filter(|object| object.is_runtime());
        let object = object.or_else(|| runtimes.next().filter(|_| runtimes.next().is_none()))?;
        let copy = RuntimeCopy::of(object)?;
        copy.keep_mapped(object);
        Some(copy)
    }

    /// Keeps the defining object mapped for good. False if that fails.
    fn pin(&self, objects: &Objects) -> bool {
        let handle = objects.containing(self.address.addr().get()).and_then(Handle::of_mapped);
        handle.map(Handle::keep_mapped).is_some()
    }
}

impl MappedObject {
    pub(crate) fn is_runtime(&self) -> bool {
        self.file_name().starts_with(RUNTIME_FILE_PREFIX)
    }
}

/// Restores `errno`: the loader's calls change it, and a HIP call must not seem to.
struct Errno(i32);

impl Errno {
    fn save() -> Self {
        // SAFETY: the address is valid for as long as the thread lives.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as in `save`.
        unsafe { *libc::__errno_location() = self.0 }
    }
}
