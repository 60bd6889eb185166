//! The copies of GPU runtimes on this machine, and their probes.
//!
//! Probes belong to files, so each copy is probed once for all processes. This is at the start of the session if the copy is
//! mapped already, otherwise when a watched process opens or maps it. So are the functions by which a shim announces deferred
//! calls.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use tokio::io::unix::AsyncFd;
use xsched_abi::PROBES;
use xsched_bpf::{BpfError, Written};
use xsched_protocol::deferred::ANNOUNCES;
use xsched_symbols::{
    FileId, Mapping, OpenError, Patience, Process, is_shim, now_ns, open_mapped, open_regular,
    process_folder, runtime_of, symbol_file_offsets,
};
use xsched_terminal::say;

use super::installed::installed;
use crate::bpf::{
    Attachment, DriverLinks, LOADER_SYMBOL, LoaderWatch, Probes, Reach, Site, is_loader, own_loader,
};
use crate::error::RuntimeError;
use crate::filter::Filters;

pub(crate) struct Runtimes {
    probes: Probes,
    reach: Reach,
    filters: Rc<Filters>,
    /// Where processes may be stopped in their loaders.
    loaders: Option<LoaderWatch>,
    copies: Vec<Copy>,
    /// Files whose mappings show another device than an open descriptor does, as on overlayfs, which containers use.
    /// Each pair has the mapping's file id and the descriptor's.
    aliases: Vec<(FileId, FileId)>,
    /// None where the kernel does not report writes to files.
    written: Option<AsyncFd<Written>>,
    /// The probes have been removed for good; no more are added.
    is_over: bool,
}

struct Copy {
    file: FileId,
    path: PathBuf,
    /// Its content when it was probed; none if the file may have been incomplete.
    content: Option<Content>,
    /// Kept until the recording ends; none if it could not be probed, which is reported once.
    attachment: Option<Attachment>,
    is_probed: bool,
    /// When calls began to be recorded.
    probed_ns: u64,
}

/// Distinguishes contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    bytes: u64,
    modified: SystemTime,
}

impl Content {
    fn of(opened: &File) -> Option<Self> {
        let about = opened.metadata().ok()?;
        Some(Self { bytes: about.len(), modified: about.modified().ok()? })
    }

    /// None for a file that was written within `FRESH`, and may still be written: writes within one tick of the clock
    /// change neither time nor size.
    fn settled(opened: &File) -> Option<Self> {
        Self::of(opened).filter(|content| content.modified.elapsed().is_ok_and(|age| age > FRESH))
    }
}

/// How long a file counts as being written.
const FRESH: Duration = Duration::from_secs(1);

impl Runtimes {
    pub(crate) fn new(mut probes: Probes, reach: Reach, filters: Rc<Filters>) -> Self {
        if probes.detach_slowly() && !filters.choose_functions() {
            tracing::warn!(
                "allocations, events, graphs and rarer copies are not recorded: on this kernel each probe takes \
                 0.1 s to remove (`--api` chooses others)"
            );
        }
        if let Err(error) = probes.note_mapping() {
            tracing::warn!(
                "call chains may be wrong for some milliseconds after a library is loaded where another one was: \
                 {error} (`xsched-ctl doctor` says what to do)"
            );
        }
        if let Err(error) = probes.report_opening() {
            tracing::warn!(
                "first calls may be missing from processes that load HIP or CUDA while recording: {error} \
                 (`xsched-ctl doctor` says what to do)"
            );
        }
        Self {
            probes,
            reach,
            filters,
            loaders: None,
            copies: Vec::new(),
            aliases: Vec::new(),
            written: Written::new(),
            is_over: false,
        }
    }

    /// Follows the children of listed processes, and stops these where a runtime is new.
    pub(crate) fn follow_children(&mut self) -> Result<(), BpfError> {
        self.probes.follow_children()?;
        self.stop_in_loaders()
    }

