extern crate std;

use std::vec::Vec;

use zerocopy::FromZeros as _;

use super::*;

/// Not at the beginning of a window.
const RSP: u64 = 0x7ffc_0000_0700;

/// A snapshot as the programs make it, of `len` bytes in which the words at these offsets are kept.
fn snapshot(len: u64, kept: &[(u64, u64)]) -> (Snapshot, Vec<u64>) {
    let (mut words, mut at) = (Vec::new(), RSP);
    while at < RSP + len {
        let end = (at / WINDOW as u64 + 1) * WINDOW as u64;
        let (mut bits, mut values) = ([0_u64; 2 * WINDOW_BITS], Vec::new());
        for &(offset, word) in kept.iter().filter(|(offset, _)| (at..end).contains(&(RSP + offset))) {
            let index = ((RSP + offset - at) / 8) as usize;
            let is_zero = word == 0;
            bits[index / 64 + if is_zero { WINDOW_BITS } else { 0 }] |= 1 << (index % 64);
            values.extend((!is_zero).then_some(word));
        }
        words.extend(bits);
        words.extend(values);
        at = end;
    }
    let mut snapshot = Snapshot::new_zeroed();
    (snapshot.rsp, snapshot.len, snapshot.word_count) = (RSP, len as u32, words.len() as u32);
    (snapshot, words)
}

fn word(snapshot: &Snapshot, words: &[u64], address: u64) -> Option<u64> {
    snapshot.word(words, &windows(words).collect::<Vec<_>>(), address)
}

#[test]
fn words_are_found_in_any_window_and_others_read_as_left_out() {
    let mut kept: Vec<_> = [0, 8, 0xf8, 0x100, 0x1f8, 0x300, 0x8f8, 0x900, 0xff8, 64 << 10, (200 << 10) - 8]
        .map(|at| (at, 1000 + at))
        .into();
    kept.extend([0x10, 0x708, 0x7f8, 100 << 10].map(|at| (at, 0)));
    let (snapshot, words) = snapshot(200 << 10, &kept);
    for offset in (0..200 << 10).step_by(8) {
        let expected = kept.iter().find(|(at, _)| *at == offset).map_or(LEFT_OUT, |(_, word)| *word);
        assert_eq!(word(&snapshot, &words, RSP + offset), Some(expected), "{offset:#x}");
    }
}

#[test]
fn only_what_is_covered_can_be_read() {
    let (snapshot, words) = snapshot(0x1000, &[(0, 5), (0xff8, 6)]);
    for outside in [RSP - 8, RSP + 4, RSP + 0x1000, 0, u64::MAX - 7] {
        assert_eq!(word(&snapshot, &words, outside), None, "{outside:#x}");
    }
    assert_eq!(word(&snapshot, &words, RSP + 0xff8), Some(6));
}

#[test]
fn words_that_are_not_a_snapshots_are_no_words_of_the_stack() {
    let (snapshot, mut words) = snapshot(0x1000, &[(0, 5), (0xff8, 6)]);
    words[0] = u64::MAX;
    assert_eq!(word(&snapshot, &words, RSP + 0xff8), None);
    assert_eq!(word(&snapshot, &words[..2 * WINDOW_BITS], RSP), None);
    assert_eq!(word(&snapshot, &[], RSP), None);
}
