//! Parts of two over pi, by which large angles become fractions of turns: `v_trig_preop_f64`.

use super::{Execution, map2};
use crate::fault::Cause;
use crate::float::ldexp;

/// Bits of two over pi behind the point.
const BITS: u32 = 1201;

/// They, from the first one on, and zeros behind them.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_0000,
    0,
];

/// 53 of the bits from `at` on.
fn bits(at: u32) -> u64 {
    if at >= BITS {
        return 0;
    }
    let (index, shift) = ((at / 64) as usize, at % 64);
    let pair = u128::from(TWO_OVER_PI[index]) << 64 | u128::from(TWO_OVER_PI[index + 1]);
    (pair << shift >> (128 - 53)) as u64
}

/// The part of two over pi with this number for an angle. Of large angles the first bits make whole turns and are left out; the parts of
/// the largest are larger, so that they are no denormals.
fn part(angle: f64, number: u32) -> f64 {
    let exponent = (angle.to_bits() >> 52 & 0x7ff) as u32;
    let at = (number & 31) * 53 + exponent.saturating_sub(1077);
    let scale = if exponent >= 1968 { 128 } else { 0 };
    ldexp(bits(at) as f64, scale - 53 - at as i32)
}

impl Execution<'_> {
    pub(super) fn part_of_two_over_pi(&mut self) -> Result<(), Cause> {
        let values = map2(&self.f64s(0)?, &self.u32s(1)?, part);
        self.put_f64(&values)
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::FRAC_2_PI;

    use super::*;

    #[test]
    fn parts_of_a_small_angle_add_up_to_two_over_pi() {
        let parts: Vec<f64> = (0..3).map(|number| part(1.0, number)).collect();
        assert!(parts[0] <= FRAC_2_PI && parts[0] + parts[1] == FRAC_2_PI, "{parts:?}");
        assert!(
            parts[1] < parts[0] * 2.0_f64.powi(-52) && parts[2] < parts[1] * 2.0_f64.powi(-52),
            "{parts:?}"
        );
    }

    #[test]
    fn a_large_angle_loses_whole_turns_and_a_huge_one_is_scaled() {
        // 1 << 100: its first part begins 46 bits later.
        let angle = 2.0_f64.powi(100);
        let shift = 1023 + 100 - 1077;
        assert_eq!(part(angle, 0), ldexp(bits(shift) as f64, -53 - shift as i32));
        assert_eq!(part(2.0_f64.powi(1000), 0), ldexp(bits(946) as f64, 128 - 53 - 946));
        assert_eq!(part(f64::MAX, 31), 0.0);
    }
}
