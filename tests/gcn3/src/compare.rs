//! Comparisons of vectors (VOPC), whose codes are regular: type, condition, and whether the result also becomes EXEC.

/// Type of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareType {
    /// Half, single or double precision; the number is the width in bits.
    Float(u8),
    /// Signed integers of this many bits.
    Signed(u8),
    /// Unsigned integers of this many bits.
    Unsigned(u8),
    /// Membership of a float of this many bits in classes.
    Class(u8),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare {
    /// Type of the operands.
    pub of: CompareType,
    /// The condition's code: four bits for floats, three for integers.
    pub condition: u8,
    /// The result also becomes EXEC (`v_cmpx`).
    pub writes_exec: bool,
}

const FLOAT_CONDITIONS: [&str; 16] =
    ["f", "lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "tru"];
const INTEGER_CONDITIONS: [&str; 8] = ["f", "lt", "eq", "le", "gt", "ne", "ge", "t"];

impl Compare {
    /// The comparison with this VOPC code.
    pub fn of_code(code: u8) -> Option<Self> {
        let writes_exec = code & 0x10 != 0;
        let float = |of, condition, writes_exec| Some(Self { of, condition, writes_exec });
        match code {
            0x10..=0x15 => {
                let bits = [32, 64, 16][usize::from((code - 0x10) / 2)];
                float(CompareType::Class(bits), 0, code & 1 != 0)
            }
            0x20..=0x7f => float(CompareType::Float(16 << ((code >> 5) - 1)), code & 15, writes_exec),
            0xa0..=0xff => {
                let bits = 16 << ((code >> 5) - 5);
                let of = if code & 8 == 0 { CompareType::Signed(bits) } else { CompareType::Unsigned(bits) };
                float(of, code & 7, writes_exec)
            }
            _ => None,
        }
    }

    /// The mnemonic without the suffix of its encoding.
    pub fn name(self) -> String {
        let x = if self.writes_exec { "x" } else { "" };
        let condition = usize::from(self.condition);
        match self.of {
            CompareType::Class(bits) => format!("v_cmp{x}_class_f{bits}"),
            CompareType::Float(bits) => format!("v_cmp{x}_{}_f{bits}", FLOAT_CONDITIONS[condition & 15]),
            CompareType::Signed(bits) => format!("v_cmp{x}_{}_i{bits}", INTEGER_CONDITIONS[condition & 7]),
            CompareType::Unsigned(bits) => format!("v_cmp{x}_{}_u{bits}", INTEGER_CONDITIONS[condition & 7]),
        }
    }

    /// Widths of the two operands in dwords.
    pub fn widths(self) -> [u8; 2] {
        match self.of {
            CompareType::Class(64) => [2, 1],
            CompareType::Float(64) | CompareType::Signed(64) | CompareType::Unsigned(64) => [2, 2],
            _ => [1, 1],
        }
    }

    /// Whether the condition holds for two integers.
    pub(crate) fn holds<T: Ord>(self, a: &T, b: &T) -> bool {
        let order = a.cmp(b);
        (self.condition & 1 != 0 && order.is_lt())
            || (self.condition & 2 != 0 && order.is_eq())
            || (self.condition & 4 != 0 && order.is_gt())
    }

    /// Whether the condition holds for two floats.
    pub(crate) fn holds_for_floats<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let bit = match a.partial_cmp(b) {
            Some(Less) => 1,
            Some(Equal) => 2,
            Some(Greater) => 4,
            // Conditions with the highest bit hold for unordered operands. `u` and `o` have two codes each.
            None => return self.condition & 8 != 0,
        };
        // From `u` on, each condition is the opposite of the one 15 codes before the end.
        if self.condition & 8 == 0 { self.condition & bit != 0 } else { (15 - self.condition) & bit == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs that a condition of floats can tell apart: less, equal, greater, unordered.
    fn truth(condition: u8) -> [bool; 4] {
        let compare = Compare { of: CompareType::Float(32), condition, writes_exec: false };
        [(1.0, 2.0), (2.0, 2.0), (3.0, 2.0), (f32::NAN, 2.0)]
            .map(|(a, b): (f32, f32)| compare.holds_for_floats(&a, &b))
    }

    #[test]
    fn conditions_of_floats_are_those_of_their_names() {
        let (t, f) = (true, false);
        let expected = [
            [f, f, f, f],
            [t, f, f, f],
            [f, t, f, f],
            [t, t, f, f],
            [f, f, t, f],
            [t, f, t, f],
            [f, t, t, f],
            [t, t, t, f],
            [f, f, f, t],
            [t, f, f, t],
            [f, t, f, t],
            [t, t, f, t],
            [f, f, t, t],
            [t, f, t, t],
            [f, t, t, t],
            [t, t, t, t],
        ];
        assert_eq!((0..16).map(truth).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn conditions_of_integers_are_those_of_their_names() {
        let truth = |condition| {
            let compare = Compare { of: CompareType::Signed(32), condition, writes_exec: false };
            [(-1, 2), (2, 2), (3, 2)].map(|(a, b): (i32, i32)| compare.holds(&a, &b))
        };
        let (t, f) = (true, false);
        let expected =
            [[f, f, f], [t, f, f], [f, t, f], [t, t, f], [f, f, t], [t, f, t], [f, t, t], [t, t, t]];
        assert_eq!((0..8).map(truth).collect::<Vec<_>>(), expected);
    }
}
