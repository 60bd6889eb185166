//! Events: what waits of the runtime end by.
//!
//! A signal of AMD's has the number of an event. What sets the signal also sets the event, which wakes all that wait for it.
//!
//! A waiter looks at the signal first, and waits if it is not set yet. Between both, the event may be set and may wake another waiter
//! of the same signal: the runtime's own thread and the program's. Linux has this race before version 1.14 of the interface, from
//! which on a waiter says which setting it has seen
//! ([`kfd_events.c`](https://github.com/torvalds/linux/blob/master/drivers/gpu/drm/amd/amdkfd/kfd_events.c)). Here each thread has its
//! own view of an event that resets itself: a wait ends at once if the event was set since the thread's last wait for it. So a wait may
//! end without a reason, and the runtime looks at the signal again.
//!
//! A wait also ends so after [`PATIENCE`]. ROCm 6.4 and 7.2 set the signal that tells their own thread of new work, and then look whether
//! a thread waits for it, with nothing that keeps the processor from looking first
//! ([`interrupt_signal.h`](https://github.com/ROCm/ROCR-Runtime/blob/amd-staging/runtime/hsa-runtime/core/inc/interrupt_signal.h)). If the
//! thread begins to wait in between, no call sets the event. `tests/differential/README.md` says how that was shown.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::gettid;

use crate::abi::{EVENT_MEMORY, EVENT_SIGNAL, EventData, GPU_ID};

/// Numbers of signals are slots of the page of events, which has 4,096.
const SLOTS: u32 = 4096;

/// Numbers of other events come behind.
const FIRST_OTHER: u32 = 1 << 31;

/// A wait without end.
const FOR_EVER: u32 = u32::MAX;

/// After so long, a wait ends as if the event had been set.
const PATIENCE: Duration = Duration::from_secs(1);

/// Threads that an event remembers. One that is forgotten wakes once more than it has to.
const THREADS: usize = 32;

/// Moments are counted by settings of any event.
type Moment = u64;

#[derive(Clone, Debug)]
struct Event {
    kind: u32,
    resets_itself: bool,
    /// When it was set last, and when it was created or reset.
    set: Moment,
    reset: Moment,
    /// Until when threads have seen an event that resets itself, those that waited last at the end.
    seen: Vec<(Pid, Moment)>,
    /// Address that a kernel could not use, of a memory event.
    fault: Option<u64>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Complete,
    Timeout,
    /// An event does not exist.
    Fail,
}

#[derive(Debug, Default)]
struct Table {
    now: Moment,
    events: BTreeMap<u32, Event>,
}

/// All events of the process.
#[derive(Debug, Default)]
pub(crate) struct Events {
    table: Mutex<Table>,
    changed: Condvar,
}

impl Events {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new event; `None` if there is no number left.
    pub(crate) fn create(&self, kind: u32, resets_itself: bool) -> Option<u32> {
        let mut table = self.lock();
        let mut numbers = if kind == EVENT_SIGNAL { 1..SLOTS } else { FIRST_OTHER..u32::MAX };
        let id = numbers.find(|id| !table.events.contains_key(id))?;
        let now = table.now;
        let event = Event { kind, resets_itself, set: now, reset: now, seen: Vec::new(), fault: None };
        table.events.insert(id, event);
        Some(id)
    }

    /// Says whether it was there. Its waiters fail.
    pub(crate) fn destroy(&self, id: u32) -> bool {
        let was_there = self.lock().events.remove(&id).is_some();
        self.changed.notify_all();
        was_there
    }

    /// Sets or resets one; says whether it is there.
    pub(crate) fn set(&self, id: u32, is_set: bool) -> bool {
        let mut table = self.lock();
        let Table { now, events } = &mut *table;
        let Some(event) = events.get_mut(&id) else { return false };
        if is_set {
            *now += 1;
            event.set = *now;
            self.changed.notify_all();
        } else {
            event.reset = *now;
        }
        true
    }

    /// Tells the runtime of an address that a kernel could not use. Says whether an event is there for it.
    pub(crate) fn fault(&self, address: u64) -> bool {
        let mut table = self.lock();
        let Table { now, events } = &mut *table;
        *now += 1;
        let mut is_heard = false;
        for event in events.values_mut().filter(|event| event.kind == EVENT_MEMORY) {
            (event.set, event.fault, is_heard) = (*now, Some(address), true);
        }
        self.changed.notify_all();
        is_heard
    }

