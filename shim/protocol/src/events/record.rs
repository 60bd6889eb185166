//! One event, as words in a ring and decoded.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute};

use crate::arbiter_page::ArbiterEvent;
use crate::verdict::Judgement;

/// Words of a record.
pub(super) const RECORD_WORDS: usize = 8;

/// An event as it lies in a ring. The meaning of the last words depends on the kind: see [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record {
    /// The kind of the event.
    pub kind: u32,
    /// The thread that wrote it, in its own pid namespace.
    pub thread: u32,
    /// When.
    pub time_ns: u64,
    /// The queue's number, or a slot.
    pub queue: u64,
    /// The remaining values.
    pub values: [u64; 5],
}

const _: () = assert!(size_of::<Record>() == RECORD_WORDS * size_of::<u64>());

impl Record {
    pub(super) fn words(&self) -> [u64; RECORD_WORDS] {
        transmute!(*self)
    }

    pub(super) fn of_words(words: [u64; RECORD_WORDS]) -> Self {
        transmute!(words)
    }
}

/// How a process knows that commands have completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Observed {
    /// A marker behind them was complete.
    Marker = 1,
    /// The program has synchronized with them.
    Wait = 2,
    /// It does not know: they are not followed any more.
    Lost = 3,
}

/// What happened. A process never uses a queue's number again. The commands of a queue are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A queue in front of a stream was opened.
    QueueOpened {
        /// Its number.
        queue: u64,
        /// The stream, as HIP names it; 2 for the per-thread streams of all threads.
        stream: u64,
        /// [`crate::arbiter_page::device_key`], or 0 if the runtime cannot tell.
        device: u64,
        /// How much more urgent than the rest of the process it is.
        stream_priority: i32,
        /// Commands that are deferred.
        deferred: u32,
        /// Commands in flight.
        in_flight: u32,
        /// Commands launched so far.
        launched: u64,
    },
    /// A command has to wait.
    Waits {
        /// Its queue.
        queue: u64,
        /// Its position among all commands that were ever deferred here; 0 if its caller waits.
        position: u64,
        /// Its judgement.
        judgement: Judgement,
    },
    /// A command was launched, or is about to be and is not followed.
    Launched {
        /// Its queue.
        queue: u64,
        /// Its number among all that went to the device; 0 if the runtime refused it, or it is not followed.
        number: u64,
        /// When the runtime's function returned. The record's own time is when the function was called.
        returned_ns: u64,
        /// The position that [`Event::Waits`] gave; 0 if it did not wait.
        position: u64,
        /// Since when it waited; 0 if it did not.
        waited_since_ns: u64,
        /// Expected device time of the commands that were launched before and have not completed.
        ahead_ns: u64,
        /// Its judgement.
        judgement: Judgement,
        /// Whether the device waits before it while the gate is closed.
        is_gated: bool,
    },
    /// Commands have completed.
    Completed {
        /// Their queue.
        queue: u64,
        /// All up to this number.
        through: u64,
        /// Device time since the previous marker; 0 if there is none or the device does not measure it.
        device_ns: u64,
        /// How the process knows.
        observed: Observed,
    },
    /// The queues of a device with a stream priority are preempted from now on, or may launch again.
    Admission {
        /// [`crate::arbiter_page::device_key`]
        device: u64,
        /// See [`Event::QueueOpened`].
        stream_priority: i32,
        /// Whether they are preempted.
        suspended: bool,
        /// Their level.
        level: u8,
        /// Levels with work, as the process sees them.
        ready: u64,
    },
    /// The gate before commands of the queues of a device with a stream priority is open or closed from now on.
    Gate {
        /// [`crate::arbiter_page::device_key`]
        device: u64,
        /// See [`Event::QueueOpened`].
        stream_priority: i32,
        /// Whether commands pass it.
        is_open: bool,
    },
    /// From the controller: the process and the scheduling parameters of a claim, by its slot in the page.
    Claim {
        /// Its slot.
        slot: u32,
        /// Its generation.
        generation: u32,
        /// The process, in the controller's pid namespace; 0 if it has no id there.
        pid: u32,
        /// [`crate::arbiter_page::device_key`]
        device: u64,
        /// Larger is more urgent.
        priority: i32,
        /// See [`Event::QueueOpened`].
        stream_priority: i32,
        /// Its [`crate::arbiter_page::ClaimWord`].
        word: u64,
    },
    /// From the controller: the page has changed.
    Arbiter(ArbiterEvent),
}

const QUEUE_OPENED: u32 = 1;
const WAITS: u32 = 2;
const LAUNCHED: u32 = 3;
const COMPLETED: u32 = 4;
const ADMISSION: u32 = 5;
const CLAIM: u32 = 6;
const ARBITER: u32 = 7;
const GATE: u32 = 8;

/// A launch's number takes 48 bits of its word, enough for nine years at a million a second; its judgement has the rest.
const NUMBER_BITS: u32 = 48;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// Set in the word of a launch's position: there is a gate before it.
const GATED: u64 = 1 << 63;

