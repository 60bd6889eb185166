//! One program in one process: from the fork or exec that started it to the next exec or the end.
//!
//! An exec makes a new `Process` here, because nothing of the old one stays valid: its name, its arguments, its
//! addresses.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::address_space::AddressSpace;
use crate::mapping::{Backing, Mapping};
use crate::procfs;

/// One program in one process.
#[derive(Debug)]
pub struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: Option<u32>,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: Option<u64>,
    pub(crate) executable: Option<Arc<Path>>,
    pub(crate) command_line: Option<Vec<String>>,
    pub(crate) threads: HashMap<u32, Thread>,
    pub(crate) space: AddressSpace,
    /// When everything about the process was last read from `/proc`: earlier events are included in that. 0: never.
    pub(crate) scanned_ns: u64,
    /// Mappings that are not executable, read when an address was in no executable mapping.
    pub(crate) others: Others,
}

#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) name: Arc<str>,
    pub(crate) ended_ns: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Others {
    pub(crate) read_ns: u64,
    pub(crate) mappings: Vec<Arc<Mapping>>,
}

impl Process {
    pub(crate) fn new(pid: u32, started_ns: u64) -> Self {
        Self {
            pid,
            parent: None,
            started_ns,
            ended_ns: None,
            executable: None,
            command_line: None,
            threads: HashMap::new(),
            space: AddressSpace::default(),
            scanned_ns: 0,
            others: Others::default(),
        }
    }

    /// A process of which only this thread is known.
    pub(crate) fn unknown(pid: u32, tid: u32, started_ns: u64) -> Self {
        let mut process = Self::new(pid, started_ns);
        process.name_thread(tid, "");
        process
    }

    /// Process id (thread group id) in the pid namespace of this process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The process that forked it, if known.
    pub fn parent(&self) -> Option<u32> {
        self.parent
    }

    /// When the program started, in boot-time nanoseconds. For programs that were already running when they were
    /// first seen, it is the start of their process, rounded down to 10 ms.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// When it ended, in boot-time nanoseconds, if it has.
    pub fn ended_ns(&self) -> Option<u64> {
        self.ended_ns
    }

    /// The kernel's short name for it: that of its first thread, at most 15 bytes. Empty if unknown.
    pub fn name(&self) -> &str {
        self.thread_name(self.pid).unwrap_or_default()
    }

    /// The kernel's short name for a thread, also for some time after the thread has ended.
    pub fn thread_name(&self, tid: u32) -> Option<&str> {
        self.threads.get(&tid).map(|thread| &*thread.name)
    }

    /// The program's file, as the process saw it. None for kernel threads.
    pub fn executable(&self) -> Option<&Arc<Path>> {
        self.executable.as_ref()
    }

    /// The executable file mappings at present (or at its end).
    pub fn mappings(&self) -> impl Iterator<Item = &Arc<Mapping>> {
        self.space.current().filter(|mapping| mapping.backing.is_file())
    }

    /// All executable memory that is mapped at present (or at its end), in address order: the remaining range of each mapping
    /// after other mappings replaced parts of it.
    pub fn code(&self) -> impl Iterator<Item = (Range<u64>, &Arc<Mapping>)> {
        self.space.pieces()
    }

    /// The executable mapping at an address at a time, if known.
    pub fn code_at(&self, address: u64, time_ns: u64) -> Option<&Arc<Mapping>> {
        self.space.at(address, time_ns)
    }

    /// The copies of GPU runtimes that it has loaded, with one mapping each.
    pub fn runtimes(&self) -> impl Iterator<Item = &Arc<Mapping>> {
        self.mappings().filter(|mapping| mapping.runtime().is_some())
    }

    /// The name of the program's file, or else the kernel's short name.
    pub fn display_name(&self) -> std::borrow::Cow<'_, str> {
        match self.executable.as_ref().and_then(|path| path.file_name()) {
            Some(name) => name.to_string_lossy(),
            None => self.name().into(),
        }
    }

    pub(crate) fn read_command_line(&mut self) -> &[String] {
        let is_alive = self.ended_ns.is_none();
        self.command_line
            .get_or_insert_with(|| if is_alive { procfs::command_line(self.pid) } else { Vec::new() })
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.ended_ns.is_none()
    }

    /// Adds an executable mapping. Returns false if it is known already.
    pub(crate) fn map(&mut self, time_ns: u64, mapping: &Arc<Mapping>) -> bool {
        // After an exec the kernel maps the program first, then its interpreter.
        if self.executable.is_none() && mapping.backing == Backing::File {
            self.executable = Some(Arc::clone(&mapping.path));
        }
        self.space.map(time_ns, mapping)
    }

    pub(crate) fn name_thread(&mut self, tid: u32, name: &str) {
        self.threads.insert(tid, Thread { name: name.into(), ended_ns: None });
    }

    /// Records the end of a thread, and with the last thread that of the process.
    pub(crate) fn end_thread(&mut self, tid: u32, time_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.ended_ns = Some(time_ns);
        }
        if self.threads.values().all(|thread| thread.ended_ns.is_some()) {
            self.finish(time_ns);
        }
    }

    /// Records the ends of threads that do not exist any more; the kernel's events for these were lost.
    pub(crate) fn end_all_threads_but(&mut self, running: &HashMap<u32, Thread>, time_ns: u64) {
        for (tid, thread) in &mut self.threads {
            if !running.contains_key(tid) {
                thread.ended_ns.get_or_insert(time_ns);
            }
        }
    }

    pub(crate) fn finish(&mut self, time_ns: u64) {
        self.ended_ns.get_or_insert(time_ns);
    }

    /// The child that a fork makes: the same program in another process.
    pub(crate) fn fork(&self, pid: u32, parent_tid: u32, time_ns: u64) -> Self {
        let mut child = Self {
            parent: Some(self.pid),
            executable: self.executable.clone(),
            space: self.space.clone(),
            ..Self::new(pid, time_ns)
        };
        let name = self.thread_name(parent_tid).unwrap_or_else(|| self.name()).to_owned();
        child.name_thread(pid, &name);
        child
    }

    pub(crate) fn forget_before(&mut self, before_ns: u64) {
        self.space.forget_before(before_ns);
        let first = self.pid;
        // The name of the first thread is that of the process, even if other threads outlive it.
        self.threads.retain(|&tid, thread| {
            tid == first || thread.ended_ns.is_none_or(|ended_ns| ended_ns >= before_ns)
        });
    }
}