    /// Stops listed processes where a runtime is new.
    pub(crate) fn stop_in_loaders(&mut self) -> Result<(), BpfError> {
        self.probes.follow_groups()?;
        self.loaders = Some(LoaderWatch::default());
        // Most programs share this loader, so it is watched before the first of them maps it.
        if let Some(loader) = own_loader() {
            self.watch_loader_file(&loader);
        }
        Ok(())
    }

    /// Probes the copies that are installed on this machine, for programs that start later.
    pub(crate) fn probe_installed(&mut self) {
        for path in installed() {
            if let Err(error) = self.probe_file(own_folder(&path), &path, Patience::Long) {
                tracing::debug!("{error}");
            }
        }
    }

    /// Probes a copy that the user has named.
    pub(crate) fn probe_named(&mut self, path: &Path) -> Result<(), RuntimeError> {
        let unreadable = |cause| RuntimeError::Named { path: path.to_owned(), cause };
        let opened = open_regular(own_folder(path), path, Patience::Long).map_err(unreadable)?;
        let file = file_id(&opened).ok_or_else(|| unreadable(io::ErrorKind::Unsupported.into()))?;
        if self.is_known(file, &opened) { Ok(()) } else { self.probe(file, path, &opened) }
    }

    /// A process opens a file that may be a runtime: probes it if it is one. True if the file at this path is probed
    /// now. The error is [`RuntimeError::is_silent`] if its file system has not answered yet.
    pub(crate) fn opening(&mut self, pid: u32, path: &Path) -> Result<bool, RuntimeError> {
        if self.is_over {
            return Ok(false);
        }
        let process = process_folder(pid);
        let folder = process.join(if path.is_absolute() { "root" } else { "cwd" });
        self.probe_file(&folder, path, Patience::Short)
    }

    /// Probes a file that processes call `path`, which is relative to `folder` for this process. False if there is no
    /// such file, as in most folders that a loader tries. A FIFO or device of that name does not block the tracer.
    fn probe_file(&mut self, folder: &Path, path: &Path, patience: Patience) -> Result<bool, RuntimeError> {
        let opened = match open_regular(folder, path, patience) {
            Ok(opened) => opened,
            Err(cause) if cause.kind() == io::ErrorKind::TimedOut => {
                return Err(RuntimeError::Named { path: path.to_owned(), cause });
            }
            Err(_) => return Ok(false),
        };
        let Some(file) = file_id(&opened) else { return Ok(false) };
        if !self.is_known(file, &opened) {
            self.probe(file, path, &opened)?;
        }
        Ok(self.is_probed(file))
    }

    fn is_probed(&self, file: FileId) -> bool {
        self.copies.iter().any(|copy| copy.file.matches(&file) && copy.is_probed)
    }

    /// Whether the programs stop this process when it loads a runtime at `time_ns`, if it may be stopped.
    pub(crate) fn stops(&self, process: &Process, time_ns: u64) -> bool {
        let Some(loaders) = &self.loaders else { return false };
        process
            .mappings()
            .filter(|mapping| is_loader(&mapping.path))
            .filter_map(|mapping| mapping.file)
            .any(|file| loaders.watched_at(self.as_opened(file), time_ns))
    }

    /// Whether [`mapped`](Self::mapped) handles a mapping.
    pub(crate) fn concerns(mapping: &Mapping) -> bool {
        runtime_of(&mapping.path).is_some() || is_shim(&mapping.path) || is_loader(&mapping.path)
    }

