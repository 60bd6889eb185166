//! One mapping of an address space: its range, its kind and its file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::elf::{Elf, ElfError};

/// A file as the kernel names it in side-band records and in `/proc/PID/maps`.
///
/// The device is that of the inode's superblock. On btrfs and overlayfs `stat` may report another one for the
/// same file; `open_mapped` takes that into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Major number of the device.
    pub device_major: u32,
    /// Minor number of the device.
    pub device_minor: u32,
    /// Inode number.
    pub inode: u64,
    /// Distinguishes successive files with the same inode number. Only side-band records have it.
    pub generation: Option<u64>,
}

impl FileId {
    /// Whether both may be the same file: an unknown generation matches any.
    pub fn matches(&self, other: &Self) -> bool {
        let generations_fit = match (self.generation, other.generation) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => true,
        };
        generations_fit
            && self.inode == other.inode
            && self.device_major == other.device_major
            && self.device_minor == other.device_minor
    }
}

/// The kind of memory of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backing {
    /// A file with a path, possibly deleted since.
    File,
    /// A file in memory, from `memfd_create`.
    Memfd,
    /// `[vdso]`: code that the kernel gives to every process.
    Vdso,
    /// `[heap]`.
    Heap,
    /// `[stack]` of the first thread.
    Stack,
    /// `[uprobes]`: where the kernel executes the instructions that probes replaced, and the target of replaced
    /// return addresses (<https://github.com/torvalds/linux/blob/v6.12/kernel/events/uprobes.c>).
    Uprobes,
    /// Memory without a file, perhaps with a label: generated code, thread stacks, `[anon:...]`.
    Anonymous,
    /// Any other name in brackets, such as `[vvar]` and `[vsyscall]`.
    Special,
}

/// One mapping, as the kernel reported it.
#[derive(Debug)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// The first address after the mapping.
    pub end: u64,
    /// The file offset of the byte at `start`. Meaningless without a file.
    pub file_offset: u64,
    /// The file, if there is one.
    pub file: Option<FileId>,
    /// The kind of memory.
    pub backing: Backing,
    /// The path as the process saw it (in its own root directory), or the kernel's label such as `[vdso]`.
    /// Without the mark of a deleted file.
    pub path: Arc<Path>,
    /// Whether the kernel marked the path as deleted when it reported the mapping. The file may have been
    /// deleted later, or its real name may end with the same text.
    pub deleted: bool,
    /// Looked up once, and shared with the children of a fork.
    pub(crate) binary: OnceLock<Result<Arc<Elf>, ElfError>>,
    /// The process through which opening the file failed, so that further records do not try again. 0: none yet.
    unopenable_by: AtomicU32,
}

pub(crate) const DELETED_MARK: &[u8] = b" (deleted)";

impl Mapping {
    /// `name` is the kernel's text: a path, perhaps marked as deleted, or a label.
    pub(crate) fn new(start: u64, end: u64, file_offset: u64, file: Option<FileId>, name: &[u8]) -> Self {
        let (path, deleted) = match name.strip_suffix(DELETED_MARK) {
            Some(path) => (path, true),
            None => (name, false),
        };
        let backing = classify(path, file.is_some());
        // Memory without a file has device 0 and inode 0. Shared anonymous memory has an inode of an internal file
        // system, which cannot be opened by name.
        let file = file.filter(|_| matches!(backing, Backing::File | Backing::Memfd));
        Self {
            start,
            end,
            file_offset,
            file,
            backing,
            path: Path::new(OsStr::from_bytes(path)).into(),
            deleted,
            binary: OnceLock::new(),
            unopenable_by: AtomicU32::new(0),
        }
    }

    /// The name for display: the last part of the path (`libdemo_blas.so`, the program's file name), or the label.
    pub fn library(&self) -> std::borrow::Cow<'_, str> {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy()
    }

    /// Whether this memory may contain generated code, unless it is a program's file. Just-in-time compilers map their output
    /// twice, to write it and to execute it, and for that they need a file in memory or a deleted one.
    pub fn may_hold_generated_code(&self) -> bool {
        match self.backing {
            Backing::Anonymous | Backing::Memfd => true,
            Backing::File => self.deleted,
            _ => false,
        }
    }

    /// The path as the kernel reported it, including the mark of a deleted file, which may also be part of a real name.
    pub(crate) fn raw_path(&self) -> std::borrow::Cow<'_, Path> {
        if !self.deleted {
            return self.path.as_ref().into();
        }
        let mut raw = self.path.as_os_str().to_owned();
        raw.push(OsStr::from_bytes(DELETED_MARK));
        Path::new(&raw).to_owned().into()
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let same_file = match (&self.file, &other.file) {
            (Some(mine), Some(theirs)) => mine.matches(theirs) && self.file_offset == other.file_offset,
            (None, None) => self.backing == other.backing,
            _ => false,
        };
        same_file && self.start == other.start && self.end == other.end
    }

    pub(crate) fn is_unopenable_by(&self, pid: u32) -> bool {
        self.unopenable_by.load(Ordering::Relaxed) == pid
    }

    pub(crate) fn set_unopenable_by(&self, pid: u32) {
        self.unopenable_by.store(pid, Ordering::Relaxed);
    }
}

