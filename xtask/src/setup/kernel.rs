//! The features of the running kernel, and the file systems through which they are used.

use anyhow::{Context as _, Result};

use super::machine::Machine;

/// First release with both BPF ring buffers (5.8) and cookies for uprobes (5.15).
const RELEASE_MIN: (u32, u32) = (5, 15);

/// What the kernel's list of functions has if both are there. Distributions backport features, and numbers do not tell.
const FUNCTIONS: [&str; 2] = [" bpf_ringbuf_reserve", " bpf_get_attach_cookie"];

/// Whether the kernel has the features. Without its list of functions, its release says so.
pub(crate) fn has_features(machine: &dyn Machine) -> bool {
    if let Some(functions) = machine.read("/proc/kallsyms").filter(|functions| !functions.is_empty()) {
        return FUNCTIONS.into_iter().all(|function| functions.contains(function));
    }
    let release = machine.read("/proc/sys/kernel/osrelease");
    release.as_deref().and_then(major_minor).is_some_and(|found| found >= RELEASE_MIN)
}

/// Whether a file system of this type is mounted there.
pub(crate) fn is_mounted(machine: &dyn Machine, place: &str, kind: &str) -> bool {
    let mounts = machine.read("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next() == Some(place) && fields.next() == Some(kind)
    })
}

/// Mounts it.
pub(crate) fn mount(machine: &dyn Machine, place: &str, kind: &str) -> Result<()> {
    let mut mount = machine.privileged("mount").context("mounting needs root")?;
    machine.run(mount.args(["-t", kind, kind, place]))
}

/// Reads `6.18.44-amd64`.
fn major_minor(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_compare_by_number() {
        assert!(major_minor("6.1.0-18-amd64\n") > Some(RELEASE_MIN));
        assert!(major_minor("5.4.0") < Some(RELEASE_MIN));
        assert_eq!(major_minor("5.15"), Some(RELEASE_MIN));
        assert_eq!(major_minor("unknown"), None);
    }
}
