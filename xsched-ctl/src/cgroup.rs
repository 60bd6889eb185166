//! Whether a cgroup exists, to warn of a mistyped name.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether the unified hierarchy has no such cgroup, given as a path that begins with a slash. False where that cannot
/// be seen, as in most containers.
pub(crate) fn is_missing(cgroup: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    whole_hierarchy(&mounts).is_some_and(|root| is_missing_below(&root, cgroup))
}

fn is_missing_below(root: &Path, cgroup: &str) -> bool {
    root.is_dir() && !root.join(cgroup.trim_start_matches('/')).is_dir()
}

/// The mount point of the whole unified hierarchy. Paths with characters that the kernel escapes are skipped.
fn whole_hierarchy(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        let is_it = kind.starts_with("cgroup2 ") && root == "/" && !place.contains('\\');
        is_it.then(|| place.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_where_it_is_mounted_whole() {
        let proc = "22 1 0:20 / /proc rw,nosuid shared:5 - proc proc rw\n";
        let old = "30 25 0:26 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n";
        let part = "31 25 0:27 /docker/7 /mnt/part rw - cgroup2 cgroup rw\n";
        let odd = "32 25 0:27 / /mnt/a\\040b rw - cgroup2 cgroup rw\n";
        let whole =
            "33 25 0:27 / /sys/fs/cgroup/unified rw,relatime shared:10 master:2 - cgroup2 cgroup2 rw\n";
        assert_eq!(whole_hierarchy(&[proc, old, part, odd].concat()), None);
        let found = whole_hierarchy(&[proc, old, part, odd, whole].concat());
        assert_eq!(found, Some("/sys/fs/cgroup/unified".into()));
    }

    #[test]
    fn a_cgroup_is_a_folder_there() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a.slice/b")).unwrap();
        fs::write(root.path().join("a.slice/cpu.stat"), "").unwrap();
        let is_missing = |cgroup| is_missing_below(root.path(), cgroup);
        assert!(!is_missing("/") && !is_missing("/a.slice") && !is_missing("/a.slice/b"));
        assert!(is_missing("/a") && is_missing("/a.slice/c") && is_missing("/a.slice/cpu.stat"));
        assert!(!is_missing_below(&root.path().join("none"), "/a"), "that is unknown");
    }
}
