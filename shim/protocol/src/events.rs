//! What happens in the queues of a process and on the arbiter's page, on its way to whoever records a timeline.
//!
//! Each process that is recorded has a [ring](Ring) of its own, in memory that the controller has made, sealed and handed
//! out; the controller writes one more about the arbiter. Writers never wait: what finds no room is counted. Readers trust
//! nothing that they find.

mod record;
mod ring;

pub use record::{Event, Observed, Record};
pub use ring::{Broken, RECORD_COUNT, RING_SIZE, RING_WORDS, Reader, Ring, RingMemory};
