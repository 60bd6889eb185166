//! Invariants that must hold, whatever messages the controller gets.

use serde::Deserialize;

use crate::{Result, USER};

/// Allowed growth of the controller's memory: for queues, connections and their buffers, whatever the
/// messages.
pub(crate) const MEMORY_MORE_KIB: u64 = 64 << 10;

/// Maximal priority that an ordinary user's processes can set themselves: that of the class `normal`; and the
/// default weight.
const PRIORITY_MAX: i64 = 49;
const WEIGHT_MAX: u64 = 100;

/// The relevant part of the output of `list --json`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct List {
    controller: State,
    processes: Vec<Process>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct State {
    state: String,
    policy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Process {
    pid: u32,
    uid: u32,
    parameters: SchedulingParameters,
    class: String,
    from: String,
    queues: Vec<Queue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct SchedulingParameters {
    priority: i64,
    weight: u64,
    share: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Queue {
    slot: u32,
    device: String,
    #[serde(default)]
    parameters: Option<SchedulingParameters>,
    stream_priority: i32,
    level: u64,
}

impl List {
    pub(crate) fn read(json: &[u8]) -> Result<Self> {
        Ok(serde_json::from_slice(json)?)
    }

    pub(crate) fn find(&self, pid: u32) -> Option<&Process> {
        self.processes.iter().find(|process| process.pid == pid && !process.queues.is_empty())
    }

    pub(crate) fn count(&self) -> usize {
        self.processes.len()
    }
}

/// The state before the attack.
pub(crate) struct Witness {
    state: State,
    high: Process,
    low: Process,
}

impl Witness {
    pub(crate) fn new(before: List, high: u32, low: u32) -> Result<Self> {
        let of = |pid| before.find(pid).cloned().ok_or("an honest process is missing");
        let (high, low) = (of(high)?, of(low)?);
        Ok(Self { state: before.controller, high, low })
    }

    /// Checks all invariants.
    ///
    /// # Errors
    /// Describes the violated invariant.
    pub(crate) fn check(&self, now: &List) -> Result<()> {
        if now.controller != self.state {
            return Err(format!("{:?}, and was {:?}", now.controller, self.state).into());
        }
        for before in [&self.high, &self.low] {
            let after = now.find(before.pid).ok_or_else(|| format!("process {} is gone", before.pid))?;
            // Levels have no gaps, so they change with the processes that exist.
            if without_levels(after) != without_levels(before) {
                return Err(format!("{after:?}, and was {before:?}").into());
            }
        }
        let high = now.find(self.high.pid).ok_or("the urgent process is gone")?;
        for process in now.processes.iter().filter(|process| process.uid == USER) {
            let SchedulingParameters { priority, weight, share } = process.parameters;
            if priority > PRIORITY_MAX || weight > WEIGHT_MAX || share.is_some() {
                return Err(format!("above its ceiling: {process:?}").into());
            }
            for (queue, urgent) in
                process.queues.iter().flat_map(|one| high.queues.iter().map(move |two| (one, two)))
            {
                // Level 0 is a time slice for a process that has waited too long.
                if queue.device == urgent.device && queue.level != 0 && queue.level <= urgent.level {
                    return Err(format!("before the urgent process: {process:?}, {high:?}").into());
                }
            }
        }
        Ok(())
    }

    /// The same when all other processes have ended: then levels must be as before, too.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn check_end(&self, now: &List) -> Result<()> {
        self.check(now)?;
        for before in [&self.high, &self.low] {
            if now.find(before.pid) != Some(before) {
                return Err(format!("{:?}, and was {before:?}", now.find(before.pid)).into());
            }
        }
        Ok(())
    }
}

fn without_levels(process: &Process) -> Process {
    let mut process = process.clone();
    process.queues.iter_mut().for_each(|queue| queue.level = 0);
    process
}
