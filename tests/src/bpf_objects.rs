//! BPF objects that a process leaves in the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// Ids of BPF objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfObjects {
    /// Programs.
    pub programs: BTreeSet<u32>,
    /// Maps.
    pub maps: BTreeSet<u32>,
    /// Links.
    pub links: BTreeSet<u32>,
}

impl BpfObjects {
    /// Those that a process holds open. Perf-event links have no id; their programs do.
    pub fn of_process(pid: u32) -> Self {
        let mut objects = Self::default();
        let infos = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().filter_map(Result::ok);
        for text in infos.filter_map(|entry| fs::read_to_string(entry.path()).ok()) {
            let id = |key: &str| -> Option<u32> {
                text.lines()
                    .find_map(|line| line.strip_prefix(key))?
                    .trim_start_matches(':')
                    .trim()
                    .parse()
                    .ok()
            };
            match (id("link_id"), id("map_id"), id("prog_id")) {
                // A link's information includes its program.
                (Some(link), _, _) => objects.links.insert(link),
                (None, Some(map), _) => objects.maps.insert(map),
                (None, None, Some(program)) => objects.programs.insert(program),
                (None, None, None) => false,
            };
        }
        objects
    }

    /// Those that the kernel still has.
    #[must_use]
    pub fn still_loaded(&self) -> Self {
        let loaded = Self {
            programs: aya::programs::loaded_programs()
                .filter_map(Result::ok)
                .map(|program| program.id())
                .collect(),
            maps: aya::maps::loaded_maps().filter_map(Result::ok).map(|map| map.id()).collect(),
            links: aya::programs::loaded_links().filter_map(Result::ok).map(|link| link.id()).collect(),
        };
        Self {
            programs: &self.programs & &loaded.programs,
            maps: &self.maps & &loaded.maps,
            links: &self.links & &loaded.links,
        }
    }

    /// Those that the kernel still has after a minute. It frees closed objects only once no CPU can be using them.
    #[must_use]
    pub fn left_behind(&self) -> Self {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let left = self.still_loaded();
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.maps.is_empty() && self.links.is_empty()
    }
}
