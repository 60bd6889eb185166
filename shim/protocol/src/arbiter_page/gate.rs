//! A queue's gate: the word that its process's streams wait for on the device, before each command.
//!
//! Each queue has a page of its own for it, which its process maps to write, too: a device maps memory only so. The arbiter
//! clears [`GATE_ALLOWED`] in the same moment in which a mask says that the queue has to give way, so that nothing that is
//! queued on the device begins from then on, whether the process gets a processor or not. What a process writes there
//! concerns nobody else: it may as well not put the gate before its commands.
//!
//! The bit is derived, as those of the masks are (see [`protocol`](super::protocol)): it is set unless the queue is open and somebody more
//! urgent is ready. Whoever has changed a mask, or a queue's word in what matters here, makes the gates agree that this
//! concerns, and looks again at what each was made from.

#![expect(
    clippy::inline_always,
    reason = "a call costs a BPF program its stack, and the verifier its patience"
)]

use super::protocol::{TRIES, bit};
use super::{QUEUE_MAX, QueueWord, Word, Words, more_urgent};

/// Bytes of a gate's page. The word is the first in it; but for those below, the rest is the process's.
pub const GATE_SIZE: usize = 4096;

/// The word of the page that says when the arbiter has last cleared [`GATE_ALLOWED`], on the clock of the arbiter's page, in
/// nanoseconds. It is written before: so a process that need not be woken to give way learns later when it had to.
pub const GATE_SHUT_AT: usize = 1;

/// The word that says when it has last set it. Behind [`GATE_SHUT_AT`] unless the gate is shut, or about to be.
pub const GATE_OPENED_AT: usize = 2;

/// The arbiter's bit: nobody more urgent has work.
pub const GATE_ALLOWED: u64 = 1;

/// The process's bit: the arbiter is not believed, or something is on the device that must not be stopped.
pub const GATE_KEPT_OPEN: u64 = 1 << 1;

/// Commands behind the gate begin while any of these is set. There are no others: a device waits for the word to be at least 1.
pub const GATE_OPEN: u64 = GATE_ALLOWED | GATE_KEPT_OPEN;

/// The word in which the process says what it asks for.
pub const GATE_WISHES: usize = 3;

/// The wish that nobody be woken when [`GATE_ALLOWED`] is cleared.
pub const GATE_QUIET: u64 = 1;

/// For [`follow_all`]: those of all levels, and of slots that are free.
pub const ALL_GATES: u64 = u64::MAX;

/// Slots that are looked at together. The verifier follows a loop only so far in which each round can go different ways.
const BLOCK: usize = 64;

const _: () = assert!(QUEUE_MAX.is_multiple_of(BLOCK));

/// Makes the gate of a slot agree with the queue's word and the ready mask. True if somebody who has work must be woken by that: his
/// turn has come, or it has gone and he has not asked to be left in quiet. Of a queue that has no gate nobody knows, so he must.
///
/// Whoever changes the bit says so, whoever has changed the mask.
#[inline(always)]
pub fn follow<W: Words>(words: &W, slot: u64) -> bool {
    let Some(gate) = words.gate(slot) else {
        return QueueWord(words.load(Word::queue(slot))).is_ready();
    };
    let mut is_allowed = gate & GATE_ALLOWED != 0;
    let mut wakes = false;
    for _ in 0..TRIES {
        // After it was looked at or written: what it is made from may have changed, and whoever changed it may have been here
        // before.
        let word = QueueWord(words.load(Word::queue(slot)));
        let is_wanted =
            !word.is_open() || words.load(Word::ready(word.device())) & more_urgent(word.level()) == 0;
        if is_allowed == is_wanted {
            return wakes;
        }
        words.set_gate(slot, is_wanted);
        is_allowed = is_wanted;
        wakes |= word.is_ready() && (is_wanted || !words.is_quiet(slot));
    }
    words.add(Word::EXHAUSTED, 1);
    true
}

/// The same for all open queues of a device that are of these levels.
#[inline(always)]
pub fn follow_all<W: Words>(words: &W, device: u64, levels: u64) -> bool {
    let mut wakes = false;
    // A level that is not there now, and whose queues are open all the same, will be: `repair_exists` follows then.
    if levels != ALL_GATES && levels & words.load(Word::exists(device)) == 0 {
        return wakes;
    }
    let slots = words.load(Word::SLOTS);
    // To a constant: with a bound that it only knows to be small the verifier of Linux 6.1 goes round for ever.
    for first_slot in (0..QUEUE_MAX as u64).step_by(BLOCK) {
        if first_slot >= slots {
            return wakes;
        }
        wakes |= words.follow_block(first_slot, device, levels);
    }
    wakes
}

/// The same for the slots from one on that are looked at together.
#[inline(always)]
pub fn follow_block<W: Words>(words: &W, first_slot: u64, device: u64, levels: u64) -> bool {
    let mut wakes = false;
    for slot in first_slot..first_slot + BLOCK as u64 {
        // One that is opened or moved from now on is its author's business. Most are of other devices: one load each.
        let word = QueueWord(words.load(Word::queue(slot)));
        let is_meant = (word.is_open() || levels == ALL_GATES) && levels & bit(word.level()) != 0;
        if is_meant && word.device() == device {
            wakes |= words.follow_gate(slot);
        }
    }
    wakes
}
