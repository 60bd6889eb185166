//! Debian packages: whether apt knows them, and one call that fetches all missing ones.

use std::process::Command;

use anyhow::{Result, ensure};

use super::machine::Machine;

/// Sysroot of Debian's own Rust, whose `rust-web-src` package carries the sources of `core`.
pub(crate) const SYSROOT: &str = "/usr";
pub(crate) const RUSTC: &str = "/usr/bin/rustc";

/// Minor version of Debian's Rust 1 that compiles the BPF programs; without its security archive Debian 12 has 1.85.
const RUST_MINOR_MIN: u32 = 95;

/// Waits for another apt instead of failing at once.
const WAIT_FOR_LOCK: &str = "DPkg::Lock::Timeout=300";

/// Fetches packages, after refreshing the lists: a fresh machine has none. Packages that apt does not know are left out, so that the
/// others are still installed; their requirements stay unmet and are reported.
pub(crate) fn install(machine: &dyn Machine, packages: &[&str]) -> Result<()> {
    // Old lists are better than none: without network the packages may still be in the cache.
    if let Err(error) = machine.run(&mut apt_get(machine, &["update", "-q"])?) {
        eprintln!("going on with the package lists as they are: {error}");
    }
    let known = known(machine, packages);
    ensure!(!known.is_empty(), "apt knows none of {}", packages.join(", "));
    let mut arguments = vec!["install", "-y", "-q", "--no-install-recommends", "-o", WAIT_FOR_LOCK];
    arguments.extend(known);
    machine.run(&mut apt_get(machine, &arguments)?)
}

/// Whether the Rust compiler in [`SYSROOT`] is recent enough for the BPF programs.
pub(crate) fn has_recent_rustc(machine: &dyn Machine) -> bool {
    let answer = machine.output(RUSTC, &["--version"]);
    answer.as_deref().and_then(rust_minor).is_some_and(|minor| minor >= RUST_MINOR_MIN)
}

/// Reads `rustc 1.96.0 (...)`.
fn rust_minor(answer: &str) -> Option<u32> {
    answer.strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}

/// Why packages cannot be installed here at all, if so.
pub(crate) fn obstacle(machine: &dyn Machine) -> Option<String> {
    if machine.output("apt-get", &["--version"]).is_none() {
        return Some("this machine has no apt-get".into());
    }
    let privileged = machine.privileged("apt-get").is_some();
    (!privileged).then(|| "installing packages needs root".into())
}

fn apt_get(machine: &dyn Machine, arguments: &[&str]) -> Result<Command> {
    // `env`, because sudo drops variables.
    let Some(mut command) = machine.privileged("env") else {
        anyhow::bail!("installing packages needs root");
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(arguments);
    Ok(command)
}

/// The packages that some archive of this machine offers, in the order given.
fn known<'p>(machine: &dyn Machine, packages: &[&'p str]) -> Vec<&'p str> {
    let policy = machine.output("apt-cache", &[&["policy"], packages].concat()).unwrap_or_default();
    let candidates = candidates(&policy);
    packages.iter().copied().filter(|p| candidates.contains(p)).collect()
}

/// Names of the packages in the output of `apt-cache policy` that have a candidate version.
fn candidates(policy: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut current = None;
    for line in policy.lines() {
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with(' ')) {
            current = Some(name);
        } else if let Some(version) = line.trim().strip_prefix("Candidate: ")
            && version != "(none)"
        {
            found.extend(current);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minor_version_of_a_compiler_is_read() {
        assert_eq!(rust_minor("rustc 1.96.0 (abc 2026-05-01) (built from a source tarball)\n"), Some(96));
        assert_eq!(rust_minor("gcc 12"), None);
    }

    #[test]
    fn a_package_without_a_candidate_is_not_known() {
        let policy = "clang-19:\n  Installed: (none)\n  Candidate: 1:19.1.7\n  Version table:\n     1:19.1.7 500\n\
                      rustc-web:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n";
        assert_eq!(candidates(policy), ["clang-19"]);
    }
}
