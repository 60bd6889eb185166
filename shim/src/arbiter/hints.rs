//! What the environment says of this process: a wish, which the controller limits.

use xsched_abi::arbiter::PAGE_VERSION;
use xsched_abi::wire::{Hello, PacketKind, WIRE_VERSION};

use crate::env;

/// The first packet to a controller.
pub(super) fn hello() -> Hello {
    let priority = hint("XSCHED_AUTO_XQUEUE_PRIORITY", -255, 255);
    let utilization = hint("XSCHED_AUTO_XQUEUE_UTILIZATION", 0, 100);
    let given = |hint: Option<_>, bit| if hint.is_some() { bit } else { 0 };
    Hello {
        kind: PacketKind::Hello as u32,
        version: WIRE_VERSION,
        page_version: PAGE_VERSION,
        hints: given(priority, Hello::PRIORITY) | given(utilization, Hello::UTILIZATION),
        priority: priority.unwrap_or(0),
        utilization: utilization.unwrap_or(0).cast_unsigned(),
        weight: 0,
        token: env::token().and_then(|token| parse_token(&token)).unwrap_or_default(),
    }
}

/// The level of preemption that the program wants at most: 1 to 3.
pub(super) fn preemption_level() -> u32 {
    hint("XSCHED_AUTO_XQUEUE_LEVEL", 1, 3).map_or(u32::MAX, i32::cast_unsigned)
}

/// A number within these bounds.
fn hint(variable: &str, min: i64, max: i64) -> Option<i32> {
    env::hint(variable).map(|value| value.clamp(min, max) as i32)
}

/// Sixteen bytes in hexadecimal digits.
fn parse_token(text: &str) -> Option<[u8; 16]> {
    let mut token = [0; 16];
    let digits = text.as_bytes();
    (digits.len() == 2 * token.len()).then_some(())?;
    for (byte, pair) in token.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sixteen_bytes() {
        let token = parse_token("000102030405060708090a0b0c0d0eff");
        assert_eq!(token, Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]));
        for wrong in ["", "00", "zz0102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0eff00"] {
            assert_eq!(parse_token(wrong), None, "{wrong}");
        }
    }
}
