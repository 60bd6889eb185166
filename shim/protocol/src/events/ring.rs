//! A ring of records in shared memory: one writer, one reader, neither waits for the other.
//!
//! ```text
//!   word  0          1        8       9       16      32
//!        | magic   | version | head  | lost  | tail  | record 0 | record 1 | ...
//!          reader     reader   writer  writer  reader   writer
//! ```
//!
//! `head` and `tail` count records from the beginning; each is written by one side only, in a cache line of its own. A
//! record is complete when `head` has passed it: a writer that dies at any point leaves whole records and nothing else. The
//! reader keeps its own `tail` and only publishes it to the writer, so that nothing that it reads can mislead it.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use super::record::{RECORD_WORDS, Record};

/// First word, so that other memory is not taken for a ring.
const MAGIC: u64 = u64::from_le_bytes(*b"XSCHRING");

/// Changes whenever the layout or the meaning of records changes.
const VERSION: u64 = 3;

const HEAD: usize = 8;
const LOST: usize = 9;
const TAIL: usize = 16;
const RECORDS: usize = 32;

/// Records that fit in a ring: those of 20 ms at 800,000 a second.
pub const RECORD_COUNT: usize = 1 << 14;

/// Words of a ring.
pub const RING_WORDS: usize = RECORDS + RECORD_COUNT * RECORD_WORDS;

/// Bytes of a ring.
pub const RING_SIZE: usize = RING_WORDS * size_of::<u64>();

/// The memory of a ring.
pub type RingMemory = [AtomicU64; RING_WORDS];

/// The writer's side of a ring. There is one writer at a time.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a>(&'a RingMemory);

impl<'a> Ring<'a> {
    /// Makes a ring in memory that is all zero.
    pub fn prepare(memory: &'a RingMemory) -> Self {
        memory[0].store(MAGIC, Ordering::Relaxed);
        memory[1].store(VERSION, Ordering::Release);
        Self(memory)
    }

    /// A ring that was prepared before; none if the memory is no ring, or one of another version.
    pub fn of(memory: &'a RingMemory) -> Option<Self> {
        is_ring(memory).then_some(Self(memory))
    }

    /// Writes a record, or counts it as lost.
    #[inline]
    pub fn write(self, record: &Record) {
        let head = self.0[HEAD].load(Ordering::Relaxed);
        // Pairs with the release in `Reader::read`: an entry is written again only after its record was copied.
        let tail = self.0[TAIL].load(Ordering::Acquire);
        if head.wrapping_sub(tail) >= RECORD_COUNT as u64 {
            let lost = self.0[LOST].load(Ordering::Relaxed);
            self.0[LOST].store(lost.wrapping_add(1), Ordering::Relaxed);
            return;
        }
        for (entry, word) in entry(self.0, head).iter().zip(record.words()) {
            entry.store(word, Ordering::Relaxed);
        }
        // A reader that sees the new head sees the record.
        self.0[HEAD].store(head.wrapping_add(1), Ordering::Release);
    }
}

/// The writer's words are invalid: its ring is not read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its writer does not keep to the rules")
    }
}

impl core::error::Error for Broken {}

/// How far a ring was read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    tail: u64,
    lost: u64,
}

impl Reader {
    /// A reader from the first record on.
    ///
    /// # Errors
    /// This is no ring, or one of another version.
    pub fn new(memory: &RingMemory) -> Result<Self, Broken> {
        if is_ring(memory) { Ok(Self::default()) } else { Err(Broken) }
    }

    /// Takes the records that are there, at most as many as fit in a ring; returns how many were lost since the last call.
    ///
    /// # Errors
    /// The writer claims to have written more than fits.
    pub fn read(&mut self, memory: &RingMemory, mut take: impl FnMut(Record)) -> Result<u64, Broken> {
        let head = memory[HEAD].load(Ordering::Acquire);
        let count = head.wrapping_sub(self.tail);
        if count > RECORD_COUNT as u64 {
            return Err(Broken);
        }
        for _ in 0..count {
            let words = entry(memory, self.tail);
            take(Record::of_words(core::array::from_fn(|index| words[index].load(Ordering::Relaxed))));
            self.tail = self.tail.wrapping_add(1);
        }
        memory[TAIL].store(self.tail, Ordering::Release);
        let lost = memory[LOST].load(Ordering::Relaxed);
        let before = core::mem::replace(&mut self.lost, lost);
        Ok(lost.saturating_sub(before))
    }
}

