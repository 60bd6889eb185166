//! Reads protobuf's encoding (<https://protobuf.dev/programming-guides/encoding/>) without copies. Most of a trace is
//! events, so these are decoded by hand.
//!
//! Rare messages are decoded by the schema. Values are borrowed; number and layout of a field determine its type.

/// Why the contents of a packet cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A number does not end within its message or within ten bytes, the most that a number takes.
    #[error("a number does not end")]
    Number,
    /// A field is longer than its message.
    #[error("a field of {len} bytes where {left} are left")]
    Length {
        /// The length that the field announces.
        len: u64,
        /// The bytes that are left of the message.
        left: usize,
    },
    /// A field has a layout that does not exist, or is a group. Groups are deprecated in protobuf, and Perfetto has none.
    #[error("a field is laid out as {0}, which is not known")]
    Layout(u8),
    /// A message does not match its schema.
    #[error(transparent)]
    Schema(#[from] prost::DecodeError),
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Number(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

/// The fields of a message, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// Number and value of the next field; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Field<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.number()?;
        let field = match key as u8 & 7 {
            0 => Field::Number(self.number()?),
            1 => Field::Fixed64(u64::from_le_bytes(*self.array()?)),
            2 => {
                let len = self.number()?;
                Field::Bytes(self.take(len)?)
            }
            5 => {
                self.array::<4>()?;
                Field::Fixed32
            }
            layout => return Err(Malformed::Layout(layout)),
        };
        Ok(Some(((key >> 3) as u32, field)))
    }

    #[inline]
    fn number(&mut self) -> Result<u64, Malformed> {
        // Most numbers take one byte or two.
        match *self.0 {
            [low, ref rest @ ..] if low < 0x80 => {
                self.0 = rest;
                Ok(low.into())
            }
            [low, high, ref rest @ ..] if high < 0x80 => {
                self.0 = rest;
                Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (index, byte) in self.0.iter().take(10).enumerate() {
            // The tenth byte has one significant bit; its other bits are dropped.
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Ok(number);
            }
        }
        Err(Malformed::Number)
    }

    #[inline]
    fn take(&mut self, len: u64) -> Result<&'a [u8], Malformed> {
        let too_long = || Malformed::Length { len, left: self.0.len() };
        let (taken, rest) =
            usize::try_from(len).ok().and_then(|len| self.0.split_at_checked(len)).ok_or_else(too_long)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const LEN: usize>(&mut self) -> Result<&'a [u8; LEN], Malformed> {
        let too_long = Malformed::Length { len: LEN as u64, left: self.0.len() };
        let (array, rest) = self.0.split_first_chunk().ok_or(too_long)?;
        self.0 = rest;
        Ok(array)
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use prost::encoding;

    use super::*;

    fn fields(message: &[u8]) -> Result<Vec<(u32, Field<'_>)>, Malformed> {
        let mut fields = Fields::of(message);
        std::iter::from_fn(|| fields.next().transpose()).collect()
    }

    #[test]
    fn output_of_prosts_encoder_is_read() {
        let numbers = [0, 1, 127, 128, 300, 16_383, 16_384, u64::from(u32::MAX), i64::MAX as u64, u64::MAX];
        for number in numbers {
            for tag in [1, 15, 16, 47, 2_047, 2_048, (1 << 29) - 1] {
                let mut message = Vec::new();
                encoding::uint64::encode(tag, &number, &mut message);
                encoding::fixed64::encode(tag, &number, &mut message);
                encoding::bytes::encode(tag, &b"abc".to_vec(), &mut message);
                encoding::fixed32::encode(tag, &7, &mut message);
                let expected =
                    [Field::Number(number), Field::Fixed64(number), Field::Bytes(b"abc"), Field::Fixed32];
                assert_eq!(fields(&message), Ok(expected.map(|field| (tag, field)).to_vec()));
            }
        }
    }

    #[test]
    fn cut_fields_and_unknown_layouts_are_refused() {
        assert_eq!(fields(&[0x08]), Err(Malformed::Number));
        assert_eq!(fields(&[0x08, 0x80]), Err(Malformed::Number));
        assert_eq!(fields(&[0xff; 20]), Err(Malformed::Number));
        assert_eq!(fields(&[0x0a, 3, 0, 0]), Err(Malformed::Length { len: 3, left: 2 }));
        assert_eq!(fields(&[0x09, 0]), Err(Malformed::Length { len: 8, left: 1 }));
        assert_eq!(fields(&[0x0b]), Err(Malformed::Layout(3)));
    }

    #[test]
    fn garbage_never_panics() {
        let seed = fastrand::u64(..);
        println!("seed {seed:#x}");
        let mut rng = Rng::with_seed(seed);
        for _ in 0..20_000 {
            let message: Vec<u8> = (0..rng.usize(..40)).map(|_| rng.u8(..)).collect();
            // Each field takes at least one byte.
            assert!(fields(&message).map_or(0, |fields| fields.len()) <= message.len());
        }
    }
}
