//! Probes that stop a process in its dynamic loader until the runtime that it has just mapped is probed; see
//! `xsched_abi::loader`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use xsched_symbols::{FileId, now_ns};

use super::attach::{Links, Probes};

/// The function that the loader calls when its list of objects has changed. Debuggers set a breakpoint there, so it is
/// always exported ([glibc](https://sourceware.org/git/?p=glibc.git;a=blob;f=elf/dl-debug.c;hb=refs/tags/glibc-2.36)).
pub(crate) const LOADER_SYMBOL: &str = "_dl_debug_state";

/// Probes in the dynamic loaders of the machine.
#[derive(Default)]
pub(crate) struct LoaderWatch {
    /// None for a loader that cannot be watched, such as musl's.
    loaders: HashMap<FileId, Option<Watch>>,
}

struct Watch {
    _links: Links,
    since_ns: u64,
}

impl LoaderWatch {
    pub(crate) fn knows(&self, file: FileId) -> bool {
        self.loaders.keys().any(|known| known.matches(&file))
    }

    /// Watches a dynamic loader whose symbol [`LOADER_SYMBOL`] is at `offset`, if it has it.
    pub(crate) fn watch(&mut self, probes: &mut Probes, file: FileId, path: &Path, offset: Option<u64>) {
        let links = offset.and_then(|offset| {
            probes
                .attach_loader(path, offset)
                .inspect_err(|error| tracing::debug!("loader not watched: {error}"))
                .ok()
        });
        self.loaders.insert(file, links.map(|links| Watch { _links: links, since_ns: now_ns() }));
    }

    /// Whether a loader was watched at a time, in nanoseconds of `CLOCK_BOOTTIME`.
    pub(crate) fn watched_at(&self, file: FileId, time_ns: u64) -> bool {
        let mut loaders = self.loaders.iter().filter(|(known, _)| known.matches(&file));
        loaders.any(|(_, watch)| watch.as_ref().is_some_and(|watch| watch.since_ns <= time_ns))
    }
}

/// Whether a file name is that of a dynamic loader, glibc's or musl's.
pub(crate) fn is_loader(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
        (name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld-2."))
            && name.contains(".so")
    })
}

/// The dynamic loader of this program, which most other programs share.
pub(crate) fn own_loader() -> Option<PathBuf> {
    std::fs::read_to_string("/proc/self/maps").ok()?.lines().find_map(|line| {
        let path = Path::new(line.get(line.find('/')?..)?);
        is_loader(path).then(|| path.to_owned())
    })
}
