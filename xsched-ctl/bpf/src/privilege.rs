//! What tracing needs of the process that does it: capabilities.

use std::fs;

use crate::namespace;

/// A capability: its name, its bit, what it is for.
pub struct Capability {
    /// As capabilities(7) calls it.
    pub name: &'static str,
    bit: u32,
    /// What it is needed for.
    pub purpose: &'static str,
}

/// `CAP_SYS_ADMIN`, which implies the first two.
const SYS_ADMIN: u32 = 21;

/// Capabilities without which tracing cannot start.
pub const NEEDED: [Capability; 3] = [
    Capability { name: "CAP_BPF", bit: 39, purpose: "load BPF programs" },
    Capability { name: "CAP_PERFMON", bit: 38, purpose: "probe functions and follow mappings" },
    Capability { name: "CAP_SYS_PTRACE", bit: 19, purpose: "read other users' mappings" },
];

impl Capability {
    /// Whether `effective` (a mask as in `/proc/self/status`) has it.
    pub fn is_in(&self, effective: u64) -> bool {
        let implied = matches!(self.name, "CAP_BPF" | "CAP_PERFMON") && effective & 1 << SYS_ADMIN != 0;
        implied || effective & 1 << self.bit != 0
    }
}

/// Wanted for probes that are perf events by Linux 6.16 and the stable kernels since 6.12.39, 6.6.99, 6.1.146 and 5.15.189
/// (CVE-2025-38466).
const FOR_PERF_EVENTS: Capability =
    Capability { name: "CAP_SYS_ADMIN", bit: SYS_ADMIN, purpose: "probe functions by perf events" };

/// The effective capabilities of this process, as far as the kernel takes them for such: not those of a user namespace.
pub fn effective() -> u64 {
    if !namespace::user_is_initial() {
        return 0;
    }
    fs::read_to_string("/proc/self/status").ok().and_then(|status| parse(&status)).unwrap_or(0)
}

fn parse(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Names of the needed capabilities that this process lacks.
pub fn missing() -> Vec<&'static str> {
    lacking(&NEEDED.each_ref())
}

fn lacking(capabilities: &[&Capability]) -> Vec<&'static str> {
    let effective = effective();
    let lacking = capabilities.iter().filter(|capability| !capability.is_in(effective));
    lacking.map(|capability| capability.name).collect()
}

/// What to do where the kernel has refused something that takes privileges.
pub fn advice() -> String {
    let [bpf, perfmon, ptrace] = &NEEDED;
    let missing = lacking(&[bpf, perfmon, ptrace, &FOR_PERF_EVENTS]);
    if !namespace::user_is_initial() {
        OUTSIDE.to_owned()
    } else if missing.is_empty() {
        "no capability is missing: a container's settings (seccomp) or the kernel's lockdown may be in the way".to_owned()
    } else {
        format!("run it as root (`sudo xsched-ctl …`), or grant what is missing: {}", missing.join(", "))
    }
}

/// What to do in a user namespace.
pub const OUTSIDE: &str = "run it as root outside this user namespace (a rootless container has one), whose capabilities do not count";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_found_in_a_status_file() {
        assert_eq!(
            parse("Name:\tcat\nCapPrm:\t0\nCapEff:\t000001ffffffffff\nCapBnd:\t1\n"),
            Some(0x1ff_ffff_ffff)
        );
        assert_eq!(parse("Name:\tcat\n"), None);
    }

    #[test]
    fn sys_admin_implies_what_was_split_off_from_it() {
        let sys_admin = 1 << SYS_ADMIN;
        assert!(NEEDED[0].is_in(sys_admin) && NEEDED[1].is_in(sys_admin) && !NEEDED[2].is_in(sys_admin));
        assert!(NEEDED.iter().all(|capability| !capability.is_in(0)));
        assert!(NEEDED.iter().all(|capability| capability.is_in(1 << capability.bit)));
    }
}
