//! The capabilities that tracing needs.

use std::error::Error;
use std::{fs, io};

use xsched_terminal::kind;

use crate::namespace;

/// A capability: its name, its bit and its purpose.
pub struct Capability {
    /// As capabilities(7) calls it.
    pub name: &'static str,
    bit: u32,
    /// Why it is needed.
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

/// Required for probes that are perf events by Linux 6.16 and the stable kernels since 6.12.39, 6.6.99, 6.1.146 and
/// 5.15.189 ([CVE-2025-38466](https://nvd.nist.gov/vuln/detail/CVE-2025-38466)).
const FOR_PERF_EVENTS: Capability =
    Capability { name: "CAP_SYS_ADMIN", bit: SYS_ADMIN, purpose: "probe functions by perf events" };

/// The effective capabilities of this process, as far as the kernel accepts them: not those in a user namespace.
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

/// A hint for an error of the kernel's side.
pub fn hint(error: &(dyn Error + 'static)) -> String {
    match kind(error) {
        Some(io::ErrorKind::PermissionDenied) => advice(),
        Some(io::ErrorKind::Unsupported) => {
            "this kernel lacks that, or a container's settings (seccomp) hide it".to_owned()
        }
        _ => "`xsched-ctl doctor` says what this kernel lacks".to_owned(),
    }
}

/// A hint for when the kernel has refused something that needs privileges.
pub fn advice() -> String {
    let [bpf, perfmon, ptrace] = &NEEDED;
    let missing = lacking(&[bpf, perfmon, ptrace, &FOR_PERF_EVENTS]);
    if !namespace::user_is_initial() {
        OUTSIDE.to_owned()
    } else if missing.is_empty() {
        "no capability is missing: a container's settings (seccomp) or the kernel's lockdown may forbid it"
            .to_owned()
    } else {
        format!(
            "run it as root (`sudo xsched-ctl …`), or grant the missing capabilities: {}",
            missing.join(", ")
        )
    }
}

/// The hint in a user namespace.
pub const OUTSIDE: &str = "run it as root outside of this user namespace (such as that of a rootless container), in which capabilities have no effect";

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
    fn sys_admin_implies_the_capabilities_split_off_from_it() {
        let sys_admin = 1 << SYS_ADMIN;
        assert!(NEEDED[0].is_in(sys_admin) && NEEDED[1].is_in(sys_admin) && !NEEDED[2].is_in(sys_admin));
        assert!(NEEDED.iter().all(|capability| !capability.is_in(0)));
        assert!(NEEDED.iter().all(|capability| capability.is_in(1 << capability.bit)));
    }
}
