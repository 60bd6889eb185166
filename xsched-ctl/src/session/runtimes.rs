//! The copies of the HIP runtime on this machine, and the probes in them.
//!
//! Probes belong to files, so each copy is probed once, whoever maps it: when the session starts if it is mapped
//! already, else when a watched process maps it. The loader watch holds such a process until that is done.

use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use xsched_abi::PROBES;
use xsched_symbols::{FileId, Mapping, is_hip_runtime, open_mapped, symbol_file_offsets};

use crate::bpf::{
    Attachment, BpfError, LOADER_SYMBOL, LoaderWatch, Probes, Reach, Site, is_loader, own_loader,
};

/// Why a copy could not be probed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuntimeError {
    /// Its file is out of reach.
    #[error("cannot open {path}: {cause}")]
    Open {
        /// Its path, as the process sees it.
        path: PathBuf,
        /// What happened.
        cause: xsched_symbols::OpenError,
    },
    /// Its file cannot be read.
    #[error("cannot read the symbols of {path}: {cause}")]
    Symbols {
        /// Its path, as the process sees it.
        path: PathBuf,
        /// What happened.
        cause: xsched_symbols::ElfError,
    },
    /// It has none of the functions.
    #[error("{path} exports none of HIP's functions")]
    NoFunctions {
        /// Its path, as the process sees it.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// All probed copies.
pub(crate) struct Runtimes {
    probes: Probes,
    reach: Reach,
    loaders: Option<LoaderWatch>,
    copies: Vec<Copy>,
}

struct Copy {
    file: FileId,
    path: PathBuf,
    /// Nothing if it could not be probed, which is reported once.
    attachment: Option<Attachment>,
}

impl Runtimes {
    /// Nothing is probed yet. Without a loader watch, copies are probed a little after they were loaded.
    pub(crate) fn new(mut probes: Probes, reach: Reach) -> Self {
        let loaders = match LoaderWatch::start(&mut probes) {
            Ok(loaders) => Some(loaders),
            Err(error) => {
                tracing::warn!(
                    "first calls may be missing from processes that load HIP while recording: {error} \
                     (`xsched-ctl doctor` says what to do)"
                );
                None
            }
        };
        let mut runtimes = Self { probes, reach, loaders, copies: Vec::new() };
        // Most programs share this one, so it is watched before the first of them maps it.
        if let Some(loader) = own_loader() {
            runtimes.watch_loader_file(&loader);
        }
        runtimes
    }

    /// Follows the children of listed processes.
    pub(crate) fn follow_children(&mut self) -> Result<(), BpfError> {
        self.probes.follow_children()
    }

    /// Whether [`mapped`](Self::mapped) does anything with a mapping.
    pub(crate) fn concerns(mapping: &Mapping) -> bool {
        is_hip_runtime(&mapping.path) || is_loader(&mapping.path)
    }

    /// Takes note of a mapping: probes it if it is a runtime, watches it if it is a loader.
    pub(crate) fn mapped(&mut self, pid: u32, mapping: &Mapping) -> Result<(), RuntimeError> {
        let Some(file) = mapping.file else { return Ok(()) };
        if is_hip_runtime(&mapping.path) {
            return self.probe(pid, mapping, file);
        }
        if is_loader(&mapping.path)
            && self.loaders.as_ref().is_some_and(|loaders| !loaders.knows(file))
            && let Ok(opened) = open_mapped(pid, mapping)
        {
            self.watch_loader(file, &opened);
        }
        Ok(())
    }

    fn probe(&mut self, pid: u32, mapping: &Mapping, file: FileId) -> Result<(), RuntimeError> {
        if self.copies.iter().any(|copy| copy.file.matches(&file)) {
            return Ok(());
        }
        let outcome = self.attach(pid, mapping);
        let (attachment, outcome) = match outcome {
            Ok(attachment) => (Some(attachment), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.copies.push(Copy { file, path: mapping.path.to_path_buf(), attachment });
        outcome
    }

    fn attach(&mut self, pid: u32, mapping: &Mapping) -> Result<Attachment, RuntimeError> {
        let path = || mapping.path.to_path_buf();
        let opened = open_mapped(pid, mapping).map_err(|cause| RuntimeError::Open { path: path(), cause })?;
        let offsets = symbol_file_offsets(&opened, |name| probe_index(name).is_some())
            .map_err(|cause| RuntimeError::Symbols { path: path(), cause })?;
        let mut sites: Vec<Site> = offsets
            .into_iter()
            .filter_map(|(name, offset)| Some(Site { probe: probe_index(&name)?, offset }))
            .collect();
        // A function under two names would be recorded twice.
        sites.sort_by_key(|site| (site.offset, site.probe));
        sites.dedup_by_key(|site| site.offset);
        if sites.is_empty() {
            return Err(RuntimeError::NoFunctions { path: path() });
        }
        // Through the descriptor it is this very file, whatever its path means by now.
        let attachment = self.probes.attach_runtime(&fd_path(&opened), &sites, self.reach)?;
        tracing::debug!(path = %mapping.path.display(), functions = sites.len(), "probed");
        Ok(attachment)
    }

    fn watch_loader_file(&mut self, path: &Path) {
        use std::os::unix::fs::MetadataExt as _;

        let Ok(opened) = std::fs::File::open(path) else { return };
        let Ok(metadata) = opened.metadata() else { return };
        let file = FileId {
            device_major: rustix::fs::major(metadata.dev()),
            device_minor: rustix::fs::minor(metadata.dev()),
            inode: metadata.ino(),
            generation: None,
        };
        self.watch_loader(file, &opened);
    }

    fn watch_loader(&mut self, file: FileId, opened: &std::fs::File) {
        let Some(loaders) = &mut self.loaders else { return };
        let offset = symbol_file_offsets(opened, |name| name == LOADER_SYMBOL)
            .ok()
            .and_then(|symbols| symbols.first().map(|(_, offset)| *offset));
        loaders.watch(&mut self.probes, file, &fd_path(opened), offset);
    }

    /// Paths of the probed copies.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.copies.iter().filter(|copy| copy.attachment.is_some()).map(|copy| copy.path.as_path())
    }

    /// Takes all probes out.
    pub(crate) fn detach(&mut self) {
        self.copies.clear();
    }
}

fn fd_path(file: &std::fs::File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// The row of the table for an exported symbol.
fn probe_index(symbol: &str) -> Option<usize> {
    PROBES.iter().position(|probe| probe.name == symbol || probe.aliases.contains(&symbol))
}
