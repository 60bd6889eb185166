//! Counts of calls by runtime, and which calls a slice is about.

use std::fmt;

use xsched_protocol::probe::{Category, Runtime};

/// Numbers of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls([u64; Runtime::ALL.len()]);

impl Calls {
    /// Counts a call.
    pub const fn add(&mut self, runtime: Runtime) {
        self.0[runtime as usize] += 1;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// `12 HIP calls`, `12 CUDA calls`, `12 HIP and CUDA calls`, `0 calls`.
impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Runtime::ALL
            .into_iter()
            .filter(|runtime| self.0[*runtime as usize] > 0)
            .map(Runtime::name)
            .collect();
        let words = if names.is_empty() { String::new() } else { format!("{} ", names.join(" and ")) };
        let total = self.total();
        write!(f, "{total} {words}{}", if total == 1 { "call" } else { "calls" })
    }
}

/// The runtime of the call that a slice of this category shows, and whether it is a launch. None for other slices.
pub fn call_of(category: &str) -> Option<(Runtime, bool)> {
    let (prefix, kind) = category.split_once('.')?;
    let runtime = Runtime::ALL.into_iter().find(|runtime| runtime.name().eq_ignore_ascii_case(prefix))?;
    Some((runtime, kind == Category::Launch.name()))
}

#[cfg(test)]
mod tests {
    use xsched_protocol::probe::PROBES;

    use super::*;

    #[test]
    fn calls_are_counted_by_runtime() {
        let mut calls = Calls::default();
        assert_eq!(calls.to_string(), "0 calls");
        calls.add(Runtime::Cuda);
        assert_eq!(calls.to_string(), "1 CUDA call");
        calls.add(Runtime::Hip);
        assert_eq!((calls.to_string().as_str(), calls.total()), ("2 HIP and CUDA calls", 2));
    }

    #[test]
    fn every_category_says_its_runtime() {
        for probe in PROBES {
            let is_launch = probe.category == Category::Launch;
            assert_eq!(call_of(probe.category_name()), Some((probe.runtime, is_launch)), "{}", probe.name);
        }
        assert_eq!(call_of("driver.kfd"), None);
        assert_eq!(call_of("loss"), None);
    }
}
