//! Cuts encoded packets into parts of whole packets.

use crate::schema::PACKET_KEY;

/// Parts of `packets`. Each consists of whole packets and has at most `len_max` bytes, or is one longer packet. Bytes that
/// are not a packet, or a cut packet, form the last part with everything after them, whatever its length.
///
/// A caller that writes part by part loses no more than one part when a disk is full.
pub fn whole_packets(packets: &[u8], len_max: usize) -> impl Iterator<Item = &[u8]> {
    let mut left = packets;
    std::iter::from_fn(move || {
        let mut len = packet_len(left)?;
        while let Some(next) = packet_len(&left[len..])
            && len + next <= len_max
        {
            len += next;
        }
        let (part, rest) = left.split_at(len);
        left = rest;
        Some(part)
    })
}

/// The length of the first packet with its header, or of all bytes if they do not begin with one; `None` if there are no
/// bytes.
fn packet_len(packets: &[u8]) -> Option<usize> {
    let (key, mut body) = packets.split_first()?;
    let len = (*key == PACKET_KEY)
        .then(|| prost::decode_length_delimiter(&mut body).ok())
        .flatten()
        .filter(|len| *len <= body.len())
        .map(|len| packets.len() - body.len() + len);
    Some(len.unwrap_or(packets.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of `len` bytes, header included.
    fn packet(len: usize) -> Vec<u8> {
        let body = len - 2;
        assert!(body < 128, "its length takes one byte");
        [&[PACKET_KEY, body as u8][..], &vec![0xff; body]].concat()
    }

    fn lens(packets: &[Vec<u8>], len_max: usize) -> Vec<usize> {
        let packets = packets.concat();
        let parts: Vec<_> = whole_packets(&packets, len_max).collect();
        assert_eq!(parts.concat(), packets, "nothing is lost or changed");
        parts.iter().map(|part| part.len()).collect()
    }

    #[test]
    fn parts_consist_of_whole_packets() {
        assert_eq!(lens(&[packet(10), packet(20), packet(30)], 100), [60]);
        assert_eq!(lens(&[packet(10), packet(20), packet(30)], 60), [60]);
        assert_eq!(lens(&[packet(10), packet(20), packet(30)], 59), [30, 30]);
        assert_eq!(lens(&[packet(10), packet(20), packet(30)], 1), [10, 20, 30]);
        assert_eq!(lens(&[packet(2), packet(100), packet(2)], 50), [2, 100, 2]);
        assert_eq!(lens(&[], 50), [0; 0]);
    }

    #[test]
    fn bytes_that_are_not_a_packet_are_one_part() {
        assert_eq!(lens(&[packet(10), vec![0x55; 300]], 50), [10, 300]);
        assert_eq!(lens(&[packet(10), packet(40)[..39].to_vec()], 10), [10, 39]);
        assert_eq!(lens(&[packet(10), vec![PACKET_KEY]], 10), [10, 1]);
        assert_eq!(lens(&[packet(10), [&[PACKET_KEY][..], &[0xff; 20]].concat()], 10), [10, 21]);
    }
}
