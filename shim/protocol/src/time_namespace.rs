//! Time namespaces: a process's `CLOCK_BOOTTIME` may be ahead of the machine's, or behind it
//! (<https://man7.org/linux/man-pages/man7/time_namespaces.7.html>). BPF programs read the machine's.

/// How far the boot time in a time namespace is ahead of the machine's, by the text of `/proc/PID/timens_offsets`. 0 if the text
/// does not say, as where the kernel has no time namespaces.
pub fn boottime_ahead_ns(offsets: &str) -> i64 {
    let ahead_ns = |line: &str| {
        let mut words = line.strip_prefix("boottime")?.split_ascii_whitespace();
        let mut number = || words.next()?.parse::<i64>().ok();
        number()?.checked_mul(1_000_000_000)?.checked_add(number()?)
    };
    offsets.lines().find_map(ahead_ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::boottime_ahead_ns;

    #[test]
    fn the_offset_may_be_negative_and_may_be_missing() {
        let of = |line: &str| boottime_ahead_ns(line);
        assert_eq!(
            of("monotonic           7         0\nboottime        86400         5\n"),
            86_400_000_000_005
        );
        // The nanoseconds are never negative.
        assert_eq!(of("boottime -2 999999999\n"), -1_000_000_001);
        for text in [
            "",
            "monotonic 7 0\n",
            "boottime\n",
            "boottime 1\n",
            "boottime x 1\n",
            "boottime 99999999999999 0",
        ] {
            assert_eq!(of(text), 0, "{text}");
        }
    }
}
