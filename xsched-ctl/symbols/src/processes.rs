//! All processes of the machine, kept up to date by side-band events, and lookups in them.
//!
//! The order of events matters little: each has its time, and lookups are by time. Lost events are compensated by
//! reading `/proc`, at the latest when an address is not found.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::binaries::Binaries;
use crate::elf::ElfError;
use crate::mapping::{Backing, Mapping};
use crate::process::{Process, Thread};
use crate::sideband::{PerfEvent, PerfEventKind};
use crate::symbol_table::Symbol;
use crate::{maps, now_ns, open, procfs, roots};

/// The shortest time between two reads of one process's maps for addresses that were not found. A read takes a
/// millisecond for a large process.
const REREAD_NS_MIN: u64 = 50_000_000;

/// A change that an event caused, for the caller to act on.
#[derive(Clone, Debug)]
pub enum Change {
    /// Code of a file was mapped.
    Mapped {
        /// The process.
        pid: u32,
        /// The new mapping.
        mapping: Arc<Mapping>,
    },
    /// A process executed another program, and has none of its former mappings.
    Executed {
        /// The process.
        pid: u32,
    },
    /// A running process was found that no event had reported. It was read from `/proc`; the caller reads its mappings.
    Found {
        /// The process.
        pid: u32,
    },
    /// A new process was forked, with the mappings of its parent.
    Forked {
        /// The new process.
        pid: u32,
        /// Its parent.
        parent: u32,
    },
    /// A process or thread has a new name.
    Renamed {
        /// The process.
        pid: u32,
        /// The thread; equal to `pid` if this is also the name of the process.
        tid: u32,
    },
    /// The last thread of a process has ended.
    Exited {
        /// The process.
        pid: u32,
    },
    /// The kernel dropped events: call `scan_running` to catch up.
    Lost {
        /// The number of lost events.
        count: u64,
    },
}

/// The location of a process's address.
#[derive(Clone, Debug)]
pub struct Location {
    /// The process.
    pub pid: u32,
    /// The address that was looked up.
    pub address: u64,
    /// The mapping that contains the address. For data of a library it is the library's executable mapping, which
    /// gives the file but does not contain the address.
    pub mapping: Arc<Mapping>,
    /// The offset in the file. None for memory without a file, and for `.bss`.
    pub file_offset: Option<u64>,
    /// The file's address, without the load bias. None if the file is not an ELF module, or cannot be opened.
    file_address: Option<u64>,
}

/// Why an address has no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum NameError {
    #[error("no file is mapped there ({0:?})")]
    NoFile(Backing),
    #[error("the file is gone or replaced")]
    Gone,
    /// It may be open later.
    #[error("the file is not open yet: its file system has not answered")]
    Unanswered,
    #[error(transparent)]
    Elf(#[from] ElfError),
    #[error("no symbol there")]
    NoSymbol,
}

/// Why a process could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum ScanError {
    #[error("process {0} is gone or not readable")]
    Unreadable(u32),
}

/// All known processes, including ended ones until they are forgotten.
#[derive(Debug, Default)]
pub struct Processes {
    /// The programs that each pid has executed, in order. The lists are never empty.
    by_pid: HashMap<u32, Vec<Process>>,
    binaries: Binaries,
}

impl Processes {
    /// Without any processes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads every process of the machine from `/proc`, and records the end of those that do not exist any more. The
    /// caller calls this once after the side-band is open, and again after lost events. Returns the number of
    /// processes.
    pub fn scan_running(&mut self) -> usize {
        let asked_ns = now_ns();
        let pids: HashSet<u32> = procfs::pids().into_iter().collect();
        for programs in self.by_pid.values_mut() {
            let Some(process) = programs.last_mut() else { continue };
            // A process that started after the list was read is not missing from it.
            if process.is_alive() && process.started_ns < asked_ns && !pids.contains(&process.pid) {
                process.finish(asked_ns);
            }
        }
        pids.into_iter().filter(|&pid| self.scan(pid).is_ok()).count()
    }