fn classify(path: &[u8], has_file: bool) -> Backing {
    match path {
        b"[vdso]" => Backing::Vdso,
        b"[heap]" => Backing::Heap,
        b"[stack]" => Backing::Stack,
        b"[uprobes]" => Backing::Uprobes,
        b"" => Backing::Anonymous,
        _ if path.starts_with(b"/memfd:") => Backing::Memfd,
        // `//anon` and similar names of perf for memory without a file
        // (<https://github.com/torvalds/linux/blob/v6.12/kernel/events/core.c>), and the two prefixes of named
        // anonymous memory (<https://man7.org/linux/man-pages/man5/proc_pid_maps.5.html>).
        _ if path.starts_with(b"//") => Backing::Anonymous,
        _ if path.starts_with(b"[anon:") || path.starts_with(b"[anon_shmem:") => Backing::Anonymous,
        // Shared memory without a named file: System V, anonymous MAP_SHARED, huge pages.
        _ if path.starts_with(b"/SYSV") || path == b"/dev/zero" || path == b"/anon_hugepage" => {
            Backing::Anonymous
        }
        _ if path.starts_with(b"/") && has_file => Backing::File,
        _ if path.starts_with(b"[") => Backing::Special,
        _ => Backing::Anonymous,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(name: &str) -> Mapping {
        let file = FileId { device_major: 8, device_minor: 1, inode: 42, generation: None };
        Mapping::new(0x1000, 0x2000, 0, Some(file), name.as_bytes())
    }

    #[test]
    fn generated_code_may_lie_in_memfds_and_deleted_files() {
        for (name, may) in [
            ("/usr/lib/libc.so.6", false),
            ("/tmp/ffi0Ua (deleted)", true),
            ("/memfd:doublemapper (deleted)", true),
            ("/memfd:doublemapper", true),
            ("[vdso]", false),
            ("//anon", true),
        ] {
            assert_eq!(mapping(name).may_hold_generated_code(), may, "{name}");
        }
    }

    #[test]
    fn the_kernels_names_give_the_kind_of_memory() {
        for (name, backing) in [
            ("/usr/lib/libc.so.6", Backing::File),
            ("/tmp/gone.so (deleted)", Backing::File),
            ("/memfd:jit (deleted)", Backing::Memfd),
            ("[vdso]", Backing::Vdso),
            ("[heap]", Backing::Heap),
            ("[stack]", Backing::Stack),
            ("[uprobes]", Backing::Uprobes),
            ("[vsyscall]", Backing::Special),
            ("[anon:glibc: malloc]", Backing::Anonymous),
            ("//anon", Backing::Anonymous),
            ("", Backing::Anonymous),
            ("/SYSV00000000 (deleted)", Backing::Anonymous),
            ("/dev/zero (deleted)", Backing::Anonymous),
            ("anon_inode:[perf_event]", Backing::Anonymous),
        ] {
            let mapping = mapping(name);
            assert_eq!(mapping.backing, backing, "{name}");
            assert_eq!(mapping.file.is_some(), matches!(backing, Backing::File | Backing::Memfd), "{name}");
        }
    }

    #[test]
    fn the_mark_of_a_deleted_file_is_not_part_of_its_name() {
        let gone = mapping("/tmp/a b/lib x.so (deleted)");
        assert!(gone.deleted);
        assert_eq!(gone.path.as_ref(), Path::new("/tmp/a b/lib x.so"));
        assert_eq!(gone.raw_path().as_ref(), Path::new("/tmp/a b/lib x.so (deleted)"));
        assert_eq!(gone.library(), "lib x.so");
    }

    #[test]
    fn an_unknown_generation_matches_any_and_known_ones_must_be_equal() {
        let scanned = FileId { device_major: 8, device_minor: 1, inode: 42, generation: None };
        let old = FileId { generation: Some(1), ..scanned };
        let new = FileId { generation: Some(2), ..scanned };
        assert!(scanned.matches(&old) && new.matches(&scanned));
        assert!(!old.matches(&new));
        assert!(!old.matches(&FileId { inode: 43, ..old }));
    }
}
