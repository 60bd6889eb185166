//! Calls that wait for the names of kernels that a stripped file registers, or for a file that is still being opened.
//!
//! A library of a gigabyte takes seconds to read, beside this task. What the same process does later waits, too. An earlier call
//! may define what a later one means, and a change such as the process's end may take that away. Other processes do not wait, but
//! for a child, which begins with what its parent knew at the fork.
//!
//! ```text
//! parent   call ─ call ─ fork ─ call        the fork takes effect when the calls before it have names
//!                          └──► child       Birth ─ call ─ end
//! ```

use std::collections::{HashMap, VecDeque};

use xsched_abi::Call;
use xsched_symbols::Change;

use super::Session;
use super::changes::Cut;
use super::resolve::{awaits_file, awaits_kernel};
use crate::error::TracerError;

/// Most calls and changes that wait. Above that, this task waits for the file.
const WAITING_MAX: usize = 1 << 18;

#[derive(Default)]
pub(super) struct Unread {
    processes: HashMap<u32, VecDeque<Waiting>>,
    count: usize,
}

/// What happened in a process, in this order.
pub(super) enum Waiting {
    Call(Call, Vec<u8>),
    Change(Box<(Change, Option<Cut>)>),
    /// It was forked by this process, whose calls before the fork wait.
    Birth(u32),
}

impl Unread {
    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Whether what a process does has to wait.
    fn holds(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    fn push(&mut self, pid: u32, waiting: Waiting) {
        self.processes.entry(pid).or_default().push_back(waiting);
        self.count += 1;
    }

    /// Keeps a change that has to take effect after calls that wait. Returns it if there are none.
    pub(super) fn leave(&mut self, change: Change, cut: Option<Cut>) -> Option<(Change, Option<Cut>)> {
        let (pid, child) = match change {
            Change::Forked { pid, parent } => (parent, Some(pid)),
            Change::Mapped { pid, .. }
            | Change::Executed { pid }
            | Change::Found { pid }
            | Change::Renamed { pid, .. }
            | Change::Exited { pid } => (pid, None),
            Change::Lost { .. } => return Some((change, cut)),
        };
        if !self.holds(pid) {
            // Calls may wait of an earlier process with the child's number: they come first.
            let Some(child) = child.filter(|child| self.holds(*child)) else { return Some((change, cut)) };
            self.push(child, Waiting::Change(Box::new((change, cut))));
            return None;
        }
        self.push(pid, Waiting::Change(Box::new((change, cut))));
        if let Some(child) = child {
            self.push(child, Waiting::Birth(pid));
        }
        None
    }

    /// A fork has taken effect.
    fn born(&mut self, child: u32) {
        let Some(waiting) = self.processes.get_mut(&child) else { return };
        if let Some(index) = waiting.iter().position(|next| matches!(next, Waiting::Birth(_))) {
            waiting.remove(index);
            self.count -= 1;
        }
        if waiting.is_empty() {
            self.processes.remove(&child);
        }
    }

    /// Takes what a process did first, if that is due.
    fn take(&mut self, pid: u32, is_due: impl FnOnce(&Waiting) -> bool) -> Option<Waiting> {
        let waiting = self.processes.get_mut(&pid)?;
        let next = if waiting.front().is_some_and(is_due) { waiting.pop_front() } else { None };
        self.count -= usize::from(next.is_some());
        if waiting.is_empty() {
            self.processes.remove(&pid);
        }
        next
    }
}

impl Session {
    /// Takes in a call whose kernel has no name yet, or that follows such a call. False if it need not wait.
    pub(super) fn leave_unread(&mut self, call: &Call, text: &[u8]) -> Result<bool, TracerError> {
        if self.unread.count >= WAITING_MAX {
            self.read_unread(call.tgid, true)?;
            return Ok(false);
        }
        let waits = self.unread.holds(call.tgid)
            || awaits_file(&mut self.processes, call)
            || awaits_kernel(&mut self.processes, &self.known, call);
        if waits {
            self.unread.push(call.tgid, Waiting::Call(*call, text.to_vec()));
        }
        Ok(waits)
    }

