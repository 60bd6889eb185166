//! The order in which the simulated device ran the kernels of each stream.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};

/// Process, device and number.
type Stream<'a> = (&'a str, &'a str, &'a str);

/// For each stream the names of its kernels. Streams have no names that two runs share, so they are sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Order(Vec<Vec<String>>);

impl Order {
    /// Reads an execution log: `start end submitted pid device queue stream kernel`. There is none if no kernel ran.
    pub(super) fn read(log: &Path) -> Result<Self> {
        if !log.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(log).with_context(|| format!("failed to read {}", log.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no execution log", log.display()))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut streams: BTreeMap<Stream<'_>, Vec<(u64, &str)>> = BTreeMap::new();
        for line in text.lines() {
            let mut fields = line.splitn(8, ' ');
            let start: u64 = fields.next()?.parse().ok()?;
            let (pid, device) = (fields.nth(2)?, fields.next()?);
            let (stream, kernel) = (fields.nth(1)?, fields.next()?);
            streams.entry((pid, device, stream)).or_default().push((start, kernel));
        }
        let mut sorted: Vec<Vec<String>> = streams.into_values().map(by_time).collect();
        sorted.sort();
        Some(Self(sorted))
    }

    /// How many kernels ran.
    pub(super) fn kernels(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Where another run differs.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let differing = self.0.iter().zip(&other.0).find(|(mine, others)| mine != others);
        let Some((mine, others)) = differing else {
            return Some(format!("{} streams with kernels instead of {}", other.0.len(), self.0.len()));
        };
        let at = mine.iter().zip(others).take_while(|(a, b)| a == b).count();
        let name = |kernels: &[String]| kernels.get(at).map_or("nothing", String::as_str).to_owned();
        Some(format!("kernel {at} of a stream is {} instead of {}", name(others), name(mine)))
    }
}

/// Stable: the log has equal times in their order.
fn by_time(mut kernels: Vec<(u64, &str)>) -> Vec<String> {
    kernels.sort_by_key(|(start, _)| *start);
    kernels.into_iter().map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NATIVE: &str = "20 25 1 7 0 0 1 b\n10 15 1 7 0 0 1 a\n10 15 1 7 0 1 2 only one\n";

    #[test]
    fn streams_are_compared_by_what_they_ran_whatever_their_numbers_and_times() {
        let native = Order::parse(NATIVE).unwrap();
        let other = Order::parse("5 6 1 9 0 4 8 only one\n50 55 1 9 0 0 3 a\n60 61 1 9 0 0 3 b\n").unwrap();
        assert_eq!((native.kernels(), native.difference(&other)), (3, None));
    }

    #[test]
    fn kernels_in_another_order_and_missing_ones_are_named() {
        let native = Order::parse(NATIVE).unwrap();
        let swapped = NATIVE.replace("20 25", "5 9");
        let difference = native.difference(&Order::parse(&swapped).unwrap());
        assert_eq!(difference.as_deref(), Some("kernel 0 of a stream is b instead of a"));
        let shorter = Order::parse(&NATIVE[18..]).unwrap();
        let difference = native.difference(&shorter);
        assert_eq!(difference.as_deref(), Some("kernel 1 of a stream is nothing instead of b"));
    }
}
