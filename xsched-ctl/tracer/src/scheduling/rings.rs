//! The event rings that are read, and the records that were taken out of them.
//!
//! A ring has space for 20 ms of a very busy process, and a turn of the tracer's loop may take seconds, as just after it has attached to a
//! large process. So a thread empties the rings meanwhile.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use std::{io, mem};

use xsched_control_api::ring_memory::SharedRing;
use xsched_protocol::events::{Event, Reader, Record};

use super::source::{Origin, RingId};

/// How often the thread does.
const EVERY: Duration = Duration::from_millis(5);

/// Most records of a ring that wait for the loop, 11 MiB: further ones stay in the ring, and are lost if that is full.
const KEPT_MAX: usize = 1 << 17;

/// All rings, by the controller's numbers.
pub(super) struct Rings(Arc<Shared>);

struct Shared {
    rings: Mutex<State>,
    /// There are rings, or there will be no more.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    by_number: HashMap<u32, Ring>,
    lost: u64,
    has_thread: bool,
    is_over: bool,
}

struct Ring {
    origin: Origin,
    memory: SharedRing,
    reader: Reader,
    records: Vec<Record>,
    /// Nothing is written to it any more.
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Empties the rings again and again, while there are any.
    fn empty(&self) {
        loop {
            let state = self.lock();
            let waits = |state: &mut State| state.by_number.is_empty() && !state.is_over;
            let mut state = self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
            if state.is_over {
                return;
            }
            state.take();
            drop(state);
            thread::sleep(EVERY);
        }
    }
}

impl State {
    /// Takes what is in the rings, as far as there is space for it.
    fn take(&mut self) {
        for ring in self.by_number.values_mut().filter(|ring| ring.records.len() < KEPT_MAX) {
            let records = &mut ring.records;
            match ring.reader.read(ring.memory.memory(), |record| records.push(record)) {
                Ok(lost) => self.lost = self.lost.saturating_add(lost),
                Err(error) => {
                    tracing::warn!("events of {:?} are not read any more: {error}", ring.origin);
                    self.lost = self.lost.saturating_add(1);
                    ring.is_over = true;
                }
            }
        }
    }
}

impl Rings {
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared { rings: Mutex::default(), changed: Condvar::new() }))
    }

    /// Maps a ring, which has this number from now on.
    pub(super) fn add(&self, number: u32, origin: Origin, memory: OwnedFd) -> io::Result<()> {
        let memory = SharedRing::map(memory)?;
        let reader = Reader::new(memory.memory()).map_err(io::Error::other)?;
        let mut state = self.0.lock();
        state.by_number.insert(number, Ring { origin, memory, reader, records: Vec::new(), is_over: false });
        if !mem::replace(&mut state.has_thread, true) {
            let shared = Arc::clone(&self.0);
            let started = thread::Builder::new().name("events".to_owned()).spawn(move || shared.empty());
            if let Err(error) = started {
                tracing::warn!("events may be lost while the tracer is busy: {error}");
            }
        }
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Nothing is written to a ring any more.
    pub(super) fn end(&self, number: u32) {
        if let Some(ring) = self.0.lock().by_number.get_mut(&number) {
            ring.is_over = true;
        }
    }

    pub(super) fn end_all(&self) {
        self.0.lock().by_number.values_mut().for_each(|ring| ring.is_over = true);
    }

    /// Takes all available records, with the times that order them; returns the rings that have ended.
    pub(super) fn read(&self, take: &mut impl FnMut(u64, Origin, Record)) -> Vec<RingId> {
        let mut state = self.0.lock();
        state.take();
        for ring in state.by_number.values_mut() {
            for record in mem::take(&mut ring.records) {
                take(order_ns(&record), ring.origin, record);
            }
        }
        let over = state.by_number.extract_if(|_, ring| ring.is_over);
        over.filter_map(|(_, ring)| match ring.origin {
            Origin::Process(id) => Some(id),
            Origin::Arbiter => None,
        })
        .collect()
    }

    /// Records that found no space.
    pub(super) fn lost(&self) -> u64 {
        self.0.lock().lost
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

/// The time that orders a record among others: when it was written.
fn order_ns(record: &Record) -> u64 {
    match Event::of(record) {
        Some(Event::Launched { returned_ns, .. }) => returned_ns.max(record.time_ns),
        _ => record.time_ns,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use xsched_protocol::events::{RECORD_COUNT, Ring as Writer};

    use super::*;

    const PROCESS: Origin = Origin::Process(RingId(1));

    fn record(number: u64) -> Record {
        Record { kind: 1, thread: 2, time_ns: number, queue: 3, values: [number; 5] }
    }

    fn read(rings: &Rings) -> (Vec<u64>, Vec<RingId>) {
        let mut times = Vec::new();
        let over = rings.read(&mut |time_ns, origin, _| {
            assert_eq!(origin, PROCESS);
            times.push(time_ns);
        });
        (times, over)
    }

    /// Writes so many records, half a ring at a time. The next ones come when the former were taken, if they ever are.
    fn write(rings: &Rings, written: &SharedRing, count: u64) {
        let writer = Writer::of(written.memory()).unwrap();
        for number in 0..count {
            writer.write(&record(number));
            let since = Instant::now();
            let kept = || rings.0.lock().by_number[&7].records.len() as u64;
            while number % (RECORD_COUNT as u64 / 2) == 0
                && kept() < number.min(KEPT_MAX as u64)
                && since.elapsed() < Duration::from_secs(10)
            {
                thread::sleep(EVERY);
            }
        }
    }

    #[test]
    fn no_event_is_lost_while_the_loop_is_busy() {
        const COUNT: u64 = 5 * RECORD_COUNT as u64;
        let (written, memory) = SharedRing::make().unwrap();
        let rings = Rings::new();
        rings.add(7, PROCESS, memory).unwrap();
        write(&rings, &written, COUNT);
        rings.end(7);
        let (times, over) = read(&rings);
        assert_eq!((times.len() as u64, rings.lost()), (COUNT, 0));
        assert!(times.is_sorted(), "in their order");
        assert_eq!(over, [RingId(1)]);
        assert!(read(&rings).0.is_empty());
    }

    #[test]
    fn what_waits_for_the_loop_is_bounded_and_the_rest_is_counted() {
        let (written, memory) = SharedRing::make().unwrap();
        let rings = Rings::new();
        rings.add(7, PROCESS, memory).unwrap();
        let count = 2 * (KEPT_MAX + RECORD_COUNT) as u64;
        write(&rings, &written, count);
        let mut all = read(&rings).0.len() as u64;
        assert!(all <= (KEPT_MAX + RECORD_COUNT) as u64, "{all}");
        // What was left in the ring.
        let since = Instant::now();
        while all + rings.lost() < count && since.elapsed() < Duration::from_secs(10) {
            all += read(&rings).0.len() as u64;
        }
        assert_eq!(all + rings.lost(), count);
    }
}
