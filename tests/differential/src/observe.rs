//! What a run of a program shows: a return code per step, what the host read, and all memory in the end.
//!
//! Of codes that depend on time only that is kept which does not. What is known beforehand of a code is checked as
//! well, so that the runtime without the shim is tested too.

use std::fmt;

use crate::order::Answer;

/// `hipSuccess`
const SUCCESS: i32 = 0;
/// `hipErrorNotReady`
const NOT_READY: i32 = 600;
/// In place of a code that depends on time.
const DEPENDS_ON_TIME: i32 = -1;

/// What a step has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The call's return code, or the first bad one of several.
    pub code: i32,
    /// Contents that the host read, as [`hash`], else 0.
    pub value: u64,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Of each step.
    pub steps: Vec<Seen>,
    /// Contents of memory in the end, and the codes of the calls that ended everything, by name.
    pub end: Vec<(String, u64)>,
    /// Steps whose codes cannot be, whatever the time.
    pub surprises: Vec<usize>,
}

impl Outcome {
    /// Takes in what the next step has shown.
    pub fn push(&mut self, seen: Seen, answer: Answer) {
        let is_possible = match answer {
            Answer::Code | Answer::Any => true,
            Answer::Ready => seen.code == SUCCESS,
            Answer::NotReady => seen.code == NOT_READY,
            Answer::ReadyOrNot => matches!(seen.code, SUCCESS | NOT_READY),
        };
        if !is_possible {
            self.surprises.push(self.steps.len());
        }
        let depends = answer == Answer::Any || answer == Answer::ReadyOrNot && is_possible;
        self.steps.push(Seen { code: if depends { DEPENDS_ON_TIME } else { seen.code }, ..seen });
    }

    /// All of it in one number.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let steps = self.steps.iter().flat_map(|seen| [seen.code as u64, seen.value]);
        let end = self.end.iter().flat_map(|(name, value)| [hash(name.as_bytes()), *value]);
        let surprises = self.surprises.iter().map(|step| *step as u64);
        steps.chain(end).chain(surprises).fold(FNV_BASE, step)
    }
}

const FNV_BASE: u64 = 0xcbf2_9ce4_8422_2325;

fn step(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    mixed ^ mixed >> 29
}

/// Of contents of memory: by words, since there is a lot of it.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(FNV_BASE, step)
}

/// One line per step and per thing at the end, for people and for comparison.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, seen) in self.steps.iter().enumerate() {
            let surprise = if self.surprises.contains(&index) { " (cannot be)" } else { "" };
            match seen.value {
                0 => writeln!(f, "step {index}: {}{surprise}", Code(seen.code))?,
                value => writeln!(f, "step {index}: {} {value:016x}{surprise}", Code(seen.code))?,
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
    fn what_depends_on_time_does_not_count() {
        let same = |answer, a, b| outcome(answer, a).digest() == outcome(answer, b).digest();
        assert!(same(Answer::ReadyOrNot, 0, 600));
        assert!(!same(Answer::ReadyOrNot, 0, 1));
        assert!(same(Answer::Any, 0, 1));
        assert!(!same(Answer::Code, 0, 600));
    }

    #[test]
    fn impossible_codes_are_noticed() {
        let surprises = |answer, code| outcome(answer, code).surprises.len();
        assert_eq!([surprises(Answer::Ready, 0), surprises(Answer::Ready, 600)], [0, 1]);
        assert_eq!([surprises(Answer::NotReady, 600), surprises(Answer::NotReady, 0)], [0, 1]);
        assert_eq!([surprises(Answer::ReadyOrNot, 600), surprises(Answer::ReadyOrNot, 700)], [0, 1]);
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
        let text = "step 0: 0 (cannot be)\nstep 1: 0 00000000000000ff\nend cell (1,0): 10\n";
        assert_eq!(outcome.to_string(), text);
    }
}
