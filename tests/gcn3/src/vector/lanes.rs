//! Modifiers of lanes: which lane's value another sees (DPP), and which part of a dword (SDWA).

use crate::wave::{LANES, Vector, mask};

/// The lane that `lane` reads from under a DPP control; none if it is outside of the row or wave.
fn source(control: u16, lane: usize) -> Option<usize> {
    let (row, column) = (lane & !15, lane & 15);
    let amount = usize::from(control & 15);
    match control {
        0..=0xff => Some(lane & !3 | usize::from(control >> ((lane & 3) * 2) & 3)),
        0x101..=0x10f => (column + amount < 16).then_some(lane + amount),
        0x111..=0x11f => column.checked_sub(amount).map(|column| row + column),
        0x121..=0x12f => Some(row + ((column + 16 - amount) & 15)),
        0x130 => (lane + 1 < LANES).then_some(lane + 1),
        0x134 => Some((lane + 1) & 63),
        0x138 => lane.checked_sub(1),
        0x13c => Some((lane + 63) & 63),
        0x140 => Some(row + 15 - column),
        0x141 => Some(lane & !7 | (7 - (lane & 7))),
        // The last lane of each row goes to the whole next row.
        0x142 => row.checked_sub(1),
        // Lane 31 goes to the two rows behind it.
        0x143 => (lane >= 32).then_some(31),
        _ => None,
    }
}

/// The values that the lanes see.
pub(super) fn moved(values: &Vector<u32>, exec: u64, control: u16) -> Vector<u32> {
    std::array::from_fn(|lane| match source(control, lane) {
        Some(from) if exec >> from & 1 != 0 => values[from],
        _ => 0,
    })
}

/// Lanes that take part.
pub(super) fn taking_part(exec: u64, control: u16, row_mask: u8, bank_mask: u8, zero: bool) -> u64 {
    mask(|lane| {
        let has_source = source(control, lane).is_some_and(|from| exec >> from & 1 != 0);
        let is_chosen = row_mask >> (lane / 16) & 1 != 0 && bank_mask >> (lane / 4 % 4) & 1 != 0;
        is_chosen && (has_source || zero)
    })
}

/// Part of a dword: 0 to 3 a byte, 4 and 5 a word, else all.
pub(super) fn part(value: u32, selection: u8, is_signed: bool) -> u32 {
    match selection {
        0..=3 => {
            let byte = (value >> (selection * 8)) as u8;
            if is_signed { i32::from(byte as i8) as u32 } else { u32::from(byte) }
        }
        4 | 5 => {
            let word = (value >> ((selection - 4) * 16)) as u16;
            if is_signed { i32::from(word as i16) as u32 } else { u32::from(word) }
        }
        _ => value,
    }
}

/// A destination's dword after a part of it was written; `unused`: 0 the rest becomes 0, 1 the sign, 2 stays.
pub(super) fn placed(old: u32, value: u32, selection: u8, unused: u8) -> u32 {
    let (shift, bits) = match selection {
        0..=3 => (u32::from(selection) * 8, 8),
        4 | 5 => (u32::from(selection - 4) * 16, 16),
        _ => return value,
    };
    let ones = (1_u32 << bits) - 1;
    let placed = (value & ones) << shift;
    match unused {
        1 => {
            let above = (u64::MAX << (shift + bits)) as u32;
            let is_negative = value >> (bits - 1) & 1 != 0;
            placed | if is_negative { above } else { 0 }
        }
        2 => old & !(ones << shift) | placed,
        _ => placed,
    }
}
