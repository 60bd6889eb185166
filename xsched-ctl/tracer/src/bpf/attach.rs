//! Attaches probes to files, and removes them.

use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use aya::programs::ProgramError;
use aya::programs::trace_point::TracePointLink;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeLink, UProbeScope};
use xsched_abi::Cookie;
use xsched_bpf::{
    BpfError,
    sys::{self, Direction},
    tracefs_with,
};
use xsched_terminal::kind;

use super::object::Programs;
use super::self_test::{Attach, Features, PidFilter};

/// A function to probe: its row in the table and its offset in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// Index into [`xsched_abi::PROBES`].
    pub(crate) probe: usize,
    /// Offset in the file.
    pub(crate) offset: u64,
}

/// Which processes' calls in a probed file reach the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Every process that maps the file.
    Everybody,
    /// One process. Other processes pay nothing, where the kernel can tell them apart.
    Process(NonZeroU32),
}

/// The programs, ready to be attached.
pub(crate) struct Probes {
    programs: Programs,
    features: Features,
}

/// Probes in one file. Dropping it removes them.
pub(crate) struct Attachment {
    // Entries are removed first: a call without its entry is not recorded, one without its return would stay in
    // progress.
    _enter: Links,
    _return: Links,
}

impl Probes {
    /// `programs`, which this kernel attaches as `features` say.
    pub(crate) fn new(programs: Programs, features: Features) -> Self {
        Self { programs, features }
    }

    /// Attaches to the entries and returns of a runtime's functions.
    pub(crate) fn attach_runtime(
        &mut self,
        path: &Path,
        sites: &[Site],
        reach: Reach,
    ) -> Result<Attachment, BpfError> {
        // Returns first, for the reason given at the fields.
        let returns = self.attach("call_return", Direction::Return, path, sites, reach)?;
        let enter = self.attach("call_enter", Direction::Enter, path, sites, reach)?;
        Ok(Attachment { _enter: enter, _return: returns })
    }

    /// Whether removing probes takes seconds.
    pub(crate) fn detach_slowly(&self) -> bool {
        self.features.attach == Attach::PerfEvents
    }

    pub(super) fn attach_loader(&mut self, path: &Path, offset: u64) -> Result<Links, BpfError> {
        self.attach("loader_state", Direction::Enter, path, &[Site { probe: 0, offset }], Reach::Everybody)
    }

    /// Adds children of listed processes to the list, from their first instruction on. Works in the initial pid
    /// namespace only, whose ids the tracepoint reports.
    pub(crate) fn follow_children(&mut self) -> Result<(), BpfError> {
        self.keep_tracepoint("task_new", "task", "task_newtask")
    }

    /// Notes which of the listed processes leave the process group.
    pub(crate) fn follow_groups(&mut self) -> Result<(), BpfError> {
        self.keep_tracepoint("group_enter", "syscalls", "sys_enter_setpgid")?;
        self.keep_tracepoint("session_enter", "syscalls", "sys_enter_setsid")
    }

    /// Reports processes that open a runtime.
    pub(crate) fn report_opening(&mut self) -> Result<(), BpfError> {
        self.keep_tracepoint("open_enter", "syscalls", "sys_enter_openat")
    }

    /// Notes when a process maps code, so that no stack is walked with outdated mappings.
    pub(crate) fn note_mapping(&mut self) -> Result<(), BpfError> {
        for call in ["mmap", "mprotect"] {
            self.keep_tracepoint("map_leave", "syscalls", &format!("sys_exit_{call}"))?;
            self.keep_tracepoint("map_enter", "syscalls", &format!("sys_enter_{call}"))?;
        }
        Ok(())
    }

    /// Attaches to a tracepoint, for as long as the programs live.
    fn keep_tracepoint(&mut self, program: &'static str, category: &str, name: &str) -> Result<(), BpfError> {
        self.programs
            .tracepoint(program)?
            .attach(category, name)
            .map(drop)
            .map_err(|error| tracepoint_error(program, category, name, error))
    }

    /// Attaches to a tracepoint, for as long as the link lives.
    pub(super) fn attach_tracepoint(
        &mut self,
        program: &'static str,
        category: &str,
        name: &str,
    ) -> Result<TracePointLink, BpfError> {
        let tracepoint = self.programs.tracepoint(program)?;
        let link = tracepoint.attach(category, name).and_then(|id| tracepoint.take_link(id));
        link.map_err(|error| tracepoint_error(program, category, name, error))
    }

    fn attach(
        &mut self,
        program: &'static str,
        direction: Direction,
        path: &Path,
        sites: &[Site],
        reach: Reach,
    ) -> Result<Links, BpfError> {
        match self.features.attach {
            Attach::Multi(filter) => {
                let tgid = match (reach, filter) {
                    (Reach::Process(pid), PidFilter::Process) => Some(pid.get()),
                    _ => None,
                };
                self.attach_multi(program, direction, path, sites, tgid)
            }
            Attach::PerfEvents => self.attach_perf_events(program, path, sites, reach),
        }
    }

    fn attach_multi(
        &mut self,
        program: &'static str,
        direction: Direction,
        path: &Path,
        sites: &[Site],
        tgid: Option<u32>,
    ) -> Result<Links, BpfError> {
        let offsets: Vec<_> = sites.iter().map(|site| site.offset).collect();
        let cookies: Vec<_> = sites.iter().map(|site| Cookie::of(site.probe).0).collect();
        sys::link_uprobe_multi(
            self.programs.multi(program)?.as_fd(),
            direction,
            path,
            &offsets,
            &cookies,
            tgid,
        )
        .map(|link| Links::Multi { _link: link })
        .map_err(|cause| BpfError::Attach { program, path: path.to_owned(), cause })
    }

    fn attach_perf_events(
        &mut self,
        program: &'static str,
        path: &Path,
        sites: &[Site],
        reach: Reach,
    ) -> Result<Links, BpfError> {
        let uprobe = self.programs.uprobe(program)?;
        let scope = match reach {
            Reach::Everybody => UProbeScope::AllProcesses,
            Reach::Process(pid) => UProbeScope::OneProcess(pid),
        };
        let attach_one = |site: &Site| {
            let point = UProbeAttachPoint {
                location: UProbeAttachLocation::AbsoluteOffset(site.offset),
                cookie: Some(Cookie::of(site.probe).0),
            };
            let id = uprobe.attach(point, path, scope)?;
            uprobe.take_link(id)
        };
        let links: Result<Vec<_>, ProgramError> = sites.iter().map(attach_one).collect();
        links.map(|links| Links::PerfEvents { _links: links }).map_err(|error| BpfError::Attach {
            program,
            path: path.to_owned(),
            cause: cause(error),
        })
    }
}

fn tracepoint_error(program: &'static str, category: &str, name: &str, error: ProgramError) -> BpfError {
    let tracepoint = format!("{category}/{name}");
    match tracefs_with(&[&tracepoint]) {
        Ok(_) => BpfError::Attach { program, path: tracepoint.into(), cause: cause(error) },
        Err(cause) => BpfError::Tracepoint { program, tracepoint, cause },
    }
}

/// The kernel's own error, if there is one below aya's.
pub(super) fn cause(error: ProgramError) -> io::Error {
    io::Error::new(kind(&error).unwrap_or(io::ErrorKind::Other), error)
}

/// Links of one program. Dropping them detaches.
pub(super) enum Links {
    Multi {
        _link: OwnedFd,
    },
    /// The kernel removes them one after the other and waits about 0.1 s each time, even from several threads.
    PerfEvents {
        _links: Vec<UProbeLink>,
    },
}
