//! A claim's gate: the word for which its process's streams wait on the device, before each command.
//!
//! Each claim has a gate page of its own. Its process maps it writable, because a device maps memory only so. The arbiter
//! clears [`GATE_ALLOWED`] in the same moment in which a mask says that the claim is preempted. From then on the device begins
//! no queued command, even if the process gets no processor. What a process writes there affects only its own commands: it
//! could as well leave out the gate.
//!
//! The bit is derived like those of the masks (see [`protocol`](super::protocol)): it is set unless the claim is open and a more
//! urgent claim is ready. A change of a mask, or of the level or openness in a claim's word, is followed by an update of the
//! gates that it concerns. Each update then checks again the words that the gate was derived from.

#![expect(clippy::inline_always, reason = "a call costs a BPF program stack space and the verifier time")]

use super::protocol::{TRIES, bit};
use super::{BLOCK_SLOTS, CLAIM_MAX, ClaimWord, Word, Words, more_urgent};

/// Bytes of a gate page. The gate is its first word; all words but those below belong to the process.
pub const GATE_SIZE: usize = 4096;

/// The word that holds when the arbiter last cleared [`GATE_ALLOWED`], in nanoseconds of the arbiter page's clock. It is written
/// before the bit is cleared. So a process that was not woken when it was preempted can learn the time later.
pub const GATE_CLOSED_AT: usize = 1;

/// The word that holds when it last set the bit. It is below [`GATE_CLOSED_AT`] only while the gate is closed or about to be.
pub const GATE_OPENED_AT: usize = 2;

/// The arbiter's bit: no more urgent claim is ready.
pub const GATE_ALLOWED: u64 = 1;

/// The process's bit: no controller is there, or a command that must not be stopped is on the device.
pub const GATE_KEPT_OPEN: u64 = 1 << 1;

/// Commands behind the gate begin while any of these is set. There are no other bits: a device waits for the word to be at
/// least 1.
pub const GATE_OPEN: u64 = GATE_ALLOWED | GATE_KEPT_OPEN;

/// The word with the process's requests to the arbiter.
pub const GATE_WISHES: usize = 3;

/// The request not to be woken when [`GATE_ALLOWED`] is cleared.
pub const GATE_QUIET: u64 = 1;

/// For [`follow_all`]: gates of all levels, and of free slots.
pub const ALL_GATES: u64 = u64::MAX;

/// Makes a slot's gate agree with the claim's word and the ready mask. Returns true if a process with work must be woken for it:
/// if the gate opened, or if it closed and the process has not asked for quiet. Without a gate that is not known, so a ready
/// claim's process must be woken.
///
/// The result is about this call's own writes: each change of the bit is reported once, by the call that wrote it, whichever
/// caller changed the mask.
#[inline(always)]
pub fn follow<W: Words>(words: &W, slot: u64) -> bool {
    let Some(gate) = words.gate(slot) else {
        return ClaimWord(words.load(Word::claim(slot))).is_ready();
    };
    let mut is_allowed = gate & GATE_ALLOWED != 0;
    let mut wakes = false;
    for _ in 0..TRIES {
        // Loaded after the gate was read or written. These words may have changed since, and the caller that changed them may
        // have updated this gate before that write.
        let word = ClaimWord(words.load(Word::claim(slot)));
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

/// The same for all open claims of a device at these levels.
#[inline(always)]
pub fn follow_all<W: Words>(words: &W, device: u64, levels: u64) -> bool {
    let mut wakes = false;
    // If a level does not exist yet although claims have it, `repair_exists` updates these gates when it sets the level's bit.
    if levels != ALL_GATES && levels & words.load(Word::exists(device)) == 0 {
        return wakes;
    }
    let slots = words.load(Word::SLOTS);
    // A constant bound: for one that is only known to be small, the verifier of Linux 6.1 does not finish.
    for first_slot in (0..CLAIM_MAX as u64).step_by(BLOCK_SLOTS) {
        if first_slot >= slots {
            return wakes;
        }
        if levels == ALL_GATES || words.load(Word::block(first_slot)) & bit(device) != 0 {
            wakes |= words.follow_block(first_slot, device, levels);
        }
    }
    wakes
}

/// The same for the slots of one block, from `first_slot` on. The verifier follows a loop whose rounds branch only for a limited
/// number of rounds, so this one has no more.
#[inline(always)]
pub fn follow_block<W: Words>(words: &W, first_slot: u64, device: u64, levels: u64) -> bool {
    let mut wakes = false;
    for slot in first_slot..first_slot + BLOCK_SLOTS as u64 {
        // A claim that is opened or moved from now on is updated by the caller that does so. Claims of other devices
        // cost one load each.
        let word = ClaimWord(words.load(Word::claim(slot)));
        let is_meant = (word.is_open() || levels == ALL_GATES) && levels & bit(word.level()) != 0;
        if is_meant && word.device() == device {
            wakes |= words.follow_gate(slot);
        }
    }
    wakes
}