    /// Waits for one or for all of these, and fills in what the runtime wants to know of them.
    pub(crate) fn wait(&self, waited: &mut [EventData], for_all: bool, timeout_ms: u32) -> Ended {
        let thread = gettid();
        let begin = Instant::now();
        let timeout =
            if timeout_ms == FOR_EVER { Duration::MAX } else { Duration::from_millis(timeout_ms.into()) };
        let mut table = self.lock();
        let ended = loop {
            if waited.iter().any(|data| !table.events.contains_key(&data.event_id)) {
                break Ended::Fail;
            }
            let mut ready = waited
                .iter()
                .map(|data| table.events.get(&data.event_id).is_some_and(|event| event.is_set_for(thread)));
            if if for_all { ready.all(|is_ready| is_ready) } else { ready.any(|is_ready| is_ready) } {
                break Ended::Complete;
            }
            let waited = begin.elapsed();
            if waited >= timeout {
                break Ended::Timeout;
            }
            if waited >= PATIENCE {
                break Ended::Complete;
            }
            let left = timeout.min(PATIENCE).saturating_sub(waited);
            table = self.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        for data in waited {
            let Some(event) = table.events.get_mut(&data.event_id) else { continue };
            // A wait for all that was in vain has seen none.
            if ended == Ended::Complete {
                event.note_seen_by(thread);
            }
            if let Some(address) = event.fault {
                // Not present; the error is not one of memory chips.
                (data.failure, data.address) = ([1, 0, 0, 0], address);
                (data.gpu_id, data.error_type) = (GPU_ID, 0);
            }
        }
        ended
    }
}

impl Event {
    fn is_set_for(&self, thread: Pid) -> bool {
        let seen = self.seen.iter().find(|(other, _)| *other == thread).map_or(0, |(_, until)| *until);
        self.set > self.reset.max(seen)
    }

    fn note_seen_by(&mut self, thread: Pid) {
        if !self.resets_itself {
            return;
        }
        self.seen.retain(|(other, _)| *other != thread);
        if self.seen.len() == THREADS {
            self.seen.remove(0);
        }
        self.seen.push((thread, self.set));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(event_id: u32) -> EventData {
        EventData { event_id, ..EventData::default() }
    }

    #[test]
    fn an_event_that_resets_itself_ends_one_wait_and_another_ends_all() {
        let events = Events::default();
        for (resets_itself, second) in [(true, Ended::Timeout), (false, Ended::Complete)] {
            let id = events.create(EVENT_SIGNAL, resets_itself).unwrap();
            assert!(events.set(id, true));
            assert_eq!(events.wait(&mut [data(id)], false, 0), Ended::Complete);
            assert_eq!(events.wait(&mut [data(id)], false, 0), second);
        }
    }

    /// The runtime's own thread has looked at the signal, and the program's thread takes the setting before it waits.
    #[test]
    fn a_wait_that_begins_after_another_has_ended_sees_the_same_setting() {
        let events = Events::default();
        let id = events.create(EVENT_SIGNAL, true).unwrap();
        std::thread::scope(|scope| {
            let program = scope.spawn(|| events.wait(&mut [data(id)], false, FOR_EVER));
            std::thread::sleep(Duration::from_millis(5));
            events.set(id, true);
            assert_eq!(program.join().unwrap(), Ended::Complete);
        });
        assert_eq!(events.wait(&mut [data(id)], false, 0), Ended::Complete);
        assert_eq!(events.wait(&mut [data(id)], false, 0), Ended::Timeout);
    }

    /// ROCm sets a signal without its event now and then.
    #[test]
    fn a_long_wait_ends_by_itself_and_a_short_one_by_its_timeout() {
        let events = Events::default();
        let id = events.create(EVENT_SIGNAL, true).unwrap();
        assert_eq!(events.wait(&mut [data(id)], false, 10), Ended::Timeout);
        assert_eq!(events.wait(&mut [data(id)], false, FOR_EVER), Ended::Complete);
        assert_eq!(events.wait(&mut [data(id)], false, 2000), Ended::Complete);
    }

    #[test]
    fn a_reset_ends_what_was_set_for_all_threads() {
        let events = Events::default();
        let id = events.create(EVENT_SIGNAL, true).unwrap();
        events.set(id, true);
        events.set(id, false);
        assert_eq!(events.wait(&mut [data(id)], false, 0), Ended::Timeout);
    }

    #[test]
    fn an_event_remembers_few_threads() {
        let events = Events::default();
        let id = events.create(EVENT_SIGNAL, true).unwrap();
        events.set(id, true);
        for _ in 0..2 * THREADS {
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| events.wait(&mut [data(id)], false, 0));
                assert_eq!(waiter.join().unwrap(), Ended::Complete);
            });
        }
        assert_eq!(events.lock().events[&id].seen.len(), THREADS);
    }

    #[test]
    fn a_wait_for_all_ends_with_the_last_event() {
        let events = Events::default();
        let ids = [(); 2].map(|()| events.create(EVENT_SIGNAL, true).unwrap());
        events.set(ids[0], true);
        assert_eq!(events.wait(&mut ids.map(data), true, 1), Ended::Timeout);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| events.wait(&mut ids.map(data), true, FOR_EVER));
            std::thread::sleep(Duration::from_millis(5));
            events.set(ids[1], true);
            assert_eq!(waiter.join().unwrap(), Ended::Complete);
        });
    }

    #[test]
    fn a_destroyed_event_fails_its_waiters() {
        let events = Events::default();
        let id = events.create(EVENT_SIGNAL, true).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| events.wait(&mut [data(id)], false, FOR_EVER));
            std::thread::sleep(Duration::from_millis(5));
            assert!(events.destroy(id));
            assert_eq!(waiter.join().unwrap(), Ended::Fail);
        });
    }

    #[test]
    fn a_fault_tells_its_address() {
        let events = Events::default();
        let id = events.create(EVENT_MEMORY, false).unwrap();
        assert!(events.fault(0x1234));
        let mut waited = [data(id)];
        assert_eq!(events.wait(&mut waited, false, 0), Ended::Complete);
        assert_eq!((waited[0].address, waited[0].failure), (0x1234, [1, 0, 0, 0]));
    }
}
