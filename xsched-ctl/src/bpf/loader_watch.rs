//! The probes that hold a process in its dynamic loader until a runtime that it has just mapped is probed; see
//! `xsched_abi::loader`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use xsched_symbols::FileId;

use super::attach::{Links, Probes};
use super::object::BpfError;

/// What the loader calls when its list of objects has changed. Debuggers stop there, so it is exported everywhere.
pub(crate) const LOADER_SYMBOL: &str = "_dl_debug_state";

/// Watches the dynamic loaders of the machine.
pub(crate) struct LoaderWatch {
    loaders: HashMap<FileId, Option<Links>>,
}

impl LoaderWatch {
    /// Starts to note who opens a runtime.
    ///
    /// # Errors
    ///
    /// If the tracepoint cannot be used (tracefs not mounted, system call tracepoints not in the kernel): runtimes
    /// are then probed some milliseconds after they were loaded.
    pub(crate) fn start(probes: &mut Probes) -> Result<Self, BpfError> {
        probes.attach_tracepoint("open_enter", "syscalls", "sys_enter_openat")?;
        Ok(Self { loaders: HashMap::new() })
    }

    /// Whether this loader has been seen before.
    pub(crate) fn knows(&self, file: FileId) -> bool {
        self.loaders.contains_key(&file)
    }

    /// Watches a dynamic loader whose symbol [`LOADER_SYMBOL`] is at `offset`, if it has it.
    pub(crate) fn watch(&mut self, probes: &mut Probes, file: FileId, path: &Path, offset: Option<u64>) {
        let links = offset.and_then(|offset| {
            probes
                .attach_loader(path, offset)
                .inspect_err(|error| tracing::debug!("loader not watched: {error}"))
                .ok()
        });
        self.loaders.insert(file, links);
    }
}

/// Whether a file name is that of a dynamic loader, glibc's or musl's.
pub(crate) fn is_loader(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
        (name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld-2."))
            && name.contains(".so")
    })
}

/// The dynamic loader that this program itself runs under, which most others share.
pub(crate) fn own_loader() -> Option<PathBuf> {
    std::fs::read_to_string("/proc/self/maps").ok()?.lines().find_map(|line| {
        let path = Path::new(line.get(line.find('/')?..)?);
        is_loader(path).then(|| path.to_owned())
    })
}