    /// Reads one process from `/proc`.
    pub fn scan(&mut self, pid: u32) -> Result<(), ScanError> {
        // Taken first: the reads below include all earlier changes.
        let scanned_ns = now_ns();
        let unreadable = ScanError::Unreadable(pid);
        let Some(stat) = procfs::stat(pid) else {
            self.record_end_of(pid, scanned_ns);
            return Err(unreadable);
        };
        let text = std::fs::read(procfs::process_folder(pid).join("maps")).map_err(|_| unreadable)?;
        let threads: HashMap<u32, Thread> = (procfs::tids(pid).into_iter())
            .filter_map(|tid| {
                Some((tid, Thread { name: procfs::thread_name(pid, tid)?.into(), ended_ns: None }))
            })
            .collect();
        if threads.is_empty() || (stat.is_zombie && threads.len() == 1) {
            self.record_end_of(pid, scanned_ns);
            return Err(unreadable);
        }
        let programs = self.by_pid.entry(pid).or_default();
        // The side-band may have reported the end of this same process, which is still exiting.
        if programs
            .last()
            .is_some_and(|last| last.ended_ns.is_some_and(|ended_ns| stat.started_ns <= ended_ns))
        {
            return Err(unreadable);
        }
        if programs.last().is_none_or(|last| !last.is_alive()) {
            programs.push(Process::new(pid, stat.started_ns));
        }
        let Some(process) = programs.last_mut() else { return Err(unreadable) };
        process.parent = Some(stat.parent);
        process.executable = procfs::executable(pid).map(Into::into).or_else(|| process.executable.take());
        process.end_all_threads_but(&threads, scanned_ns);
        process.threads.extend(threads);
        process.scanned_ns = scanned_ns;
        process.read_maps(scanned_ns, &text);
        Ok(())
    }

    /// Records the end of a process that is not in `/proc` any more: the event of its exit may have been lost.
    fn record_end_of(&mut self, pid: u32, time_ns: u64) {
        let last = self.by_pid.get_mut(&pid).and_then(|programs| programs.last_mut());
        if let Some(process) = last.filter(|process| process.started_ns < time_ns) {
            process.finish(time_ns);
        }
    }

    /// Applies an event of the side-band.
    pub fn apply(&mut self, event: &PerfEvent) -> Option<Change> {
        let &PerfEvent { time_ns, pid, tid, ref kind } = event;
        match *kind {
            PerfEventKind::Lost { count } => return Some(Change::Lost { count }),
            PerfEventKind::Exited => return self.exit(pid, tid, time_ns),
            PerfEventKind::Forked { parent, parent_tid } if parent != pid => {
                return self.fork(pid, parent, parent_tid, time_ns);
            }
            _ => {}
        }
        if self.has_missed(pid, time_ns) {
            if self.scan(pid).is_ok() {
                return Some(Change::Found { pid });
            }
            // The event of its start was lost, and it has ended: this event is all that is known of it.
            self.by_pid.entry(pid).or_default().push(Process::unknown(pid, tid, time_ns));
        }
        let process = at_event(&mut self.by_pid, pid, time_ns)?;
        match kind {
            PerfEventKind::Mapped(mapping) => {
                let is_new = process.map(time_ns, mapping) && mapping.backing.is_file();
                is_new.then(|| Change::Mapped { pid, mapping: Arc::clone(mapping) })
            }
            PerfEventKind::Renamed { name } => {
                process.name_thread(tid, name);
                Some(Change::Renamed { pid, tid })
            }
            PerfEventKind::Executed { name } => {
                process.finish(time_ns);
                let mut next = Process { parent: process.parent, ..Process::new(pid, time_ns) };
                next.name_thread(pid, name);
                self.by_pid.entry(pid).or_default().push(next);
                Some(Change::Executed { pid })
            }
            PerfEventKind::Forked { parent_tid, .. } => {
                let name = process.thread_name(*parent_tid).unwrap_or_default().to_owned();
                process.name_thread(tid, &name);
                None
            }
            PerfEventKind::Exited | PerfEventKind::Lost { .. } => None,
        }
    }

    fn exit(&mut self, pid: u32, tid: u32, time_ns: u64) -> Option<Change> {
        let process = at_event(&mut self.by_pid, pid, time_ns).filter(|process| process.is_alive())?;
        process.end_thread(tid, time_ns);
        (!process.is_alive()).then_some(Change::Exited { pid })
    }

