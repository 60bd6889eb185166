//! One event, as words in a ring and as what it says.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute};

use crate::arbiter_page::ArbiterEvent;
use crate::verdict::Judgement;

/// Words of a record.
pub(super) const RECORD_WORDS: usize = 8;

/// An event as it lies in a ring. What the last words mean depends on the kind: see [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record {
    /// What happened.
    pub kind: u32,
    /// The thread that says so, in its own pid namespace.
    pub thread: u32,
    /// When.
    pub time_ns: u64,
    /// Which queue, or slot.
    pub queue: u64,
    /// The rest.
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
    /// A marker behind them was seen complete.
    Marker = 1,
    /// The program has waited for them.
    Wait = 2,
    /// It does not: nobody follows them any more.
    Lost = 3,
}

/// What happened. Queues have numbers that their process never uses again; commands of a queue are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is a queue before a stream.
    QueueOpened {
        /// Its number.
        queue: u64,
        /// The stream, as HIP names it; 2 for the per-thread streams of all threads.
        stream: u64,
        /// [`crate::arbiter_page::device_key`], or 0 if the runtime cannot tell.
        device: u64,
        /// How much more urgent than the process it is.
        stream_priority: i32,
        /// Commands that are held back.
        held_back: u32,
        /// Commands on the device.
        in_flight: u32,
        /// Commands that ever went there.
        launched: u64,
    },
    /// A command has to wait.
    Waits {
        /// Its queue.
        queue: u64,
        /// The how-many-th that is buffered; 0 if its caller waits.
        position: u64,
        /// How it is treated, and why.
        judgement: Judgement,
    },
    /// A command has been given to the runtime, or is about to be and is not followed.
    Launched {
        /// Its queue.
        queue: u64,
        /// The how-many-th that went to the device; 0 if the runtime has refused it, or nobody follows it.
        number: u64,
        /// When the runtime had taken it. The record's own time is when it was handed over.
        returned_ns: u64,
        /// What [`Event::Waits`] said; 0 if it did not.
        position: u64,
        /// Since when it waited; 0 if it did not.
        waited_since_ns: u64,
        /// Device time that is expected of what was launched before and has not completed.
        ahead_ns: u64,
        /// How it is treated, and why.
        judgement: Judgement,
        /// Whether the device waits before it while the gate is shut.
        is_gated: bool,
    },
    /// Commands have completed.
    Completed {
        /// Their queue.
        queue: u64,
        /// All up to this one.
        through: u64,
        /// Device time since the marker before; 0 if there is no such or the device does not tell.
        device_ns: u64,
        /// How that is known.
        observed: Observed,
    },
    /// The queues of a device with a stream priority have to give way, or need not any more.
    Stands {
        /// [`crate::arbiter_page::device_key`]
        device: u64,
        /// See [`Event::QueueOpened`].
        stream_priority: i32,
        /// Whether they have to give way.
        held: bool,
        /// Their level.
        level: u8,
        /// Levels with work, as the process sees them.
        ready: u64,
    },
    /// The gate before commands of the queues of a device with a stream priority is open, or shut, from now on.
    Gate {
        /// [`crate::arbiter_page::device_key`]
        device: u64,
        /// See [`Event::QueueOpened`].
        stream_priority: i32,
        /// Whether commands pass it.
        is_open: bool,
    },
    /// The controller: whose queue of the page this is.
    Seat {
        /// Its place.
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
        /// Its [`crate::arbiter_page::QueueWord`].
        word: u64,
    },
    /// The controller: the page has changed.
    Arbiter(ArbiterEvent),
}

const QUEUE_OPENED: u32 = 1;
const WAITS: u32 = 2;
const LAUNCHED: u32 = 3;
const COMPLETED: u32 = 4;
const STANDS: u32 = 5;
const SEAT: u32 = 6;
const ARBITER: u32 = 7;
const GATE: u32 = 8;

/// A launch's number takes so many bits of its word, enough for nine years at a million a second; its judgement has the rest.
const NUMBER_BITS: u32 = 48;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// Set in the word of a launch's position: there is a gate before it.
const GATED: u64 = 1 << 63;

impl Event {
    /// As a record of this time and thread.
    #[inline]
    pub fn record(&self, time_ns: u64, thread: u32) -> Record {
        let (kind, queue, values) = match *self {
            Self::QueueOpened { queue, stream, device, stream_priority, held_back, in_flight, launched } => {
                let counts = u64::from(held_back) << 32 | u64::from(in_flight);
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
            Self::Stands { device, stream_priority, held, level, ready } => {
                (STANDS, 0, [device, word(stream_priority), held.into(), level.into(), ready])
            }
            Self::Gate { device, stream_priority, is_open } => {
                (GATE, 0, [device, word(stream_priority), is_open.into(), 0, 0])
            }
            Self::Seat { slot, generation, pid, device, priority, stream_priority, word: own } => {
                let priorities = word(priority) << 32 | word(stream_priority);
                (SEAT, slot.into(), [generation.into(), pid.into(), device, priorities, own])
            }
            Self::Arbiter(event) => {
                let ArbiterEvent { time_ns, change, slot, word, ready, owner } = event;
                (ARBITER, slot.into(), [time_ns, change.into(), word, ready, owner])
            }
        };
        Record { kind, thread, time_ns, queue, values }
    }

    /// What a record says; none if it makes no sense.
    pub fn of(record: &Record) -> Option<Self> {
        let Record { kind, queue, values, .. } = *record;
        Some(match kind {
            QUEUE_OPENED => Self::QueueOpened {
                queue,
                stream: values[0],
                device: values[1],
                stream_priority: values[2] as u32 as i32,
                held_back: (values[3] >> 32) as u32,
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
            STANDS => Self::Stands {
                device: values[0],
                stream_priority: values[1] as u32 as i32,
                held: values[2] != 0,
                level: u8::try_from(values[3]).ok().filter(|&level| level < 64)?,
                ready: values[4],
            },
            GATE => Self::Gate {
                device: values[0],
                stream_priority: values[1] as u32 as i32,
                is_open: values[2] != 0,
            },
            SEAT => Self::Seat {
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
                held_back: 5,
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
            Event::Stands { device: 1, stream_priority: -2, held: true, level: 63, ready: 4 },
            Event::Gate { device: 1, stream_priority: -2, is_open: true },
            Event::Seat {
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
    fn what_makes_no_sense_is_no_event() {
        let record = Record { kind: 0, thread: 0, time_ns: 0, queue: u64::MAX, values: [u64::MAX; 5] };
        for kind in [0, COMPLETED, STANDS, SEAT, ARBITER, GATE + 1, u32::MAX] {
            assert_eq!(Event::of(&Record { kind, ..record }), None, "{kind}");
        }
    }
}
