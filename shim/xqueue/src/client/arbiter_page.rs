//! The arbiter's page as this process sees it: mapped read-only, read word by word.
//!
//! The page of the first controller stays mapped as long as the process lives. The page of a later one is mapped at the same
//! address, so no reader must be waited for. Readers may then mix words of both pages, which the generation in a queue's word
//! reveals.

#![expect(unsafe_code, reason = "maps the arbiter page")]

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::fs::{SealFlags, fcntl_get_seals};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use thiserror::Error;
use xsched_protocol::arbiter_page::{PAGE_MAGIC, PAGE_VERSION, Page, Word};

/// Why a page is not taken.
#[derive(Debug, Error)]
pub enum PageError {
    /// The system refuses.
    #[error("map the page: {0}")]
    Map(Errno),
    /// It could become shorter under its readers.
    #[error("map the arbiter page: the memfd is not sealed against shrinking")]
    Unsealed,
    /// It has this version.
    #[error("read a page of another version, {0}")]
    Version(u64),
}

/// Where the page is mapped, if one ever was.
#[derive(Debug)]
pub(crate) struct MappedPage(AtomicPtr<AtomicU64>);

impl MappedPage {
    pub(crate) const fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Maps this page where the one before is mapped.
    ///
    /// # Errors
    /// It cannot be mapped, is of another version, or could become shorter under its readers.
    pub(crate) fn replace(&self, page: impl AsFd) -> Result<(), PageError> {
        let page = page.as_fd();
        check_seals(page)?;
        let before = self.0.load(Ordering::Relaxed);
        // Somewhere else first: it may be of another version.
        let new = map(page, ptr::null_mut(), MapFlags::SHARED).map_err(PageError::Map)?;
        let (magic, version) = (read(new, Word::MAGIC), read(new, Word::VERSION));
        if (magic, version) == (PAGE_MAGIC, PAGE_VERSION) && before.is_null() {
            self.0.store(new, Ordering::Release);
            return Ok(());
        }
        // SAFETY: mapped right now, and no other thread has seen it.
        let _ = unsafe { rustix::mm::munmap(new.cast(), size_of::<Page>()) };
        if (magic, version) != (PAGE_MAGIC, PAGE_VERSION) {
            return Err(PageError::Version(version));
        }
        map(page, before, MapFlags::SHARED | MapFlags::FIXED).map(drop).map_err(PageError::Map)
    }

    /// One word; zero where no page ever was.
    pub(crate) fn load(&self, word: Word) -> u64 {
        let page = self.0.load(Ordering::Acquire);
        if page.is_null() { 0 } else { read(page, word) }
    }
}

fn read(page: *const AtomicU64, word: Word) -> u64 {
    // SAFETY: mapped for good with the page's size, in which every `Word` lies; words are changed whole.
    unsafe { (*page.add(word.index())).load(Ordering::SeqCst) }
}

fn map(page: BorrowedFd<'_>, at: *mut AtomicU64, flags: MapFlags) -> Result<*mut AtomicU64, Errno> {
    // SAFETY: at an address of the kernel's choice, or over the shim's own mapping of the same size, whose readers expect
    // words to change.
    unsafe { mmap(at.cast(), size_of::<Page>(), ProtFlags::READ, flags, page, 0) }.map(<*mut _>::cast)
}

/// A memfd must never become shorter: its readers would be killed. A BPF map has no seals, and its size cannot change.
pub fn check_seals(page: BorrowedFd<'_>) -> Result<(), PageError> {
    match fcntl_get_seals(page) {
        Ok(seals) if seals.contains(SealFlags::SHRINK) => Ok(()),
        Err(Errno::INVAL) if is_bpf_map(page) => Ok(()),
        _ => Err(PageError::Unsealed),
    }
}

fn is_bpf_map(page: BorrowedFd<'_>) -> bool {
    use std::os::fd::AsRawFd;
    let target = std::fs::read_link(format!("/proc/thread-self/fd/{}", page.as_raw_fd()));
    target.is_ok_and(|target| target.as_os_str() == "anon_inode:bpf-map")
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{MemfdFlags, fcntl_add_seals, memfd_create};

    use super::*;

    fn page(version: u64, exists: u64) -> File {
        let file = memfd_create("page", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(file);
        file.set_len(size_of::<Page>() as u64).unwrap();
        file.write_all_at(&PAGE_MAGIC.to_ne_bytes(), 0).unwrap();
        file.write_all_at(&version.to_ne_bytes(), 8).unwrap();
        let at = Word::exists(1).index() as u64 * 8;
        file.write_all_at(&exists.to_ne_bytes(), at).unwrap();
        file
    }

    fn sealed(file: File) -> File {
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        file
    }

    #[test]
    fn a_page_is_read_and_replaced_where_it_is() {
        let mapped = MappedPage::none();
        assert_eq!(mapped.load(Word::exists(1)), 0);
        let first = sealed(page(PAGE_VERSION, 5));
        mapped.replace(&first).unwrap();
        assert_eq!(mapped.load(Word::exists(1)), 5);
        let at = mapped.0.load(Ordering::Relaxed);
        mapped.replace(sealed(page(PAGE_VERSION, 6))).unwrap();
        assert_eq!((mapped.load(Word::exists(1)), mapped.0.load(Ordering::Relaxed)), (6, at));
    }

    #[test]
    fn a_page_of_another_version_leaves_the_one_before() {
        let mapped = MappedPage::none();
        mapped.replace(sealed(page(PAGE_VERSION, 5))).unwrap();
        let error = mapped.replace(sealed(page(PAGE_VERSION + 1, 6))).unwrap_err();
        assert!(matches!(error, PageError::Version(_)));
        assert_eq!(mapped.load(Word::exists(1)), 5);
    }

    #[test]
    fn a_page_that_could_become_shorter_is_refused() {
        let mapped = MappedPage::none();
        assert!(matches!(mapped.replace(page(PAGE_VERSION, 5)), Err(PageError::Unsealed)));
        assert!(matches!(mapped.replace(tempfile::tempfile().unwrap()), Err(PageError::Unsealed)));
    }
}