    fn fork(&mut self, pid: u32, parent: u32, parent_tid: u32, time_ns: u64) -> Option<Change> {
        if !self.by_pid.contains_key(&parent) && self.scan(pid).is_ok() {
            return Some(Change::Found { pid });
        }
        let mut child = match self.find(parent, time_ns) {
            Some(parent) => parent.fork(pid, parent_tid, time_ns),
            None => Process { parent: Some(parent), ..Process::unknown(pid, pid, time_ns) },
        };
        let programs = self.by_pid.entry(pid).or_default();
        match programs.iter_mut().find(|known| known.started_ns > time_ns || known.scanned_ns > time_ns) {
            Some(known) if known.scanned_ns > time_ns => return None,
            // Its first event arrived before the event of its fork.
            Some(known) => {
                known.parent = Some(parent);
                known.started_ns = time_ns;
                known.executable = known.executable.take().or(child.executable.take());
                known.space.inherit(&child.space);
            }
            None => {
                if let Some(last) = programs.last_mut() {
                    // The event of its end may have been lost. The kernel reuses a pid only after its process has ended.
                    last.finish(time_ns);
                }
                programs.push(child);
            }
        }
        Some(Change::Forked { pid, parent })
    }

    /// Whether an event of this time belongs to an unknown program.
    fn has_missed(&self, pid: u32, time_ns: u64) -> bool {
        let last = self.by_pid.get(&pid).and_then(|programs| programs.last());
        last.is_none_or(|last| last.ended_ns.is_some_and(|ended_ns| ended_ns < time_ns))
    }

    /// The location of a process's address at a time, in boot-time nanoseconds (`u64::MAX`: the latest known state).
    ///
    /// Searches the executable mappings, then the data of the modules around. If both fail and the process is
    /// alive, it reads the process's present maps. None if the address is not known to have been mapped. For a return
    /// address, the caller passes the address minus one: the call may be the last instruction of its function.
    pub fn locate(&mut self, pid: u32, address: u64, time_ns: u64) -> Option<Location> {
        if !self.by_pid.contains_key(&pid) || (time_ns != u64::MAX && self.has_missed(pid, time_ns)) {
            self.scan(pid).ok()?;
        }
        if let Some(location) = self.locate_in_known(pid, address, time_ns) {
            return Some(location);
        }
        let process = self.by_pid.get_mut(&pid)?.last_mut()?;
        if !process.is_alive() || process.started_ns > time_ns {
            return None;
        }
        let now_ns = now_ns();
        if now_ns.saturating_sub(process.others.read_ns) >= REREAD_NS_MIN {
            let text = std::fs::read(procfs::process_folder(pid).join("maps")).ok()?;
            process.read_maps(now_ns, &text);
            // If the process has executed another program since, this reads the maps of that one. The event of the
            // exec then removes the mappings that were read here.
            if let Some(location) = self.locate_in_known(pid, address, time_ns) {
                return Some(location);
            }
        }
        let process = self.by_pid.get(&pid)?.last()?;
        let mapping = process.others.mappings.iter().find(|mapping| mapping.contains(address))?;
        Some(Location::in_mapping(pid, address, Arc::clone(mapping)))
    }

    fn locate_in_known(&mut self, pid: u32, address: u64, time_ns: u64) -> Option<Location> {
        let space = &find(&self.by_pid, pid, time_ns)?.space;
        if let Some(mapping) = space.at(address, time_ns) {
            let mapping = Arc::clone(mapping);
            let in_module = in_module(&mut self.binaries, pid, address, &mapping);
            return Some(in_module.unwrap_or_else(|| Location::in_mapping(pid, address, mapping)));
        }
        let neighbours = space.neighbours(address, time_ns);
        neighbours.iter().find_map(|mapping| in_module(&mut self.binaries, pid, address, mapping))
    }

    /// The symbol at a location.
    pub fn name(&mut self, location: &Location) -> Result<Symbol, NameError> {
        let binary = self.binaries.of(location.pid, &location.mapping)?;
        let symbols = binary.symbols_soon().ok_or(NameError::Unanswered)??;
        location.file_address.and_then(|address| symbols.at(address)).ok_or(NameError::NoSymbol)
    }

    /// The mangled name of the kernel with a handle at this location, in a file without a symbol table. It is read from the
    /// constructors that register the kernel. Waits while [`Processes::is_reading_kernels`].
    pub fn registered_kernel(&mut self, location: &Location) -> Option<Arc<str>> {
        let binary = self.binaries.of(location.pid, &location.mapping).ok()?;
        binary.registered_kernel(location.file_address?)
    }

    /// Whether the kernels of the file at this location are being read, from now on if need be.
    pub fn is_reading_kernels(&mut self, location: &Location) -> bool {
        let binary = self.binaries.of(location.pid, &location.mapping);
        location.file_address.is_some() && binary.is_ok_and(|binary| binary.is_reading_kernels())
    }