    /// Handles a mapping that a process has had since `mapped_ns`: probes it if it is a runtime, watches it if it is a
    /// loader. True if the process may have made calls before it was probed. The error is [`RuntimeError::is_silent`] if its file
    /// system has not answered yet.
    pub(crate) fn mapped(
        &mut self,
        pid: u32,
        mapping: &Mapping,
        mapped_ns: u64,
    ) -> Result<bool, RuntimeError> {
        let Some(mapped) = mapping.file else { return Ok(false) };
        let unopened = |cause| RuntimeError::Open { path: mapping.path.to_path_buf(), cause };
        let is_shim = is_shim(&mapping.path);
        if is_shim || runtime_of(&mapping.path).is_some() {
            if !self.is_probed(self.as_opened(mapped)) {
                let opened = open_mapped(pid, mapping, Patience::Short).map_err(unopened)?;
                let file = self.identify(mapped, &opened);
                if !self.is_known(file, &opened) {
                    if self.is_over {
                        return Ok(!is_shim);
                    }
                    match self.probe(file, &mapping.path, &opened) {
                        // A shim of an earlier version announces nothing. Its process is recorded all the same.
                        Err(error) if is_shim && !error.is_silent() => tracing::debug!("{error}"),
                        outcome => outcome?,
                    }
                }
            }
            if is_shim {
                return Ok(false);
            }
            let file = self.as_opened(mapped);
            let copy = self.copies.iter().find(|copy| copy.file.matches(&file));
            return Ok(copy.is_some_and(|copy| copy.is_probed && copy.probed_ns > mapped_ns));
        }
        if is_loader(&mapping.path) && self.wants_loader(self.as_opened(mapped)) {
            let opened = match open_mapped(pid, mapping, Patience::Short) {
                Err(cause @ OpenError::Silent { .. }) => return Err(unopened(cause)),
                Err(_) => return Ok(false),
                Ok(opened) => opened,
            };
            let file = self.identify(mapped, &opened);
            if self.wants_loader(file) {
                self.watch_loader(file, &opened);
            }
        }
        Ok(false)
    }

    /// Whether what a shim in this file deferred at a time was announced where it was called.
    pub(crate) fn announces(&self, mapped: FileId, time_ns: u64) -> bool {
        let file = self.as_opened(mapped);
        self.copies.iter().any(|copy| copy.file.matches(&file) && copy.is_probed && copy.probed_ns <= time_ns)
    }

    /// Whether a file is probed, or could not be probed with its present content. A file that is still being copied
    /// becomes a library later.
    fn is_known(&self, file: FileId, opened: &File) -> bool {
        let content = Content::of(opened);
        let mut copies = self.copies.iter().filter(|copy| copy.file.matches(&file));
        copies.any(|copy| copy.is_probed || copy.content.is_some() && copy.content == content)
    }

    fn wants_loader(&self, file: FileId) -> bool {
        self.loaders.as_ref().is_some_and(|loaders| !loaders.knows(file))
    }

    /// The file id that an open descriptor shows for a mapped file.
    fn as_opened(&self, mapped: FileId) -> FileId {
        let alias = self.aliases.iter().find(|(as_mapped, _)| as_mapped.matches(&mapped));
        alias.map_or(mapped, |(_, as_opened)| *as_opened)
    }

    /// Learns that id from an open descriptor.
    fn identify(&mut self, mapped: FileId, opened: &File) -> FileId {
        match file_id(opened) {
            Some(as_opened) if !as_opened.matches(&mapped) => {
                if !self.aliases.iter().any(|(as_mapped, _)| as_mapped.matches(&mapped)) {
                    self.aliases.push((mapped, as_opened));
                }
                as_opened
            }
            _ => mapped,
        }
    }

