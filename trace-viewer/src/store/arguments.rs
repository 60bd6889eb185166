//! The annotations of slices and marks, packed: a few bytes for each value.
//!
//! ```text
//! list:  count, then `count` times
//! entry: name << 3 | kind, value          each number in groups of seven bits, one byte each, the lowest first
//! ```
//!
//! Signed values are zigzag-encoded; a floating-point value is stored as its bits.

use xsched_perfetto::{OwnedAnnotation, OwnedValue};

use super::texts::TextId;

/// A value.
pub(crate) type ArgumentValue = OwnedValue<TextId>;

/// Lists of named values, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    bytes: Vec<u8>,
}

impl Arguments {
    /// Packs a list; returns its position.
    pub(crate) fn push(&mut self, annotations: &[OwnedAnnotation<TextId>]) -> u64 {
        let at = self.bytes.len() as u64;
        self.number(annotations.len() as u64);
        for annotation in annotations {
            let (kind, value) = match annotation.value {
                OwnedValue::Str(text) => (0, text.0.into()),
                OwnedValue::U64(number) => (1, number),
                OwnedValue::I64(number) => (2, ((number << 1) ^ (number >> 63)) as u64),
                OwnedValue::F64(number) => (3, number.to_bits()),
                OwnedValue::Pointer(address) => (4, address),
                OwnedValue::Bool(truth) => (5, truth.into()),
                OwnedValue::Other => (6, 0),
            };
            self.number(u64::from(annotation.name.0) << 3 | kind);
            self.number(value);
        }
        at
    }

    /// Adds all lists of `other`; returns how much larger their positions are here.
    pub(super) fn append(&mut self, mut other: Self) -> u64 {
        let before = self.bytes.len() as u64;
        if before == 0 {
            *self = other;
        } else {
            self.bytes.append(&mut other.bytes);
        }
        before
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// The list at a position that [`Self::push`] has returned.
    pub(crate) fn at(&self, at: u64) -> impl Iterator<Item = (TextId, ArgumentValue)> {
        let mut rest = &self.bytes[at as usize..];
        let count = take(&mut rest);
        (0..count).map(move |_| {
            let key = take(&mut rest);
            let value = take(&mut rest);
            let value = match key & 7 {
                0 => ArgumentValue::Str(TextId(value as u32)),
                1 => ArgumentValue::U64(value),
                2 => ArgumentValue::I64((value >> 1) as i64 ^ -((value & 1) as i64)),
                3 => ArgumentValue::F64(f64::from_bits(value)),
                4 => ArgumentValue::Pointer(value),
                5 => ArgumentValue::Bool(value != 0),
                _ => ArgumentValue::Other,
            };
            (TextId((key >> 3) as u32), value)
        })
    }
}

fn take(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first().expect("numbers are written completely");
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return number;
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_kind_and_size_round_trip() {
        let mut arguments = Arguments::default();
        let values = [
            ArgumentValue::Str(TextId(5)),
            ArgumentValue::Str(TextId(u32::MAX)),
            ArgumentValue::U64(0),
            ArgumentValue::U64(u64::MAX),
            ArgumentValue::I64(i64::MIN),
            ArgumentValue::I64(-1),
            ArgumentValue::F64(-0.5),
            ArgumentValue::Pointer(0x7fff_dead_beef),
            ArgumentValue::Bool(true),
            ArgumentValue::Other,
        ];
        let name = TextId(300);
        let annotations = values.map(|value| OwnedAnnotation { name, value });
        let positions = [&annotations[..], &[], &annotations[3..]].map(|list| arguments.push(list));
        let expected = values.map(|value| (name, value));
        assert_eq!(arguments.at(positions[0]).collect::<Vec<_>>(), expected);
        assert_eq!(arguments.at(positions[1]).count(), 0);
        assert_eq!(arguments.at(positions[2]).collect::<Vec<_>>(), expected[3..]);
    }
}
