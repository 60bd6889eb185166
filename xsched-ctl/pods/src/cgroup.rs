//! The container in the path of a cgroup, as kubelet and container runtimes write it.
//!
//! | driver | path |
//! | --- | --- |
//! | systemd | `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope` |
//! | cgroupfs | `/kubepods/burstable/podUID/ID` |
//! | cgroupfs, in a service | `/system.slice/containerd.service/kubepods-burstable-podUID.slice:cri-containerd:ID` |
//!
//! CRI-O writes `crio-ID.scope`. Under systemd the UID has underscores in place of dashes. A container may make cgroups below its
//! own, with any name, and so may users below theirs. So only the first container on a path that begins at one of
//! [`ROOTS`] counts: only root can make those.

/// The cgroups below which kubelet puts pods.
const ROOTS: [&str; 5] = [
    "/kubepods.slice/",
    "/kubepods/",
    "/kubelet.slice/kubelet-kubepods.slice/",
    "/kubelet/kubepods/",
    "/system.slice/containerd.service/kubepods",
];

/// What container runtimes put before the id, under systemd.
const RUNTIMES: [&str; 3] = ["cri-containerd-", "crio-", "docker-"];

/// Length of a container's id in hexadecimal digits.
const ID_LEN: usize = 64;

/// A container, as its runtime names it: 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(String);

impl ContainerId {
    /// The container of a process, by the text of its `/proc/PID/cgroup`, in cgroups of version 2 or 1.
    pub fn of_process(cgroups: &str) -> Option<Self> {
        // Each line is NUMBER:CONTROLLERS:PATH, and a path may have colons.
        cgroups.lines().find_map(|line| Self::of_path(line.splitn(3, ':').nth(2)?))
    }

    fn of_path(path: &str) -> Option<Self> {
        let below = ROOTS.iter().find_map(|root| path.strip_prefix(root))?;
        let mut names = below.split(['/', ':']).skip_while(|name| !is_pod(name)).skip(1);
        let id = names.find_map(|name| {
            let name = name.strip_suffix(".scope").unwrap_or(name);
            let id = RUNTIMES.iter().find_map(|runtime| name.strip_prefix(runtime)).unwrap_or(name);
            is_id(id).then_some(id)
        })?;
        Some(Self(id.to_owned()))
    }

    /// From a runtime's answer.
    pub(crate) fn new(id: String) -> Option<Self> {
        is_id(&id).then_some(Self(id))
    }
}

fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a name ends with `pod` and the pod's UID: of the API server, or of a static pod, which is a hash.
fn is_pod(name: &str) -> bool {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let Some((before, uid)) = name.rsplit_once("pod") else { return false };
    let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_uid =
        digits == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'));
    is_uid && (before.is_empty() || before.ends_with('-'))
}

impl std::fmt::Display for ContainerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3d2f0a1b4c5e6f708192a3b4c5d6e7f80912a3b4c5d6e7f8091a2b3c4d5e6f70";
    const OTHER: &str = "ffff0a1b4c5e6f708192a3b4c5d6e7f80912a3b4c5d6e7f8091a2b3c4d5e6f70";
    const UID: &str = "0b3c1f6e-92a4-4a1e-8d7c-3b5f6a7e8c90";

    #[test]
    fn containers_of_all_drivers_and_runtimes_are_found() {
        let systemd = UID.replace('-', "_");
        for path in [
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{systemd}.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{systemd}.slice/crio-{ID}.scope"),
            format!("/kubepods.slice/kubepods-pod{systemd}.slice/crio-{ID}.scope/container"),
            format!("/kubepods/besteffort/pod{UID}/{ID}"),
            format!("/kubepods/pod{UID}/{ID}/nested"),
            format!(
                "/system.slice/containerd.service/kubepods-burstable-pod{systemd}.slice:cri-containerd:{ID}"
            ),
            format!(
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{systemd}.slice/cri-containerd-{ID}.scope"
            ),
            // A static pod.
            format!("/kubepods/burstable/pod{}/{ID}", UID.replace('-', "")),
            // The first container counts, whatever it makes below.
            format!("/kubepods/pod{UID}/{ID}/kubepods/pod{UID}/{OTHER}"),
        ] {
            let found = ContainerId::of_process(&format!("0::{path}\n"));
            assert_eq!(found.map(|id| id.0).as_deref(), Some(ID), "{path}");
            let old = format!("12:pids:{path}\n11:devices:{path}\n1:name=systemd:{path}\n0::/\n");
            assert!(ContainerId::of_process(&old).is_some(), "{path}");
        }
    }

    #[test]
    fn paths_that_others_can_make_name_no_container() {
        for path in [
            "/".to_owned(),
            "/system.slice/sshd.service".to_owned(),
            format!("/user.slice/user-1000.slice/user@1000.service/kubepods/pod{UID}/{ID}"),
            format!("/kubepods/{ID}"),
            format!("/kubepods/pod{UID}"),
            format!("/kubepods/notapod{UID}x/{ID}"),
            format!("/kubepods/tripod{UID}/{ID}"),
            format!("/kubepods/pod{UID}/{}", &ID[1..]),
            format!("/kubepodsx/pod{UID}/{ID}"),
        ] {
            assert_eq!(ContainerId::of_process(&format!("0::{path}\n")), None, "{path}");
        }
        assert_eq!(ContainerId::of_process("nonsense"), None);
    }
}
