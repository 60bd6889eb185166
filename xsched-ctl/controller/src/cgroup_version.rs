//! Whether processes are in cgroups of version 2. Rules, ceilings and commands know only these: under version 1 a
//! process has one cgroup for each controller.

use std::fs;

/// How to enable them.
pub const REMEDY: &str =
    "`systemd.unified_cgroup_hierarchy=1` on the kernel's command line puts processes into version 2";

/// What `/proc/PID/cgroup` says about processes here ([cgroups(7)](https://man7.org/linux/man-pages/man7/cgroups.7.html)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cgroups {
    /// They are in cgroups of version 2.
    Unified,
    /// Both versions are in use, and this process is in a cgroup of version 1.
    Mixed,
    /// There are none.
    Old,
}

impl Cgroups {
    /// As seen from this process.
    pub fn here() -> Self {
        // An unreadable file is no reason to warn.
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

    /// The problem as a message; none if there is none.
    pub fn trouble(self) -> Option<&'static str> {
        match self {
            Self::Unified => None,
            Self::Mixed => Some(
                "`cgroup` may match no process: this process is in a cgroup of version 1, and in none of version 2",
            ),
            Self::Old => Some("`cgroup` matches no process: there are no cgroups of version 2 here"),
        }
    }

    /// The warning for rules that ask for cgroups, given the lines at which they begin.
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
    fn machines_without_version_2_are_recognized() {
        let systemd = "2:cpu,cpuacct:/\n1:name=systemd:/system.slice/x.service\n";
        for (cgroups, expected) in [
            ("0::/system.slice/x.service\n".to_owned(), Cgroups::Unified),
            // In a cgroup namespace of its own.
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
