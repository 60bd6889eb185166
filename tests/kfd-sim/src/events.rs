//! Events: what waits of the runtime end by.
//!
//! A signal of AMD's has the number of an event. Whoever sets the signal also sets the event, which wakes its waiters. An event that
//! resets itself wakes one wait.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::abi::{EVENT_MEMORY, EVENT_SIGNAL, EventData, GPU_ID};

/// Numbers of signals are slots of the page of events, which has 4,096.
const SLOTS: u32 = 4096;

/// Numbers of other events come behind.
const FIRST_OTHER: u32 = 1 << 31;

/// A wait without end.
const FOR_EVER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Event {
    kind: u32,
    resets_itself: bool,
    is_set: bool,
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

/// All events of the process.
#[derive(Debug, Default)]
pub(crate) struct Events {
    events: Mutex<BTreeMap<u32, Event>>,
    changed: Condvar,
}

impl Events {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new event; `None` if there is no number left.
    pub(crate) fn create(&self, kind: u32, resets_itself: bool) -> Option<u32> {
        let mut events = self.lock();
        let mut numbers = if kind == EVENT_SIGNAL { 1..SLOTS } else { FIRST_OTHER..u32::MAX };
        let id = numbers.find(|id| !events.contains_key(id))?;
        events.insert(id, Event { kind, resets_itself, is_set: false, fault: None });
        Some(id)
    }

    /// Says whether it was there. Its waiters fail.
    pub(crate) fn destroy(&self, id: u32) -> bool {
        let was_there = self.lock().remove(&id).is_some();
        self.changed.notify_all();
        was_there
    }

    /// Sets or resets one; says whether it is there.
    pub(crate) fn set(&self, id: u32, is_set: bool) -> bool {
        let mut events = self.lock();
        let Some(event) = events.get_mut(&id) else { return false };
        event.is_set = is_set;
        if is_set {
            self.changed.notify_all();
        }
        true
    }

    /// Tells the runtime of an address that a kernel could not use. Says whether an event is there for it.
    pub(crate) fn fault(&self, address: u64) -> bool {
        let mut events = self.lock();
        let mut is_heard = false;
        for event in events.values_mut().filter(|event| event.kind == EVENT_MEMORY) {
            (event.is_set, event.fault, is_heard) = (true, Some(address), true);
        }
        self.changed.notify_all();
        is_heard
    }

    /// Waits for one or for all of these, and fills in what the runtime wants to know of them.
    pub(crate) fn wait(&self, waited: &mut [EventData], for_all: bool, timeout_ms: u32) -> Ended {
        let end = Instant::now() + Duration::from_millis(u64::from(timeout_ms));
        let mut events = self.lock();
        loop {
            if waited.iter().any(|data| !events.contains_key(&data.event_id)) {
                return Ended::Fail;
            }
            let is_set = |data: &EventData| events.get(&data.event_id).is_some_and(|event| event.is_set);
            let is_over = if for_all { waited.iter().all(is_set) } else { waited.iter().any(is_set) };
            if is_over {
                break;
            }
            let left = end.saturating_duration_since(Instant::now());
            events = if timeout_ms == FOR_EVER {
                self.changed.wait(events).unwrap_or_else(PoisonError::into_inner)
            } else if left.is_zero() {
                return Ended::Timeout;
            } else {
                let waited = self.changed.wait_timeout(events, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        }
        for data in waited {
            let Some(event) = events.get_mut(&data.event_id).filter(|event| event.is_set) else { continue };
            if let Some(address) = event.fault {
                // Not present; the error is not one of memory chips.
                (data.failure, data.address) = ([1, 0, 0, 0], address);
                (data.gpu_id, data.error_type) = (GPU_ID, 0);
            }
            event.is_set &= !event.resets_itself;
        }
        Ended::Complete
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
