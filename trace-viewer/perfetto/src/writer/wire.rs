//! The parts of protobuf's encoding (<https://protobuf.dev/programming-guides/encoding/>) that events need. Events are most
//! of a trace, so they are encoded by hand.
//!
//! The schema's encoder encodes everything else. `tests/decode.rs` reads both with the complete schema.

/// The layout of a field's value: protobuf's wire type.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

/// Appends a number in groups of seven bits, one byte each.
#[inline]
pub(super) fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends the key of a field.
#[inline]
fn key(out: &mut Vec<u8>, field: u32, layout: Layout) {
    varint(out, u64::from(field) << 3 | layout as u64);
}

/// Appends a field that is a number.
#[inline]
pub(super) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    key(out, field, Layout::Varint);
    varint(out, value);
}

/// Appends a field of eight bytes.
#[inline]
pub(super) fn fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    key(out, field, Layout::Fixed64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends the key and the length of a message; the caller appends the message.
#[inline]
pub(super) fn begin_message(out: &mut Vec<u8>, field: u32, len: usize) {
    key(out, field, Layout::Bytes);
    varint(out, len as u64);
}

/// Appends a message of fewer than 128 bytes, which `fill` appends.
#[inline]
pub(super) fn short_message(out: &mut Vec<u8>, field: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    key(out, field, Layout::Bytes);
    let at = out.len();
    out.push(0);
    fill(out);
    let len = out.len() - at - 1;
    debug_assert!(len < 0x80, "the length takes one byte");
    out[at] = len as u8;
}

#[cfg(test)]
mod tests {
    use prost::encoding;

    use super::*;

    #[test]
    fn the_encoding_equals_prosts() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, u64::from(u32::MAX), i64::MAX as u64, u64::MAX] {
            for field in [1, 15, 16, 47, 300] {
                let (mut own, mut theirs) = (Vec::new(), Vec::new());
                number(&mut own, field, value);
                fixed64(&mut own, field, value);
                begin_message(&mut own, field, 3);
                own.extend_from_slice(b"abc");
                short_message(&mut own, field, |out| out.extend_from_slice(b"abc"));
                encoding::uint64::encode(field, &value, &mut theirs);
                encoding::fixed64::encode(field, &value, &mut theirs);
                encoding::bytes::encode(field, &b"abc".to_vec(), &mut theirs);
                encoding::bytes::encode(field, &b"abc".to_vec(), &mut theirs);
                assert_eq!(own, theirs);
            }
        }
    }
}