    fn probe(&mut self, file: FileId, path: &Path, opened: &File) -> Result<(), RuntimeError> {
        // Taken before the file is read: a write meanwhile makes it another content.
        let content = Content::settled(opened);
        if let Some(written) = &self.written {
            written.get_ref().watch(file, opened);
        }
        let (attachment, outcome) = match self.attach(path, opened) {
            Ok(attachment) => (Some(attachment), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.copies.retain(|copy| copy.is_probed || !copy.file.matches(&file));
        let (path, is_probed) = (path.to_owned(), attachment.is_some());
        self.copies.push(Copy { file, path, content, attachment, is_probed, probed_ns: now_ns() });
        outcome
    }

    fn attach(&mut self, path: &Path, opened: &File) -> Result<Attachment, RuntimeError> {
        let is_shim = is_shim(path);
        let function =
            |symbol: &str| probe_index(if is_shim { symbol.strip_prefix(ANNOUNCES)? } else { symbol });
        let is_wanted = |name: &str| {
            function(name).is_some_and(|index| PROBES[index].is_vital || self.takes_all_functions())
        };
        let offsets = symbol_file_offsets(opened, is_wanted)
            .map_err(|cause| RuntimeError::Symbols { path: path.to_owned(), cause })?;
        let mut sites: Vec<Site> = offsets
            .into_iter()
            .filter_map(|(name, offset)| Some(Site { probe: function(&name)?, offset }))
            .collect();
        // A function with two names would be recorded twice.
        sites.sort_by_key(|site| (site.offset, site.probe));
        sites.dedup_by_key(|site| site.offset);
        if sites.is_empty() {
            return Err(RuntimeError::NoFunctions { path: path.to_owned() });
        }
        sites.retain(|site| self.filters.probe(&PROBES[site.probe]));
        // The descriptor refers to this very file, whatever its path means by now.
        let attachment = self.probes.attach_runtime(&fd_path(opened), &sites, self.reach)?;
        tracing::debug!(path = %path.display(), functions = sites.len(), "probed");
        Ok(attachment)
    }

    /// Where removing probes is slow, only the vital functions get them, unless the user chose others.
    fn takes_all_functions(&self) -> bool {
        !self.probes.detach_slowly() || self.filters.choose_functions()
    }

    fn watch_loader_file(&mut self, path: &Path) {
        let Ok(opened) = File::open(path) else { return };
        if let Some(file) = file_id(&opened) {
            self.watch_loader(file, &opened);
        }
    }

    fn watch_loader(&mut self, file: FileId, opened: &File) {
        let Some(loaders) = &mut self.loaders else { return };
        let offset = symbol_file_offsets(opened, |name| name == LOADER_SYMBOL)
            .ok()
            .and_then(|symbols| symbols.first().map(|(_, offset)| *offset));
        loaders.watch(&mut self.probes, file, &fd_path(opened), offset);
    }

    /// Waits until a probed copy is written.
    pub(crate) async fn something_written(&self) {
        match &self.written {
            Some(written) => drop(written.readable().await.map(|mut guard| guard.clear_ready())),
            None => std::future::pending().await,
        }
    }

    /// Removes the probes from copies that are written. True if there were any.
    pub(crate) fn let_go_of_written(&mut self) -> bool {
        let files = self.written.as_ref().map(|written| written.get_ref().take()).unwrap_or_default();
        let is_written = |copy: &mut Copy| copy.is_probed && files.iter().any(|file| copy.file.matches(file));
        let mut found = false;
        for copy in self.copies.extract_if(.., is_written) {
            found = true;
            tracing::warn!(
                "{} is being overwritten: its probes are removed until it is loaded again",
                copy.path.display()
            );
        }
        found
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let is_runtime = |copy: &&Copy| copy.is_probed && !is_shim(&copy.path);
        self.copies.iter().filter(is_runtime).map(|copy| copy.path.as_path())
    }

    pub(crate) fn attach_ioctl(&mut self) -> Result<DriverLinks, BpfError> {
        self.probes.attach_ioctl()
    }

    pub(crate) fn detach(&mut self) {
        if self.probes.detach_slowly() && self.paths().next().is_some() {
            say!("removing the probes takes some seconds on this kernel");
        }
        self.copies.iter_mut().for_each(|copy| drop(copy.attachment.take()));
        self.is_over = true;
    }
}

/// The id that mappings of an open file show.
fn file_id(opened: &File) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt as _;

    let metadata = opened.metadata().ok()?;
    Some(FileId {
        device_major: rustix::fs::major(metadata.dev()),
        device_minor: rustix::fs::minor(metadata.dev()),
        inode: metadata.ino(),
        generation: None,
    })
}

/// The folder at which a path of this process begins.
fn own_folder(path: &Path) -> &'static Path {
    Path::new(if path.is_absolute() { "/" } else { "." })
}

fn fd_path(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// The table row for an exported symbol.
fn probe_index(symbol: &str) -> Option<usize> {
    static INDICES: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
        let rows = PROBES.iter().enumerate();
        rows.flat_map(|(index, probe)| {
            probe.aliases.iter().copied().chain([probe.name]).map(move |name| (name, index))
        })
        .collect()
    });
    INDICES.get(symbol).copied()
}
