//! The verdict page, in which the controller's programs leave their answers: mapped read-only in this process.
//!
//! As with the arbiter page, a later controller's page replaces the first one's at the same address. So it is not
//! necessary to wait for threads that are reading it.

use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap};
use xsched_protocol::verdict::{VERDICT_SLOTS, Verdict, VerdictPage};

use xsched_xqueue::{PageError, check_seals};

/// Where a page is mapped, if one ever was.
static MAPPED: AtomicPtr<VerdictPage> = AtomicPtr::new(ptr::null_mut());

/// What the page's generation is added to. It makes generations larger than all of earlier pages, each of which begins at 0: a verdict
/// that was cached under an earlier page is never taken for one of a later page.
static BEFORE: AtomicU64 = AtomicU64::new(0);

/// More changes than a page counts while it is being replaced.
const REPLACED_WITHIN: u64 = 1 << 16;

/// Whether programs answer there.
static IS_IN_FORCE: AtomicBool = AtomicBool::new(false);

/// An answer in a thread's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// The controller's number of the library that the call belongs to; 0: unknown.
    pub origin: u32,
    /// The generation that it may be cached under.
    pub generation: u64,
}

/// Programs answer on this page from now on.
///
/// # Errors
/// It cannot be mapped, or is not sealed against shrinking.
pub fn set(page: impl AsFd) -> Result<(), PageError> {
    check_seals(page.as_fd())?;
    let before = MAPPED.load(Ordering::Relaxed);
    let fixed = if before.is_null() { MapFlags::empty() } else { MapFlags::FIXED };
    let flags = MapFlags::SHARED | fixed;
    // Once before and once after: what threads cache between the two, from whichever page, is not valid later.
    let counted = counted_by(before) + REPLACED_WITHIN;
    BEFORE.fetch_add(counted, Ordering::Release);
    // SAFETY: at an address of the kernel's choice, or over the shim's own mapping of the same size, whose readers
    // expect words to change.
    let mapped =
        unsafe { mmap(before.cast(), size_of::<VerdictPage>(), ProtFlags::READ, flags, page.as_fd(), 0) };
    MAPPED.store(mapped.map_err(PageError::Map)?.cast(), Ordering::Release);
    BEFORE.fetch_add(counted, Ordering::Release);
    IS_IN_FORCE.store(true, Ordering::Release);
    Ok(())
}

/// Programs do not answer any more.
pub fn unset() {
    IS_IN_FORCE.store(false, Ordering::Release);
}

/// Whether programs answer.
pub fn is_in_force() -> bool {
    IS_IN_FORCE.load(Ordering::Relaxed)
}

/// The generation of verdicts, which grows with each change on a page, and with each new page. 0: there was no page yet.
#[inline]
pub fn generation() -> u64 {
    BEFORE.load(Ordering::Acquire).wrapping_add(counted_by(MAPPED.load(Ordering::Acquire)))
}

/// What a page has counted; 0 without a page.
#[inline]
fn counted_by(page: *mut VerdictPage) -> u64 {
    if page.is_null() {
        return 0;
    }
    // SAFETY: mapped for good with the page's size; words are changed whole.
    unsafe { AtomicU64::from_ptr(&raw mut (*page).generation) }.load(Ordering::Relaxed)
}

/// The answer to the call with this ticket, if this thread's slot has it. None: no program was attached.
pub(super) fn answer(slot: usize, ticket: u64) -> Option<Answer> {
    // First: if the page is replaced meanwhile, the answer has a generation of the past.
    let before = BEFORE.load(Ordering::Acquire);
    let page = MAPPED.load(Ordering::Acquire);
    if page.is_null() || slot >= VERDICT_SLOTS {
        return None;
    }
    // SAFETY: as above, and the slot lies in it.
    let slot = unsafe { &raw mut (*page).slots[slot] };
    // SAFETY: a field of the slot, which no program writes between its end and this thread's next question.
    let origin = unsafe { AtomicU32::from_ptr(&raw mut (*slot).origin) }.load(Ordering::Acquire);
    let word = |field: *mut u64| {
        // SAFETY: a word of the slot.
        unsafe { AtomicU64::from_ptr(field) }.load(Ordering::Acquire)
    };
    // SAFETY: fields of the slot; nothing is read here.
    let (its, verdict, generation) =
        unsafe { (&raw mut (*slot).ticket, &raw mut (*slot).verdict, &raw mut (*slot).generation) };
    // The program has run on this thread, before the function that it is attached to returned.
    (word(its) == ticket).then(|| Answer {
        verdict: Verdict(word(verdict)),
        origin,
        generation: before.wrapping_add(word(generation)),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::mem::offset_of;
    use std::os::unix::fs::FileExt as _;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use xsched_protocol::verdict::{Action, VerdictSlot};

    use super::*;

    fn page(generation: u64) -> File {
        let file = File::from(memfd_create("verdicts", MemfdFlags::ALLOW_SEALING).unwrap());
        file.set_len(size_of::<VerdictPage>() as u64).unwrap();
        write(&file, offset_of!(VerdictPage, generation), generation);
        file
    }

    fn write(file: &File, at: usize, word: u64) {
        file.write_all_at(&word.to_ne_bytes(), at as u64).unwrap();
    }

    /// One test: there is one page in a process.
    #[test]
    fn an_answer_matches_its_ticket_and_a_new_page_replaces_the_old_one() {
        assert!(matches!(set(page(1)), Err(PageError::Unsealed)));
        assert_eq!((is_in_force(), generation(), answer(0, 1)), (false, 0, None));
        let first = page(3);
        fcntl_add_seals(&first, SealFlags::SHRINK).unwrap();
        set(&first).unwrap();
        let at_first = generation();
        assert!(is_in_force() && at_first > 0);
        write(&first, offset_of!(VerdictPage, generation), 4);
        assert_eq!(generation(), at_first + 1, "the page has counted a change");
        let slot = offset_of!(VerdictPage, slots) + 5 * size_of::<VerdictSlot>();
        let verdict = Verdict::new(Action::NeverSuspend, 0, true);
        write(&first, slot + offset_of!(VerdictSlot, verdict), verdict.0);
        write(&first, slot + offset_of!(VerdictSlot, generation), 4);
        write(&first, slot + offset_of!(VerdictSlot, origin), 8);
        write(&first, slot + offset_of!(VerdictSlot, ticket), 77);
        let generation_then = generation();
        assert_eq!(answer(5, 77), Some(Answer { verdict, origin: 8, generation: generation_then }));
        assert_eq!((answer(5, 78), answer(4, 77), answer(VERDICT_SLOTS, 77)), (None, None, None));
        let second = page(1);
        fcntl_add_seals(&second, SealFlags::SHRINK).unwrap();
        set(&second).unwrap();
        assert_eq!(answer(5, 77), None);
        assert!(generation() > generation_then, "what was cached under the first page would be valid again");
        unset();
        assert!(!is_in_force());
    }
}
