//! Events: what waits of the runtime end by.
//!
//! A signal of AMD's has the number of an event. What sets the signal also sets the event, which wakes all that wait for it. An
//! event that resets itself stays set only if there are none, until a wait begins
//! ([`set_event`](https://github.com/torvalds/linux/blob/master/drivers/gpu/drm/amd/amdkfd/kfd_events.c)). With one wait for each setting,
//! the runtime hung: its own thread and the program's wait for the same signal.

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
    /// How often it was set, and how many wait for it.
    times: u64,
    waits: u32,
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
        events.insert(id, Event { kind, resets_itself, is_set: false, times: 0, waits: 0, fault: None });
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
        if is_set {
            event.set();
            self.changed.notify_all();
        } else {
            event.is_set = false;
        }
        true
    }

    /// Tells the runtime of an address that a kernel could not use. Says whether an event is there for it.
    pub(crate) fn fault(&self, address: u64) -> bool {
        let mut events = self.lock();
        let mut is_heard = false;
        for event in events.values_mut().filter(|event| event.kind == EVENT_MEMORY) {
            event.set();
            (event.fault, is_heard) = (Some(address), true);
        }
        self.changed.notify_all();
        is_heard
    }

    /// Waits for one or for all of these, and fills in what the runtime wants to know of them.
    pub(crate) fn wait(&self, waited: &mut [EventData], for_all: bool, timeout_ms: u32) -> Ended {
        let mut events = self.lock();
        if waited.iter().any(|data| !events.contains_key(&data.event_id)) {
            return Ended::Fail;
        }
        // What is set already counts, and how often each was set.
        let mut begun = Vec::new();
        for data in &*waited {
            if let Some(event) = events.get_mut(&data.event_id) {
                begun.push((event.is_set, event.times));
                event.is_set &= !event.resets_itself;
                event.waits += 1;
            }
        }
        let end = Instant::now() + Duration::from_millis(u64::from(timeout_ms));
        let ended = loop {
            if waited.iter().any(|data| !events.contains_key(&data.event_id)) {
                break Ended::Fail;
            }
            let mut ready = waited.iter().zip(&begun).map(|(data, &(was_set, times))| {
                was_set || events.get(&data.event_id).is_some_and(|event| event.times != times)
            });
            if if for_all { ready.all(|is_ready| is_ready) } else { ready.any(|is_ready| is_ready) } {
                break Ended::Complete;
            }
            let left = end.saturating_duration_since(Instant::now());
            events = if timeout_ms == FOR_EVER {
                self.changed.wait(events).unwrap_or_else(PoisonError::into_inner)
            } else if left.is_zero() {
                break Ended::Timeout;
            } else {
                let waited = self.changed.wait_timeout(events, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        };
        for (data, (was_set, times)) in waited.iter_mut().zip(begun) {
            let Some(event) = events.get_mut(&data.event_id) else { continue };
            event.waits = event.waits.saturating_sub(1);
            // A wait for all that was in vain takes no event away.
            if ended == Ended::Timeout && (was_set || event.times != times) {
                event.set();
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
    fn set(&mut self) {
        self.times += 1;
        self.is_set = !self.resets_itself || self.waits == 0;
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

    /// The runtime's own thread and the program's wait for the same signal.
    #[test]
    fn all_that_wait_end_by_one_setting_and_none_after_them() {
        let events = Events::default();
        let id = events.create(EVENT_SIGNAL, true).unwrap();
        std::thread::scope(|scope| {
            let waiters = [(); 2].map(|()| scope.spawn(|| events.wait(&mut [data(id)], false, 10_000)));
            while events.lock()[&id].waits < 2 {
                std::thread::yield_now();
            }
            events.set(id, true);
            assert_eq!(waiters.map(|waiter| waiter.join().unwrap()), [Ended::Complete; 2]);
        });
        assert_eq!(events.wait(&mut [data(id)], false, 0), Ended::Timeout);
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
