//! Durations by group, with exact percentiles.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// Durations by group number.
#[derive(Debug, Default)]
pub(crate) struct Groups(HashMap<u32, Members, RandomState>);

#[derive(Debug, Default)]
struct Members {
    durations_ns: Vec<u64>,
    launches: u64,
}

/// A line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) count: u64,
    /// How many of the calls are launches.
    pub(crate) launches: u64,
    pub(crate) total_ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
}

impl Groups {
    /// Adds one duration.
    pub(crate) fn add(&mut self, group: u32, duration_ns: u64, is_launch: bool) {
        let members = self.0.entry(group).or_default();
        members.durations_ns.push(duration_ns);
        members.launches += u64::from(is_launch);
    }

    /// The groups, with the longest total first.
    pub(crate) fn finish(self, name: impl Fn(u32) -> String) -> Vec<Group> {
        let mut groups: Vec<_> = self
            .0
            .into_iter()
            .map(|(group, mut members)| {
                let durations_ns = &mut members.durations_ns;
                durations_ns.sort_unstable();
                Group {
                    name: name(group),
                    count: durations_ns.len() as u64,
                    launches: members.launches,
                    total_ns: durations_ns.iter().fold(0, |sum, ns| sum.saturating_add(*ns)),
                    p50_ns: percentile(durations_ns, 50),
                    p99_ns: percentile(durations_ns, 99),
                    max_ns: durations_ns.last().copied().unwrap_or(0),
                }
            })
            .collect();
        groups.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
        groups
    }
}

/// The nearest-rank percentile: the least value that at least `percent` of the values do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_summed_and_sorted() {
        let mut groups = Groups::default();
        for ns in 1..=100 {
            groups.add(1, ns, ns % 2 == 0);
        }
        groups.add(2, 7_000, false);
        let groups = groups.finish(|group| group.to_string());
        let first = Group {
            name: "2".into(),
            count: 1,
            launches: 0,
            total_ns: 7_000,
            p50_ns: 7_000,
            p99_ns: 7_000,
            max_ns: 7_000,
        };
        let second = Group {
            name: "1".into(),
            count: 100,
            launches: 50,
            total_ns: 5_050,
            p50_ns: 50,
            p99_ns: 99,
            max_ns: 100,
        };
        assert_eq!(groups, [first, second]);
    }
}
