//! Calls that wait for the names of kernels that a stripped file registers, or for a file that is still being opened.
//!
//! A library of a gigabyte takes seconds to read, beside this task. Later calls of the same process wait too: an earlier one may
//! define what they mean. Calls of other processes do not.

use std::collections::{HashMap, VecDeque};

use xsched_abi::Call;

use super::Session;
use super::resolve::awaits_file;
use crate::error::TracerError;

/// Most calls that wait. Above that, this task waits for the file.
const CALLS_MAX: usize = 1 << 18;

#[derive(Default)]
pub(super) struct Unread {
    processes: HashMap<u32, VecDeque<(Call, Vec<u8>)>>,
    count: usize,
}

impl Unread {
    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }
}

impl Session {
    /// Takes in a call whose kernel has no name yet, or that follows such a call. False if it need not wait.
    pub(super) fn leave_unread(&mut self, call: &Call, text: &[u8]) -> Result<bool, TracerError> {
        if self.unread.count >= CALLS_MAX {
            self.read_unread(call.tgid, true)?;
            return Ok(false);
        }
        let waits = self.unread.processes.contains_key(&call.tgid)
            || awaits_file(&mut self.processes, call)
            || self.resolver.awaits_kernel(&mut self.processes, call);
        if waits {
            let calls = self.unread.processes.entry(call.tgid).or_default();
            calls.push_back((*call, text.to_vec()));
            self.unread.count += 1;
        }
        Ok(waits)
    }

    /// Passes on the calls whose kernels have become known; with `all`, this task waits for them.
    pub(super) fn read_all_unread(&mut self, all: bool) -> Result<(), TracerError> {
        let pids: Vec<_> = self.unread.processes.keys().copied().collect();
        pids.into_iter().try_for_each(|pid| self.read_unread(pid, all))
    }

    /// The same for one process.
    pub(super) fn read_unread(&mut self, pid: u32, all: bool) -> Result<(), TracerError> {
        let Some(mut calls) = self.unread.processes.remove(&pid) else { return Ok(()) };
        while let Some((call, text)) = calls.pop_front_if(|(call, _)| {
            let (resolver, processes) = (&self.resolver, &mut self.processes);
            all || !awaits_file(processes, call) && !resolver.awaits_kernel(processes, call)
        }) {
            self.unread.count -= 1;
            self.named(&call, &text)?;
        }
        if !calls.is_empty() {
            self.unread.processes.insert(pid, calls);
        }
        Ok(())
    }
}
