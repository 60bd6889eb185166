//! How claims change, and how masks and gates follow: the only code that changes the words of claims, counts, masks and gates.
//!
//! It runs in the BPF programs, in a controller that keeps the page in its own memory, and in the model checker of
//! `tests/arbiter_model`. The model checker tries every order in which the steps of several changes can happen.
//!
//! * A claim's word is changed by compare-and-exchange. The caller that succeeds alone knows the old and the new word, so it
//!   alone corrects the counts. It counts the new state before it takes off the old one, so that a claim that changes its
//!   level is never invisible in between. A count may be negative for a moment: another caller may take back a change that is
//!   not counted yet.
//! * A mask's bit is derived: it is set while its count is positive (and, for the ready mask, while a controller is there). Two
//!   words cannot be changed at once. So a caller that has changed a source writes the bit and then checks the sources again,
//!   until they agree with what it wrote. The author of the last change of a source leaves the right bit; a caller that
//!   overwrites it with an older value checks again, too.
//! * A claim's gate is derived from a ready mask and the claim's word in the same way: see [`gate`](super::gate).
//! * Nothing waits. All loops are bounded, and a bound that is reached is counted in
//!   [`PageHeader::exhausted`](super::PageHeader::exhausted); the controller then repairs the device.

#![expect(clippy::inline_always, reason = "a call costs a BPF program stack space and the verifier time")]

use super::{CLAIM_MAX, ClaimWord, LEVEL_COUNT, Word, Words};

/// Among the levels that [`repair_ready`] returns: the mask has changed, whether or not that changes which levels may launch. The
/// most urgent level may always launch, so its bit is free for this.
pub const CHANGED: u64 = 1;

/// Attempts at one word, or at one bit. Each that fails means that another caller has made progress.
pub(super) const TRIES: u32 = 16;

/// A change that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The claim as it was.
    pub old: ClaimWord,
    /// The claim as it is.
    pub new: ClaimWord,
    /// What is to be woken.
    pub wakes: Wakes,
}

/// What a change wakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// Processes that wait for changes of the device. A claim with work may launch now, or it no longer may and its process wants
    /// to know, or a claim's level has changed.
    pub processes: bool,
    /// The controller, if it asked for that: a mask with several levels has changed.
    pub controller: bool,
}

impl Wakes {
    /// All that wait.
    pub const ALL: Self = Self { processes: true, controller: true };
}

/// Why nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The claim is gone or another process's.
    Refused,
    /// The claim already is as wanted, or its lease is not over.
    Unchanged,
    /// Other callers changed the word at each attempt.
    Exhausted,
}

/// The author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The controller, which may change any claim.
    Controller,
    /// A process, which may change its own.
    Process(u64),
}

/// Opens a claim in a free slot; `word` has the slot's next generation. Only one thread of the machine may open claims.
///
/// `lives` says whether the process still exists. It is asked again when the claim is open. The clean-up after a process notes
/// the process's end before it looks for claims, so at least one of the two sees the other.
#[inline(always)]
pub fn open<W: Words>(
    words: &W,
    slot: u64,
    word: ClaimWord,
    owner: u64,
    lives: impl Fn() -> bool,
) -> Result<Change, Refusal> {
    let old = ClaimWord(words.load(Word::claim(slot)));
    if !lives()
        || old.is_open()
        || word != ClaimWord::new(old.generation().wrapping_add(1), word.device(), word.level())
    {
        return Err(Refusal::Refused);
    }
    words.store(Word::owner(slot), owner);
    words.store(Word::lease_until(slot), 0);
    if words.load(Word::SLOTS) <= slot {
        words.store(Word::SLOTS, slot + 1);
    }
    // Before the claim is there: a change of its device's mask looks for it from then on.
    words.set(Word::block(slot), bit(word.device()));
    if !words.replace(Word::claim(slot), old.0, word.0) {
        return Err(Refusal::Refused);
    }
    let change = settle(words, slot, old, word);
    if lives() {
        return Ok(change);
    }
    // Fails if the clean-up was faster.
    let _ = close(words, slot, word.generation(), Caller::Controller);
    Err(Refusal::Refused)
}

/// Closes a claim.
#[inline(always)]
pub fn close<W: Words>(words: &W, slot: u64, generation: u32, caller: Caller) -> Result<Change, Refusal> {
    transition(words, slot, |word| {
        (is_of(words, slot, word, caller) && word.generation() == generation).then(|| word.closed())
    })
}

/// Closes the claim in a slot if this process owns it.
#[inline(always)]
pub fn close_of<W: Words>(words: &W, slot: u64, owner: u64) -> Result<Change, Refusal> {
    transition(words, slot, |word| is_of(words, slot, word, Caller::Process(owner)).then(|| word.closed()))
}

/// A claim has work, or still has: its lease is renewed.
#[inline(always)]
pub fn ready<W: Words>(
    words: &W,
    slot: u64,
    generation: u32,
    caller: Caller,
    now_ns: u64,
) -> Result<Change, Refusal> {
    let is_meant = |word: ClaimWord| is_of(words, slot, word, caller) && word.generation() == generation;
    // Before the word counts the renewal: a caller that sees the old word's lease as over then fails to replace the word.
    if is_meant(ClaimWord(words.load(Word::claim(slot)))) {
        prolong(words, slot, now_ns + words.load(Word::LEASE));
    }
    transition(words, slot, |word| is_meant(word).then(|| word.renewed()))
}

