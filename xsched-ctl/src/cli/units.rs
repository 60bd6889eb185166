//! Sizes and durations on the command line.

use std::time::Duration;

use xsched_control_api::parameters::SHARE_MAX;

/// Bytes: a number, optionally with `K`, `M` or `G`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("`{unit}` is no unit; expected K, M or G, as in 64M")),
    };
    let size = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    size.ok_or_else(|| "expected a size such as 64M".to_owned())
}

/// Size of the ring buffer: a power of two, as the kernel requires.
pub(super) fn ring_size(text: &str) -> Result<u32, String> {
    match size(text) {
        Ok(size) if size.is_power_of_two() && (1 << 16..=1 << 30).contains(&size) => Ok(size as u32),
        _ => Err("expected a power of two from 64K to 1G, such as 8M".to_owned()),
    }
}

/// A size of at least a mebibyte; smaller ones make no sense for files.
pub(super) fn large_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        size if size >= 1 << 20 => Ok(size),
        _ => Err("expected at least 1M".to_owned()),
    }
}

/// `50us`, `5ms`, `1m 30s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) => Err("expected more than zero".to_owned()),
        Err(error) => Err(format!("{error}; expected a time such as 50us, 5ms or 10s")),
    }
}

/// `80`, or `80%`: a part of a device in percent.
pub(super) fn share(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    match number.parse() {
        Ok(share @ 1..=SHARE_MAX) => Ok(share),
        _ => Err(format!("expected percent of a device from 1 to {SHARE_MAX}, such as 80")),
    }
}

/// `/system.slice/app.service`, as the kernel writes it: without the final slash that shells append when they complete
/// folders.
pub(super) fn cgroup(text: &str) -> Result<String, String> {
    match text.trim_end_matches('/') {
        "" if !text.is_empty() => Ok("/".to_owned()),
        name if name.starts_with('/') => Ok(name.to_owned()),
        _ => {
            Err("expected a path that begins with a slash, such as `cat /proc/PID/cgroup` prints".to_owned())
        }
    }
}

/// `4711`.
pub(super) fn process_id(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected a number, such as `pgrep NAME` prints".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_sizes_are_powers_of_two_within_bounds() {
        assert_eq!(ring_size("64K"), Ok(1 << 16));
        assert_eq!(ring_size("8m"), Ok(1 << 23));
        assert_eq!(ring_size("1G"), Ok(1 << 30));
        for bad in ["", "M", "0", "3M", "32K", "2G", "8G", "-1", "1T", "99999999999999"] {
            assert!(ring_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("17"), Ok(17));
        assert_eq!(large_size("3M"), Ok(3 << 20));
        assert_eq!(large_size("2t"), Ok(2 << 40));
        assert!(large_size("1023K").is_err());
        for bad in ["", "M", "1.5M", "1MB", "-1M", "99999999999999999999", "99999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_process_is_named_by_its_number() {
        assert_eq!(process_id("4711"), Ok(4711));
        for bad in ["", "-1", "python3", "4294967296"] {
            assert!(process_id(bad).unwrap_err().contains("pgrep"), "{bad}");
        }
    }

    #[test]
    fn a_cgroup_is_named_as_the_kernel_does() {
        for (text, name) in
            [("/", "/"), ("//", "/"), ("/a.slice", "/a.slice"), ("/a.slice/b c/", "/a.slice/b c")]
        {
            assert_eq!(cgroup(text).as_deref(), Ok(name));
        }
        for bad in ["", "a.slice", "a.slice/"] {
            assert!(cgroup(bad).unwrap_err().contains("begins with a slash"), "{bad}");
        }
    }

    #[test]
    fn shares_are_percent() {
        for text in ["80", "80%", "80 %"] {
            assert_eq!(share(text), Ok(80), "{text}");
        }
        assert_eq!((share("1"), share("100%")), (Ok(1), Ok(100)));
        for bad in ["", "%", "0", "101", "-1", "0.8", "80%%", "256", "half"] {
            let refused = share(bad).unwrap_err();
            assert_eq!(refused, "expected percent of a device from 1 to 100, such as 80", "{bad}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        for bad in ["", "0s", "5", "-5ms", "5 parsecs"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
