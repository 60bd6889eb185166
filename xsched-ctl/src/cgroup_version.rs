//! Whether processes are in cgroups of version 2. Rules, ceilings and orders know only these: of version 1 a process has one for
//! each controller.

use std::fs;

/// How to have them.
pub(crate) const REMEDY: &str =
    "`systemd.unified_cgroup_hierarchy=1` on the kernel's command line puts processes into version 2";

/// What `/proc/PID/cgroup` says of processes here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cgroups {
    /// They are in cgroups of version 2.
    Unified,
    /// There may be some, but whoever has started this process uses version 1.
    Mixed,
    /// There are none.
    Old,
}

impl Cgroups {
    /// As of this process.
    pub(crate) fn here() -> Self {
        // What cannot be read is no reason to warn.
        fs::read_to_string("/proc/self/cgroup").map_or(Self::Unified, |cgroups| Self::of(&cgroups))
    }

    fn of(cgroups: &str) -> Self {
        let is_below_root = |line: &str| line.splitn(3, ':').nth(2).is_some_and(|path| path != "/");
        match unified(cgroups) {
            "" => Self::Old,
            "/" if cgroups.lines().any(is_below_root) => Self::Mixed,
            _ => Self::Unified,
        }
    }

    /// What is wrong with it, for people.
    pub(crate) fn trouble(self) -> Option<&'static str> {
        match self {
            Self::Unified => None,
            Self::Mixed => Some(
                "`cgroup` may match no process: this process is in a cgroup of version 1, and in none of version 2",
            ),
            Self::Old => Some("`cgroup` matches no process: there are no cgroups of version 2 here"),
        }
    }

    /// What to say of rules that ask for cgroups, by the lines that these begin at.
    pub(crate) fn warning(self, lines: &[usize]) -> Option<String> {
        let noun = match lines.len() {
            0 => return None,
            1 => "line",
            _ => "lines",
        };
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        let lines = lines.join(", ");
        self.trouble().map(|trouble| format!("{noun} {lines}: {trouble}; {REMEDY}"))
    }
}

/// The path in the unified hierarchy, that of version 2, from `/proc/PID/cgroup`; empty if there is none.
pub(crate) fn unified(cgroups: &str) -> &str {
    cgroups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_hierarchy_is_told_from_others() {
        assert_eq!(unified("12:cpu:/a\n0::/user.slice/x\n"), "/user.slice/x");
        assert_eq!(unified("12:cpu:/a\n"), "");
    }

    #[test]
    fn what_no_rule_can_fit_is_known() {
        let systemd = "2:cpu,cpuacct:/\n1:name=systemd:/system.slice/x.service\n";
        for (cgroups, expected) in [
            ("0::/system.slice/x.service\n".to_owned(), Cgroups::Unified),
            // In a namespace of its own.
            ("0::/\n".to_owned(), Cgroups::Unified),
            ("2:cpu:/\n1:name=systemd:/\n0::/\n".to_owned(), Cgroups::Unified),
            (format!("{systemd}0::/system.slice/x.service\n"), Cgroups::Unified),
            (format!("{systemd}0::/\n"), Cgroups::Mixed),
            (systemd.to_owned(), Cgroups::Old),
        ] {
            assert_eq!(Cgroups::of(&cgroups), expected, "{cgroups}");
        }
    }
}