    /// Passes on the calls whose kernels have become known; with `all`, this task waits for them.
    pub(super) fn read_all_unread(&mut self, all: bool) -> Result<(), TracerError> {
        let pids: Vec<_> = self.unread.processes.keys().copied().collect();
        pids.into_iter().try_for_each(|pid| self.read_unread(pid, all))
    }

    /// The same for one process.
    fn read_unread(&mut self, pid: u32, all: bool) -> Result<(), TracerError> {
        loop {
            let (known, processes) = (&self.known, &mut self.processes);
            let next = self.unread.take(pid, |next| match next {
                Waiting::Call(call, _) => {
                    all || !awaits_file(processes, call) && !awaits_kernel(processes, known, call)
                }
                Waiting::Change(_) => true,
                Waiting::Birth(_) => all,
            });
            match next {
                None => return Ok(()),
                Some(Waiting::Call(call, text)) => self.named(&call, &text)?,
                Some(Waiting::Change(change)) => {
                    let (change, cut) = *change;
                    if let Change::Forked { pid: child, .. } = change {
                        self.unread.born(child);
                    }
                    self.settle(&change, cut)?;
                }
                Some(Waiting::Birth(parent)) => self.read_unread(parent, true)?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros as _;

    use super::*;

    fn call(pid: u32) -> Waiting {
        Waiting::Call(Call { tgid: pid, ..Call::new_zeroed() }, Vec::new())
    }

    /// What a process can do now, if no call has its names.
    fn take_but_calls(unread: &mut Unread, pid: u32) -> Option<Waiting> {
        unread.take(pid, |next| matches!(next, Waiting::Change(_)))
    }

    #[test]
    fn changes_wait_for_the_calls_before_them_and_others_do_not() {
        let mut unread = Unread::default();
        unread.push(1, call(1));
        assert!(unread.leave(Change::Exited { pid: 2 }, None).is_some(), "no call of it waits");
        assert!(unread.leave(Change::Lost { count: 1 }, None).is_some());
        for change in [Change::Renamed { pid: 1, tid: 1 }, Change::Exited { pid: 1 }] {
            assert!(unread.leave(change, None).is_none());
        }
        assert!(take_but_calls(&mut unread, 1).is_none());
        assert!(matches!(unread.take(1, |_| true), Some(Waiting::Call(..))));
        let changes = [take_but_calls(&mut unread, 1), take_but_calls(&mut unread, 1)];
        let changes = changes.map(|change| match change {
            Some(Waiting::Change(change)) => change.0,
            _ => panic!("it is due"),
        });
        assert!(matches!(changes, [Change::Renamed { .. }, Change::Exited { pid: 1 }]), "{changes:?}");
        assert!(unread.is_empty() && unread.count == 0);
    }

    #[test]
    fn a_child_waits_for_what_its_parent_knew_at_the_fork() {
        let mut unread = Unread::default();
        unread.push(1, call(1));
        assert!(unread.leave(Change::Forked { pid: 2, parent: 1 }, None).is_none());
        assert!(unread.holds(2));
        unread.push(2, call(2));
        assert!(unread.leave(Change::Exited { pid: 2 }, None).is_none(), "its end comes after its calls");
        assert!(unread.take(2, |next| !matches!(next, Waiting::Birth(_))).is_none());
        unread.born(2);
        assert!(matches!(unread.take(2, |_| true), Some(Waiting::Call(..))));
        assert!(matches!(unread.take(2, |_| true), Some(Waiting::Change(_))));
        assert!(!unread.holds(2) && unread.holds(1));
        // Another process forks a child with the number of one whose calls wait.
        assert!(unread.leave(Change::Forked { pid: 1, parent: 9 }, None).is_none());
        assert!(!unread.holds(9));
        assert!(matches!(unread.processes[&1].back(), Some(Waiting::Change(_))));
        unread.processes.get_mut(&1).unwrap().pop_back();
        unread.count -= 1;
        // A child without calls leaves nothing.
        assert!(unread.leave(Change::Forked { pid: 3, parent: 1 }, None).is_none());
        unread.born(3);
        assert!(!unread.holds(3));
        assert_eq!(unread.count, 3);
    }
}