fn is_ring(memory: &RingMemory) -> bool {
    memory[1].load(Ordering::Acquire) == VERSION && memory[0].load(Ordering::Relaxed) == MAGIC
}

fn entry(memory: &RingMemory, number: u64) -> &[AtomicU64] {
    let at = RECORDS + (number as usize % RECORD_COUNT) * RECORD_WORDS;
    &memory[at..at + RECORD_WORDS]
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::boxed::Box;
    use std::vec::Vec;

    use super::*;

    fn memory() -> Box<RingMemory> {
        let words: Vec<AtomicU64> = (0..RING_WORDS).map(|_| AtomicU64::new(0)).collect();
        words.into_boxed_slice().try_into().unwrap()
    }

    fn record(number: u64) -> Record {
        Record { kind: 1, thread: 2, time_ns: number, queue: number, values: [number; 5] }
    }

    fn drain(reader: &mut Reader, memory: &RingMemory) -> (Vec<u64>, u64) {
        let mut times = Vec::new();
        let lost = reader.read(memory, |record| times.push(record.time_ns)).unwrap();
        (times, lost)
    }

    #[test]
    fn records_come_in_order_and_once() {
        let memory = memory();
        let ring = Ring::prepare(&memory);
        let mut reader = Reader::new(&memory).unwrap();
        for round in 0..3 * RECORD_COUNT as u64 / 1000 {
            (0..1000).for_each(|number| ring.write(&record(round * 1000 + number)));
            let (times, lost) = drain(&mut reader, &memory);
            assert!(times.into_iter().eq(round * 1000..(round + 1) * 1000) && lost == 0);
        }
        assert_eq!(drain(&mut reader, &memory), (Vec::new(), 0));
    }

    #[test]
    fn records_that_do_not_fit_are_counted_once() {
        let memory = memory();
        let ring = Ring::prepare(&memory);
        let mut reader = Reader::new(&memory).unwrap();
        (0..RECORD_COUNT as u64 + 7).for_each(|number| ring.write(&record(number)));
        let (times, lost) = drain(&mut reader, &memory);
        assert_eq!((times.len(), times[0], lost), (RECORD_COUNT, 0, 7), "the newest are lost");
        ring.write(&record(99));
        assert_eq!(drain(&mut reader, &memory), (Vec::from([99]), 0));
    }

    #[test]
    fn a_writer_that_dies_within_a_record_leaves_those_before() {
        let memory = memory();
        let ring = Ring::prepare(&memory);
        let mut reader = Reader::new(&memory).unwrap();
        ring.write(&record(1));
        // All that a writer writes before it advances the head.
        for words in 0..RECORD_WORDS {
            entry(&memory, 1)[words].store(u64::MAX, Ordering::Relaxed);
        }
        assert_eq!(drain(&mut reader, &memory), (Vec::from([1]), 0));
    }

    #[test]
    fn a_writer_that_lies_is_not_followed() {
        let memory = memory();
        assert_eq!(Reader::new(&memory).err(), Some(Broken), "no ring");
        let ring = Ring::prepare(&memory);
        let mut reader = Reader::new(&memory).unwrap();
        ring.write(&record(1));
        memory[TAIL].store(77, Ordering::Relaxed);
        assert_eq!(drain(&mut reader, &memory).0, [1], "the reader knows where it is");
        for head in [0, u64::MAX, RECORD_COUNT as u64 + 2] {
            memory[HEAD].store(head, Ordering::Relaxed);
            assert_eq!(reader.read(&memory, |_| panic!("nothing is there")), Err(Broken));
        }
        memory[LOST].store(5, Ordering::Relaxed);
        memory[HEAD].store(1, Ordering::Relaxed);
        assert_eq!(drain(&mut reader, &memory).1, 5);
        memory[LOST].store(0, Ordering::Relaxed);
        assert_eq!(drain(&mut reader, &memory).1, 0);
    }

    const COUNT: u64 = 200_000;

    #[test]
    fn a_reader_beside_a_writer_sees_whole_records() {
        let memory = memory();
        let ring = Ring::prepare(&memory);
        let mut reader = Reader::new(&memory).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..COUNT).for_each(|number| ring.write(&record(number))));
            let (mut seen, mut lost, mut next) = (0, 0, 0);
            while seen + lost < COUNT {
                lost += reader
                    .read(&memory, |read| {
                        assert_eq!(read, record(read.time_ns));
                        assert!(read.time_ns >= next);
                        next = read.time_ns + 1;
                        seen += 1;
                    })
                    .unwrap();
            }
        });
    }
}
