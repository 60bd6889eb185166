//! The objects that the dynamic linker has mapped, lookups in them, and the answers that hold until one is mapped or unmapped.
//!
//! The loader counts what it maps and unmaps, and tells both numbers to a callback at the first object of its list. So whether
//! the list is the known one costs as much as one object of it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use xsched_preload::dlsym;

use crate::runtime::copies::RuntimeCopy;
use crate::runtime::sites::{Original, sites};

/// One mapped program or library.
pub(crate) struct MappedObject {
    /// The path that it was opened by; empty for the program itself.
    path: CString,
    /// Its loaded segments.
    segments: Vec<Range<usize>>,
}

impl MappedObject {
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.segments.iter().any(|segment| segment.contains(&address))
    }

    /// Where the segment with this address ends.
    pub(crate) fn segment_end(&self, address: usize) -> Option<usize> {
        self.segments.iter().find(|segment| segment.contains(&address)).map(|segment| segment.end)
    }

    /// Where its first segment is mapped.
    pub(crate) fn start(&self) -> Option<usize> {
        self.segments.first().map(|segment| segment.start)
    }

    /// A number that distinguishes this library from others, also from earlier or later ones at its address.
    pub(crate) fn identity(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.path, self.start()).hash(&mut hasher);
        hasher.finish()
    }

    /// The path that it was opened by; empty for the program itself.
    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }

    /// The last component of its path.
    pub(crate) fn file_name(&self) -> &[u8] {
        let path = self.path.to_bytes();
        path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
    }
}

/// The loader's list as it was walked last.
pub(crate) struct Objects {
    /// In the loader's order.
    list: Vec<MappedObject>,
    /// Segments by their addresses, each with its object's index.
    segments: Vec<(Range<usize>, usize)>,
    /// None if the loader does not count.
    generation: Option<Generation>,
}

/// How many objects the loader has mapped and unmapped so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Generation {
    mapped: u64,
    unmapped: u64,
}

impl Deref for Objects {
    type Target = [MappedObject];

    fn deref(&self) -> &[MappedObject] {
        &self.list
    }
}

impl Objects {
    fn new(list: Vec<MappedObject>, generation: Option<Generation>) -> Self {
        let of = |(index, object): (usize, &MappedObject)| {
            object.segments.iter().map(|segment| (segment.clone(), index)).collect::<Vec<_>>()
        };
        let mut segments: Vec<_> = list.iter().enumerate().flat_map(of).collect();
        segments.sort_unstable_by_key(|(segment, _)| segment.start);
        Self { list, segments, generation }
    }

    /// The object with code or data at an address.
    pub(crate) fn containing(&self, address: usize) -> Option<&MappedObject> {
        let behind = self.segments.partition_point(|(segment, _)| segment.start <= address);
        let (segment, index) = &self.segments[behind.checked_sub(1)?];
        segment.contains(&address).then(|| &self.list[*index])
    }
}

/// A function's number, called from an object: where that is mapped, 0 for code in none.
pub(crate) type Question = (usize, u64);

/// Which function calls from an object reach.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) original: Original,
    /// The object with that function stays mapped for good.
    pub(crate) is_pinned: bool,
}

struct Walked {
    objects: Arc<Objects>,
    /// What was looked up in these objects.
    answers: HashMap<Question, Answer>,
    /// Libraries that have reached a copy, by their identity.
    settled: HashMap<u64, &'static RuntimeCopy>,
}

// SAFETY: the pointers among the answers are addresses of functions, which are not read here.
unsafe impl Send for Walked {}

/// What is known of the loader's list, held while that is walked. The C library leaves the lock of the list in a forked child
/// as it was. If another thread held it, it would never be released there, and the child's first HIP call would wait forever.
static WALKED: Mutex<Option<Walked>> = Mutex::new(None);

/// How often, a millisecond apart, a thread that forks checks whether any thread walks. A signal handler that
/// interrupts a walk and forks would otherwise wait for itself.
const CHECKS: u32 = 50;

thread_local! {
    /// The guard of a thread that forks. It has no destructor: the C library would end a process that has no memory to note it.
    static NO_WALK: RefCell<Option<NoWalk>> = const { RefCell::new(None) };
}

type NoWalk = ManuallyDrop<MutexGuard<'static, Option<Walked>>>;

/// Before a fork: waits until no thread walks, and prevents further walks.
pub(crate) fn hold_for_fork() {
    for _ in 0..CHECKS {
        match WALKED.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            // The lock protects nothing that a panic could leave undone.
            Err(TryLockError::Poisoned(poisoned)) => return keep(poisoned.into_inner()),
            Ok(guard) => return keep(guard),
        }
    }
}

fn keep(guard: MutexGuard<'static, Option<Walked>>) {
    NO_WALK.set(Some(ManuallyDrop::new(guard)));
}

/// After a fork, in both processes.
pub(crate) fn release_after_fork() {
    drop(NO_WALK.take().map(ManuallyDrop::into_inner));
}

/// What is mapped right now.
pub(crate) fn mapped() -> Arc<Objects> {
    with_walked(|walked| walked.objects.clone())
}

/// What was answered to a question about the objects that are mapped right now.
pub(crate) fn answer(return_address: usize, id: u64) -> Option<(Answer, Question)> {
    with_walked(|walked| {
        let question = question(&walked.objects, return_address, id);
        Some((*walked.answers.get(&question)?, question))
    })
}

/// The question which function a call reaches.
pub(crate) fn question(objects: &Objects, return_address: usize, id: u64) -> Question {
    (objects.containing(return_address).and_then(MappedObject::start).unwrap_or(0), id)
}