    /// The present or the last program of a pid.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.by_pid.get(&pid)?.last()
    }

    /// The program of a pid at a time, in boot-time nanoseconds, or the last one before.
    pub fn find(&self, pid: u32, time_ns: u64) -> Option<&Process> {
        find(&self.by_pid, pid, time_ns)
    }

    /// The arguments of a pid's program. They are read on the first call; empty if the process has ended before that.
    pub fn command_line(&mut self, pid: u32) -> &[String] {
        let process = self.by_pid.get_mut(&pid).and_then(|programs| programs.last_mut());
        process.map(Process::read_command_line).unwrap_or_default()
    }

    /// The running programs.
    pub fn running(&self) -> impl Iterator<Item = &Process> {
        self.by_pid.values().filter_map(|programs| programs.last()).filter(|process| process.is_alive())
    }

    /// The copies of GPU runtimes that running processes have loaded: `(pid, mapping)`.
    pub fn runtimes(&self) -> impl Iterator<Item = (u32, &Arc<Mapping>)> {
        self.running().flat_map(|process| process.runtimes().map(|mapping| (process.pid, mapping)))
    }

    /// Drops everything that is known of a pid. For a caller that does not pass on its events any more: its end would not be noticed.
    pub fn forget(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
    }

    /// Drops programs, threads and mappings that ended before `before_ns`. The caller calls this from time to time,
    /// with a time before which no more records can arrive.
    pub fn forget_exited(&mut self, before_ns: u64) {
        roots::let_go();
        open::let_go();
        self.by_pid.retain(|_, programs| {
            programs.retain(|process| process.ended_ns.is_none_or(|ended_ns| ended_ns >= before_ns));
            for process in programs.iter_mut() {
                process.forget_before(before_ns);
            }
            !programs.is_empty()
        });
    }
}

/// The location of an address in the module of an executable mapping. None if the address is not in the module, or
/// if the file cannot be read.
///
/// Called even if the mapping contains the address. Loaders first map the whole module with the protection of its first segment,
/// then map the other segments over it; only executable mappings are visible here.
fn in_module(binaries: &mut Binaries, pid: u32, address: u64, mapping: &Arc<Mapping>) -> Option<Location> {
    let binary = binaries.of(pid, mapping).ok()?;
    let file_address = address.wrapping_sub(binary.bias(mapping.start, mapping.file_offset)?);
    binary.covers(file_address).then(|| Location {
        pid,
        address,
        mapping: Arc::clone(mapping),
        file_offset: binary.file_offset_of(file_address),
        file_address: Some(file_address),
    })
}

impl Location {
    /// Whether it is known where in its file it lies: the file was open.
    pub fn is_in_module(&self) -> bool {
        self.file_address.is_some()
    }

    /// The location as far as the mapping alone gives it.
    fn in_mapping(pid: u32, address: u64, mapping: Arc<Mapping>) -> Self {
        let file_offset = mapping.backing.is_file().then(|| mapping.file_offset + (address - mapping.start));
        Self { pid, address, mapping, file_offset, file_address: None }
    }
}

/// The program that an event belongs to. None if the event is outdated because `/proc` was read after it.
fn at_event(by_pid: &mut HashMap<u32, Vec<Process>>, pid: u32, time_ns: u64) -> Option<&mut Process> {
    let ran_then = |process: &&mut Process| {
        process.started_ns <= time_ns && process.ended_ns.is_none_or(|ended_ns| ended_ns >= time_ns)
    };
    by_pid.get_mut(&pid)?.iter_mut().rev().find(ran_then).filter(|process| process.scanned_ns <= time_ns)
}

/// Separate from `Processes::find` so that callers can borrow the other fields.
fn find(by_pid: &HashMap<u32, Vec<Process>>, pid: u32, time_ns: u64) -> Option<&Process> {
    let programs = by_pid.get(&pid)?;
    programs.iter().rev().find(|process| process.started_ns <= time_ns)
}

impl Process {
    fn read_maps(&mut self, now_ns: u64, text: &[u8]) {
        let (executable, others): (Vec<_>, Vec<_>) = maps::parse(text).partition(|entry| entry.executable);
        self.others.read_ns = now_ns;
        self.others.mappings = others.into_iter().map(|entry| Arc::new(entry.mapping)).collect();
        self.space.reconcile(now_ns, self.started_ns, executable.into_iter().map(|entry| entry.mapping));
    }
}

#[cfg(test)]
mod tests;
