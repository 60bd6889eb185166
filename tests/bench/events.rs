//! Scheduling events: their cost to the process that writes them, and to the tracer that reads them.
//!
//! The ring is the real one, in memory of the same kind. A process writes events under a lock that it holds
//! anyway, so the lock is not measured. Usually it has read the event's time anyway too, so writing is
//! measured with and without reading the clock.

use std::convert::Infallible;
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::time::{ClockId, clock_gettime};
use xsched_protocol::events::{Event, RECORD_COUNT, RING_SIZE, Reader, Ring, RingMemory};
use xsched_protocol::verdict::Judgement;
use xsched_tests::bench::{Goal, Row, Samples, repeated};

const BENCH: &str = "events";
const ROUNDS: usize = 31;

/// Maximal cost of an event in nanoseconds.
const EVENT_NS_MAX: f64 = 60.0;

fn main() -> Result<(), Box<dyn Error>> {
    let memory = memory()?;
    let ring = Ring::prepare(memory);
    let mut reader = Reader::new(memory)?;
    let mut drain = || reader.read(memory, |record| _ = black_box(record));

    let fresh = Samples::new(vec![fill(ring, |number| number)]);
    Row::single(BENCH, "event, memory touched for the first time", "ns", &fresh).print()?;
    drain()?;
    let written = repeated(ROUNDS, || {
        let ns = fill(ring, |number| number);
        drain().map(|lost| {
            assert_eq!(lost, 0, "the ring has space for all");
            ns
        })
    })?;
    Row::single(BENCH, "event", "ns", &written).print()?;
    let timed = repeated(ROUNDS, || {
        let ns = fill(ring, |_| now_ns());
        drain().map(|_| ns)
    })?;
    let timed = Row::single(BENCH, "event with its time", "ns", &timed);
    timed.with_goal(Goal::ValueAtMost(EVENT_NS_MAX)).print()?;
    fill(ring, |number| number);
    let Ok(lost) = repeated(ROUNDS, || Ok::<_, Infallible>(fill(ring, |number| number)));
    Row::single(BENCH, "event lost to a full ring", "ns", &lost).print()?;
    drain()?;
    let read = repeated(ROUNDS, || {
        fill(ring, |number| number);
        let started = Instant::now();
        drain().map(|_| started.elapsed().as_secs_f64() * 1e9 / RECORD_COUNT as f64)
    })?;
    Row::single(BENCH, "event read", "ns", &read).print()?;
    Ok(())
}

/// Writes as many events as fit; returns the time of one.
fn fill(ring: Ring<'_>, time_ns: impl Fn(u64) -> u64) -> f64 {
    let started = Instant::now();
    for number in 0..RECORD_COUNT as u64 {
        let event = Event::Launched {
            queue: 1,
            number,
            returned_ns: number + 1,
            position: 0,
            waited_since_ns: 0,
            ahead_ns: number,
            judgement: Judgement::NONE,
            is_gated: false,
        };
        ring.write(&black_box(event).record(time_ns(number), 1));
    }
    started.elapsed().as_secs_f64() * 1e9 / RECORD_COUNT as f64
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn memory() -> Result<&'static RingMemory, Box<dyn Error>> {
    let file = memfd_create("bench-events", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, RING_SIZE as u64)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of the file's size, at an address that the kernel chooses, and never unmapped.
    let memory = unsafe {
        let at = mmap(std::ptr::null_mut(), RING_SIZE, access, MapFlags::SHARED, &file, 0)?;
        &*at.cast::<RingMemory>()
    };
    Ok(memory)
}
