//! Scheduling events: what happens in the queues of a process and on the arbiter page, for a recording.
//!
//! Each process that is recorded has a [ring](Ring) of its own, in sealed memory that the controller has made; the controller
//! writes one more about the arbiter. Writers never wait: a record that does not fit is counted. Readers validate everything.

mod record;
mod ring;

pub use record::{Event, Observed, Record};
pub use ring::{Broken, RECORD_COUNT, RING_SIZE, RING_WORDS, Reader, Ring, RingMemory};
