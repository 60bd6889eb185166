//! Numbers in a form that people can read.

/// A duration with three digits: `1.23 ms`.
pub(super) fn duration(ns: u64) -> String {
    duration_f64(ns as f64)
}

/// Like [`duration`], for a fraction of a nanosecond or an average.
pub(super) fn duration_f64(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => return format!("{ns:.0} ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "us"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

/// A count with thin spaces between groups of three digits.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let shown = [0, 999, 1_000, 12_340, 999_499, 999_500, 123_456_789, 1_500_000_000].map(duration);
        assert_eq!(shown, ["0 ns", "999 ns", "1.00 us", "12.3 us", "999 us", "1.00 ms", "123 ms", "1.50 s"]);
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count),
            ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]
        );
    }
}