/// Extends a lease to this time, unless it lasts longer. A thread that slept since it read the clock must not shorten a later
/// renewal, not even that of another claim in the same slot.
#[inline(always)]
fn prolong<W: Words>(words: &W, slot: u64, until_ns: u64) {
    for _ in 0..TRIES {
        let lease_ns = words.load(Word::lease_until(slot));
        if lease_ns >= until_ns || words.replace(Word::lease_until(slot), lease_ns, until_ns) {
            return;
        }
    }
}

/// A claim has no work.
#[inline(always)]
pub fn idle<W: Words>(words: &W, slot: u64, generation: u32, caller: Caller) -> Result<Change, Refusal> {
    transition(words, slot, |word| {
        let is_meant = is_of(words, slot, word, caller) && word.generation() == generation;
        is_meant.then(|| word.with_ready(false))
    })
}

/// A claim counts as idle because its lease is over by `now_ns`. Any caller may ask.
#[inline(always)]
pub fn expire<W: Words>(words: &W, slot: u64, generation: u32, now_ns: u64) -> Result<Change, Refusal> {
    transition(words, slot, |word| {
        if !word.is_open() || word.generation() != generation {
            return None;
        }
        // After the word: see `ready`.
        Some(word.with_ready(word.is_ready() && words.load(Word::lease_until(slot)) >= now_ns))
    })
}

/// A claim's level changes. Its process may be waiting for that, whatever the masks say.
#[inline(always)]
pub fn set_level<W: Words>(words: &W, slot: u64, generation: u32, level: u64) -> Result<Change, Refusal> {
    let outcome = transition(words, slot, |word| {
        let is_meant = word.is_open() && word.generation() == generation;
        is_meant.then(|| word.with_level(level))
    });
    outcome.map(|change| Change { wakes: Wakes::ALL, ..change })
}

/// A heartbeat. Returns true if no controller was there before: then [`refresh`] has to follow for every device.
#[inline(always)]
pub fn obey<W: Words>(words: &W, now_ns: u64) -> bool {
    words.store(Word::HEARTBEAT, now_ns);
    words.replace(Word::OBEY, 0, 1)
}

/// No controller is there any more. Returns true if one was: then [`refresh`] has to follow for every device.
#[inline(always)]
pub fn release<W: Words>(words: &W) -> bool {
    words.replace(Word::OBEY, 1, 0)
}

/// As [`release`], if the last heartbeat is too old.
#[inline(always)]
pub fn check<W: Words>(words: &W, now_ns: u64) -> bool {
    let silent_ns = now_ns.saturating_sub(words.load(Word::HEARTBEAT));
    silent_ns > words.load(Word::SILENCE) && release(words)
}

/// Makes a claim's gate agree with the masks. Returns true if a process must be woken for it. The caller whose change the gate
/// follows may come too late to see that an update was due.
#[inline(always)]
pub fn gate<W: Words>(words: &W, slot: u64, generation: u32, caller: Caller) -> Result<bool, Refusal> {
    let word = ClaimWord(words.load(Word::claim(slot)));
    if !is_of(words, slot, word, caller) || word.generation() != generation {
        return Err(Refusal::Refused);
    }
    Ok(words.follow_gate(slot))
}

/// Makes a device's ready mask agree with its counts and with [`obey`], and the gates of its claims with the mask. Returns true
/// if the mask has changed.
#[inline(always)]
pub fn refresh<W: Words>(words: &W, device: u64) -> bool {
    let mut turned = 0;
    if words.load(Word::key(device)) != 0 {
        // A caller that sets a bit after this load checks its sources afterwards, and so sees the change that caused this call.
        let mask = words.load(Word::ready(device));
        for level in 0..LEVEL_COUNT as u64 {
            if mask & bit(level) != 0 || is_positive(words.load(Word::ready_count(device, level))) {
                turned |= words.repair_ready(device, level);
            }
        }
    }
    if turned & !CHANGED != 0 {
        // Callers wake every waiter in any case.
        let _ = words.follow_gates(device, turned & !CHANGED);
    }
    turned != 0
}

/// Slots that may be in use lie below this.
#[inline(always)]
pub fn slots<W: Words>(words: &W) -> u64 {
    words.load(Word::SLOTS).min(CLAIM_MAX as u64)
}

#[inline(always)]
fn is_of<W: Words>(words: &W, slot: u64, word: ClaimWord, caller: Caller) -> bool {
    // The owner is read after the word. A slot changes its owner only while it is closed, and the word's generation then
    // changes too: a word that is replaced after this is still that owner's.
    word.is_open()
        && match caller {
            Caller::Controller => true,
            Caller::Process(owner) => words.load(Word::owner(slot)) == owner,
        }
}