impl Event {
    /// As a record of this time and thread.
    #[inline]
    pub fn record(&self, time_ns: u64, thread: u32) -> Record {
        let (kind, queue, values) = match *self {
            Self::QueueOpened { queue, stream, device, stream_priority, deferred, in_flight, launched } => {
                let counts = u64::from(deferred) << 32 | u64::from(in_flight);
                (QUEUE_OPENED, queue, [stream, device, word(stream_priority), counts, launched])
            }
            Self::Waits { queue, position, judgement } => {
                (WAITS, queue, [position, judgement.bits(), 0, 0, 0])
            }
            Self::Launched {
                queue,
                number,
                returned_ns,
                position,
                waited_since_ns,
                ahead_ns,
                judgement,
                is_gated,
            } => {
                let number = number & NUMBER_MASK | judgement.bits() << NUMBER_BITS;
                let position = position & !GATED | if is_gated { GATED } else { 0 };
                (LAUNCHED, queue, [number, returned_ns, position, waited_since_ns, ahead_ns])
            }
            Self::Completed { queue, through, device_ns, observed } => {
                (COMPLETED, queue, [through, device_ns, observed as u64, 0, 0])
            }
            Self::Admission { device, stream_priority, suspended, level, ready } => {
                (ADMISSION, 0, [device, word(stream_priority), suspended.into(), level.into(), ready])
            }
            Self::Gate { device, stream_priority, is_open } => {
                (GATE, 0, [device, word(stream_priority), is_open.into(), 0, 0])
            }
            Self::Claim { slot, generation, pid, device, priority, stream_priority, word: own } => {
                let priorities = word(priority) << 32 | word(stream_priority);
                (CLAIM, slot.into(), [generation.into(), pid.into(), device, priorities, own])
            }
            Self::Arbiter(event) => {
                let ArbiterEvent { time_ns, change, slot, word, ready, owner } = event;
                (ARBITER, slot.into(), [time_ns, change.into(), word, ready, owner])
            }
        };
        Record { kind, thread, time_ns, queue, values }
    }

    /// Decodes a record; none if it is invalid.
    pub fn of(record: &Record) -> Option<Self> {
        let Record { kind, queue, values, .. } = *record;
        Some(match kind {
            QUEUE_OPENED => Self::QueueOpened {
                queue,
                stream: values[0],
                device: values[1],
                stream_priority: values[2] as u32 as i32,
                deferred: (values[3] >> 32) as u32,
                in_flight: values[3] as u32,
                launched: values[4],
            },
            WAITS => {
                let judgement = Judgement::from_bits(values[1]);
                Self::Waits { queue, position: values[0], judgement }
            }
            LAUNCHED => Self::Launched {
                queue,
                number: values[0] & NUMBER_MASK,
                returned_ns: values[1],
                position: values[2] & !GATED,
                waited_since_ns: values[3],
                ahead_ns: values[4],
                judgement: Judgement::from_bits(values[0] >> NUMBER_BITS),
                is_gated: values[2] & GATED != 0,
            },
            COMPLETED => {
                let all = [Observed::Marker, Observed::Wait, Observed::Lost];
                let observed = all.into_iter().find(|&how| how as u64 == values[2])?;
                Self::Completed { queue, through: values[0], device_ns: values[1], observed }
            }
            ADMISSION => Self::Admission {
                device: values[0],
                stream_priority: values[1] as u32 as i32,
                suspended: values[2] != 0,
                level: u8::try_from(values[3]).ok().filter(|&level| level < 64)?,
                ready: values[4],
            },
            GATE => Self::Gate {
                device: values[0],
                stream_priority: values[1] as u32 as i32,
                is_open: values[2] != 0,
            },
            CLAIM => Self::Claim {
                slot: u32::try_from(queue).ok()?,
                generation: values[0] as u32,
                pid: values[1] as u32,
                device: values[2],
                priority: (values[3] >> 32) as i32,
                stream_priority: values[3] as u32 as i32,
                word: values[4],
            },
            ARBITER => Self::Arbiter(ArbiterEvent {
                time_ns: values[0],
                change: values[1] as u32,
                slot: u32::try_from(queue).ok()?,
                word: values[2],
                ready: values[3],
                owner: values[4],
            }),
            _ => return None,
        })
    }
}

fn word(number: i32) -> u64 {
    number.cast_unsigned().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Action, RuleId};

    #[test]
    fn every_event_comes_back_as_it_was() {
        let arbiter = ArbiterEvent { time_ns: 1, change: 2, slot: 3, word: 4, ready: 5, owner: 6 };
        let judgement = Judgement::new(Action::NeverSuspend, 3, RuleId::DOMAIN);
        let events = [
            Event::QueueOpened {
                queue: 1 << 63,
                stream: 2,
                device: 3,
                stream_priority: -4,
                deferred: 5,
                in_flight: 6,
                launched: 7,
            },
            Event::Waits { queue: 1, position: 2, judgement },
            Event::Launched {
                queue: 1,
                number: 2,
                returned_ns: 3,
                position: 4,
                waited_since_ns: 5,
                ahead_ns: 6,
                judgement,
                is_gated: true,
            },
            Event::Completed { queue: 1, through: 2, device_ns: 3, observed: Observed::Wait },
            Event::Admission { device: 1, stream_priority: -2, suspended: true, level: 63, ready: 4 },
            Event::Gate { device: 1, stream_priority: -2, is_open: true },
            Event::Claim {
                slot: 1,
                generation: 2,
                pid: 3,
                device: 4,
                priority: -255,
                stream_priority: -1,
                word: 7,
            },
            Event::Arbiter(arbiter),
        ];
        for event in events {
            let record = event.record(77, 88);
            let words = Record::of_words(record.words());
            assert_eq!((words.time_ns, words.thread), (77, 88));
            assert_eq!(Event::of(&words), Some(event));
        }
    }

    #[test]
    fn an_invalid_record_is_no_event() {
        let record = Record { kind: 0, thread: 0, time_ns: 0, queue: u64::MAX, values: [u64::MAX; 5] };
        for kind in [0, COMPLETED, ADMISSION, CLAIM, ARBITER, GATE + 1, u32::MAX] {
            assert_eq!(Event::of(&Record { kind, ..record }), None, "{kind}");
        }
    }
}
