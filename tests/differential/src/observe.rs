//! The observable outcome of a program: a return code per step, the values that the host read, and all memory
//! at the end.
//!
//! If a code depends on time, only its certain part is kept. A code that is known beforehand is checked too,
//! so that the runtime without the shim is tested as well.

use std::fmt;

use crate::order::Answer;

/// `hipSuccess`
const SUCCESS: i32 = 0;
/// `hipErrorNotReady`
const NOT_READY: i32 = 600;
/// Replaces a code that depends on time.
const DEPENDS_ON_TIME: i32 = -1;

/// The observation of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The call's return code, or the first bad one of several.
    pub code: i32,
    /// [`hash`] of the contents that the host read, else 0.
    pub value: u64,
}

/// The outcome of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Of each step.
    pub steps: Vec<Seen>,
    /// Contents of memory at the end, and the codes of the final calls, by name.
    pub end: Vec<(String, u64)>,
    /// Steps whose codes are impossible at any time.
    pub impossible_codes: Vec<usize>,
}

impl Outcome {
    /// Adds the observation of the next step.
    pub fn push(&mut self, seen: Seen, answer: Answer) {
        let is_possible = match answer {
            Answer::Code | Answer::Any => true,
            Answer::Ready => seen.code == SUCCESS,
            Answer::NotReady => seen.code == NOT_READY,
            Answer::ReadyOrNot => matches!(seen.code, SUCCESS | NOT_READY),
        };
        if !is_possible {
            self.impossible_codes.push(self.steps.len());
        }
        let depends = answer == Answer::Any || answer == Answer::ReadyOrNot && is_possible;
        self.steps.push(Seen { code: if depends { DEPENDS_ON_TIME } else { seen.code }, ..seen });
    }

    /// A digest of the whole outcome.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let steps = self.steps.iter().flat_map(|seen| [seen.code as u64, seen.value]);
        let end = self.end.iter().flat_map(|(name, value)| [hash(name.as_bytes()), *value]);
        let impossible_codes = self.impossible_codes.iter().map(|step| *step as u64);
        steps.chain(end).chain(impossible_codes).fold(FNV_BASE, step)
    }
}

const FNV_BASE: u64 = 0xcbf2_9ce4_8422_2325;

fn step(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    mixed ^ mixed >> 29
}

/// Hash of memory contents, by words, because there is a lot of it.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(FNV_BASE, step)
}

/// One line per step and per final observation, for people and for comparison.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, seen) in self.steps.iter().enumerate() {
            let note = if self.impossible_codes.contains(&index) { " (impossible)" } else { "" };
            match seen.value {
                0 => writeln!(f, "step {index}: {}{note}", Code(seen.code))?,
                value => writeln!(f, "step {index}: {} {value:016x}{note}", Code(seen.code))?,
            }
        }
        self.end.iter().try_for_each(|(name, value)| writeln!(f, "end {name}: {value:x}"))
    }
}

struct Code(i32);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == DEPENDS_ON_TIME { f.write_str("depends on time") } else { write!(f, "{}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(answer: Answer, code: i32) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.push(Seen { code, value: 0 }, answer);
        outcome
    }

    #[test]
    fn time_dependent_codes_are_ignored() {
        let same = |answer, a, b| outcome(answer, a).digest() == outcome(answer, b).digest();
        assert!(same(Answer::ReadyOrNot, 0, 600));
        assert!(!same(Answer::ReadyOrNot, 0, 1));
        assert!(same(Answer::Any, 0, 1));
        assert!(!same(Answer::Code, 0, 600));
    }

    #[test]
    fn impossible_codes_are_detected() {
        let impossible_codes = |answer, code| outcome(answer, code).impossible_codes.len();
        assert_eq!([impossible_codes(Answer::Ready, 0), impossible_codes(Answer::Ready, 600)], [0, 1]);
        assert_eq!([impossible_codes(Answer::NotReady, 600), impossible_codes(Answer::NotReady, 0)], [0, 1]);
        assert_eq!(
            [impossible_codes(Answer::ReadyOrNot, 600), impossible_codes(Answer::ReadyOrNot, 700)],
            [0, 1]
        );
    }

    #[test]
    fn every_byte_of_memory_counts() {
        let mut bytes = [7_u8; 21];
        let before = hash(&bytes);
        bytes[20] = 8;
        assert_ne!(hash(&bytes), before);
    }

    #[test]
    fn text_has_a_line_per_step() {
        let mut outcome = outcome(Answer::NotReady, 0);
        outcome.push(Seen { code: 0, value: 255 }, Answer::Code);
        outcome.end.push(("cell (1,0)".to_owned(), 16));
        let text = "step 0: 0 (impossible)\nstep 1: 0 00000000000000ff\nend cell (1,0): 10\n";
        assert_eq!(outcome.to_string(), text);
    }
}