/// Keeps an answer for as long as these objects are mapped and no others.
pub(crate) fn remember(objects: &Arc<Objects>, question: Question, answer: Answer) {
    with_walked(|walked| {
        if Arc::ptr_eq(&walked.objects, objects) && walked.answers.try_reserve(1).is_ok() {
            walked.answers.insert(question, answer);
        }
    });
}

/// The copy that a library has reached first: `found`, if it is this one.
pub(crate) fn settled_copy(library: &MappedObject, found: &'static RuntimeCopy) -> &'static RuntimeCopy {
    with_walked(|walked| match walked.settled.try_reserve(1) {
        Ok(()) => walked.settled.entry(library.identity()).or_insert(found),
        Err(_) => walked.settled.get(&library.identity()).copied().unwrap_or(found),
    })
}

/// Walks the loader's list if it has changed.
///
/// What is forgotten then, is forgotten under the lock. A thread that comes to know a new library has taken the lock before, so
/// none of that library's call sites is among the forgotten ones.
fn with_walked<R>(act: impl FnOnce(&mut Walked) -> R) -> R {
    let mut guard = WALKED.lock().unwrap_or_else(PoisonError::into_inner);
    let generation = guard.as_ref().and_then(|walked| walked.objects.generation);
    if let Some(walked) = guard.as_mut().filter(|_| generation.is_some() && generation == current()) {
        return act(walked);
    }
    let objects = walk();
    let unmapped = |generation: Option<Generation>| generation.map(|generation| generation.unmapped);
    if guard.is_some()
        && (objects.generation.is_none() || unmapped(objects.generation) != unmapped(generation))
    {
        sites().forget(|address| objects.containing(address).is_none());
    }
    let mut settled = guard.take().map(|walked| walked.settled).unwrap_or_default();
    let identities: Vec<_> = objects.iter().map(MappedObject::identity).collect();
    settled.retain(|library, _| identities.contains(library));
    act(guard.insert(Walked { objects: Arc::new(objects), answers: HashMap::new(), settled }))
}

/// Two numbers behind the fields that a loader's record has always had.
fn generation_of(info: &libc::dl_phdr_info, size: usize) -> Option<Generation> {
    let has_them = size >= std::mem::offset_of!(libc::dl_phdr_info, dlpi_subs) + size_of::<u64>();
    let generation = Generation { mapped: info.dlpi_adds, unmapped: info.dlpi_subs };
    (has_them && generation.mapped != 0).then_some(generation)
}

/// The loader's generation now.
fn current() -> Option<Generation> {
    /// Notes the generation, and ends the walk.
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, size: usize, generation: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid record, and the variable is `current`'s.
        unsafe { *generation.cast::<Option<Generation>>() = generation_of(&*info, size) };
        1
    }
    let mut generation: Option<Generation> = None;
    // SAFETY: the callback gets back the variable that is passed here, which no other thread uses.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut generation).cast()) };
    generation
}

fn walk() -> Objects {
    let mut found = Found::default();
    // SAFETY: the callback gets back the variable that is passed here, which no other thread uses meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut found).cast()) };
    Objects::new(found.objects, found.generation)
}

#[derive(Default)]
struct Found {
    objects: Vec<MappedObject>,
    generation: Option<Generation>,
}

/// Appends one object to those behind `found`.
unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, size: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid record, and its name is a C string; the variable is `walk`'s.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Found>()) };
    // SAFETY: as above; the program headers are mapped for as long as the object is.
    let (path, headers) = unsafe {
        (CStr::from_ptr(info.dlpi_name), slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()))
    };
    let segments = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
        let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        start..start + header.p_memsz as usize
    });
    found.objects.push(MappedObject { path: path.to_owned(), segments: segments.collect() });
    found.generation = generation_of(info, size);
    0
}

/// The definition of `name` that follows the shim's own in the global scope.
pub(crate) fn next_definition(name: &CStr) -> Option<NonNull<c_void>> {
    dlsym::look_up(libc::RTLD_NEXT, name)
}

/// A reference to a mapped object: it stays mapped for as long as this lives.
pub(crate) struct Handle(NonNull<c_void>);

impl Handle {
    /// Takes a reference to an object that is mapped, and never maps one.
    ///
    /// None for the program itself, whose scope is the global one, and for objects that the loader does not know by
    /// path.
    pub(crate) fn of_mapped(object: &MappedObject) -> Option<Self> {
        if object.path.is_empty() {
            return None;
        }
        // SAFETY: with RTLD_NOLOAD nothing is loaded, so no constructor runs.
        let handle = unsafe { libc::dlopen(object.path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        NonNull::new(handle).map(Self)
    }

    /// Never releases the reference.
    pub(crate) fn keep_mapped(self) -> NonNull<c_void> {
        ManuallyDrop::new(self).0
    }

    /// A handle whose reference [`Handle::keep_mapped`] has kept.
    pub(crate) fn borrow(kept: NonNull<c_void>) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(kept))
    }

    /// The definition of `name` in the object or, in their order, in its dependencies.
    pub(crate) fn definition(&self, name: &CStr) -> Option<NonNull<c_void>> {
        dlsym::look_up(self.0.as_ptr(), name)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: this reference is released once. Other references keep the object mapped: it has called into the
        // shim and is running.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_walks_the_list_while_a_process_is_forked() {
        hold_for_fork();
        assert!(WALKED.try_lock().is_err());
        let walker = thread::spawn(|| mapped().len());
        release_after_fork();
        assert!(walker.join().unwrap() > 0);

        // A handler of a signal that has interrupted a walk forks.
        let walking = WALKED.lock().unwrap_or_else(PoisonError::into_inner);
        hold_for_fork();
        release_after_fork();
        drop(walking);
        assert!(!mapped().is_empty());
    }
}