/// Replaces a claim's word by what `decide` makes of it.
#[inline(always)]
fn transition<W: Words>(
    words: &W,
    slot: u64,
    decide: impl Fn(ClaimWord) -> Option<ClaimWord>,
) -> Result<Change, Refusal> {
    for _ in 0..TRIES {
        let old = ClaimWord(words.load(Word::claim(slot)));
        let Some(new) = decide(old) else { return Err(Refusal::Refused) };
        if new == old {
            return Err(Refusal::Unchanged);
        }
        if words.replace(Word::claim(slot), old.0, new.0) {
            return Ok(settle(words, slot, old, new));
        }
    }
    words.add(Word::EXHAUSTED, 1);
    Err(Refusal::Exhausted)
}

/// Corrects counts, masks and gates after a word was replaced.
#[inline(always)]
fn settle<W: Words>(words: &W, slot: u64, old: ClaimWord, new: ClaimWord) -> Change {
    let device = new.device();
    let moved = old.level() != new.level();
    let mut turned = 0;
    let mut before = 0;
    let mut processes = false;
    if new.is_open() && (!old.is_open() || moved) {
        words.add(Word::exist_count(device, new.level()), 1);
        processes |= words.repair_exists(device, new.level());
    }
    if new.is_ready() && (!old.is_ready() || moved) {
        words.add(Word::ready_count(device, new.level()), 1);
        turned |= words.repair_ready(device, new.level());
    }
    if old.is_ready() && (!new.is_ready() || moved) {
        words.add(Word::ready_count(device, old.level()), 1u64.wrapping_neg());
        turned |= words.repair_ready(device, old.level());
        before = bit(old.level());
    }
    // After the mask, which other callers read, and before the wake-ups, which take the longest.
    if turned & !CHANGED != 0 {
        processes |= words.follow_gates(device, turned & !CHANGED);
    }
    if moved || old.is_open() != new.is_open() {
        processes |= words.follow_gate(slot);
    }
    // Only claims of other levels that have work are concerned, and only those wait. A claim whose bit is not visible here will
    // set it later, and looks at the mask after that.
    let concerned = if turned != 0 { before | words.load(Word::ready(device)) } else { 0 };
    if old.is_open() && (!new.is_open() || moved) {
        words.add(Word::exist_count(device, old.level()), 1u64.wrapping_neg());
        processes |= words.repair_exists(device, old.level());
    }
    let has_several_levels = concerned & concerned.wrapping_sub(1) != 0;
    Change { old, new, wakes: Wakes { processes, controller: has_several_levels } }
}

/// Makes a bit of the ready mask agree with its count and with [`obey`]. Returns, with [`CHANGED`], the levels that may launch
/// now and could not before, or the reverse: their gates are to follow. Returns 0 if the mask is as it was.
#[inline(always)]
pub fn repair_ready<W: Words>(words: &W, device: u64, level: u64) -> u64 {
    let turned = repair(words, Word::ready(device), level, || {
        words.load(Word::OBEY) == 1 && is_positive(words.load(Word::ready_count(device, level)))
    });
    if turned != 0 {
        words.add(Word::changes(device), 1);
    }
    turned
}

/// Makes a bit of the mask of existing levels agree with its count. A caller that changes the ready mask updates only the gates of
/// levels that exist. So the caller that sets a level's bit updates the gates that missed a change before. Returns true if a
/// process must be woken for it, see [`gate::follow`](super::gate::follow).
#[inline(always)]
pub fn repair_exists<W: Words>(words: &W, device: u64, level: u64) -> bool {
    let is_there = || is_positive(words.load(Word::exist_count(device, level)));
    repair(words, Word::exists(device), level, is_there) != 0 && words.follow_gates(device, bit(level))
}

/// Makes a bit agree with `wanted`. Returns what its own writes have changed, see [`repair_ready`].
#[inline(always)]
fn repair<W: Words>(words: &W, mask: Word, level: u64, wanted: impl Fn() -> bool) -> u64 {
    let mut turned = 0;
    let mut is_wanted = wanted();
    for _ in 0..TRIES {
        let is_set = words.load(mask) & bit(level) != 0;
        if is_set == is_wanted {
            return turned;
        }
        let before = if is_wanted { words.set(mask, bit(level)) } else { words.clear(mask, bit(level)) };
        let after = if is_wanted { before | bit(level) } else { before & !bit(level) };
        if before != after {
            turned |= free_levels(before) ^ free_levels(after) | CHANGED;
        }
        // The sources may have changed since they were read, and their author may have checked this bit before that write.
        let is_still_wanted = wanted();
        if is_still_wanted == is_wanted {
            return turned;
        }
        is_wanted = is_still_wanted;
    }
    words.add(Word::EXHAUSTED, 1);
    turned
}

/// The levels that may launch under a ready mask: those up to its most urgent one, or all.
#[inline(always)]
const fn free_levels(ready: u64) -> u64 {
    ready ^ ready.wrapping_sub(1)
}

#[inline(always)]
pub(super) const fn bit(level: u64) -> u64 {
    1 << (level & (LEVEL_COUNT as u64 - 1))
}

#[inline(always)]
const fn is_positive(count: u64) -> bool {
    count.cast_signed() > 0
}
