//! What the kernel says about a process that the controller schedules.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use xsched_pods::{Container, ContainerId};
use xsched_symbols::process_folder;
use xsched_terminal::one_line;

use super::users::Users;
use crate::cgroup_version::unified;

/// Longest file of `/proc` that is read; the path of a cgroup has at most 4096 bytes.
const FILE_LEN_MAX: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// Its id, in the controller's pid namespace; 0 if it has none there.
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    /// The names of this user, if it has any. The first is the one to show.
    pub(crate) users: Vec<String>,
    /// The file that it executes; empty if that may not be read.
    pub(crate) executable: PathBuf,
    /// Its name, with escapes for invisible characters that the process may have written into it.
    pub(crate) command: String,
    /// Its cgroup of the unified hierarchy; empty if there is none.
    pub(crate) cgroup: String,
    /// The container of a pod that its cgroup names.
    pub(crate) container: Option<ContainerId>,
    /// What the container runtime says of that container, once it has said so.
    pub(crate) pod: Option<Arc<Container>>,
    /// Its CPU nice value, -20 to 19; 0 if it is not known.
    pub(crate) nice: i8,
}

/// What may change while a process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) cgroup: String,
    pub(crate) container: Option<ContainerId>,
    pub(crate) nice: i8,
}

impl Subject {
    /// Reads what there is about a process. The caller must make sure that the id was not reused meanwhile.
    pub(crate) fn read(pid: u32, uid: u32, users: &Users) -> Self {
        let (cgroup, container) = cgroup_of(pid).unwrap_or_default();
        let file = |name: &str| read_text(&format!("/proc/{pid}/{name}")).unwrap_or_default();
        Self {
            pid,
            uid,
            users: users.names(uid),
            executable: fs::read_link(process_folder(pid).join("exe")).map(without_mark).unwrap_or_default(),
            command: one_line(file("comm").trim_end()).into_owned(),
            cgroup,
            container,
            pod: None,
            nice: nice_of(&file("stat")),
        }
    }

    /// Its cgroup and all that contain it, innermost first.
    pub(crate) fn cgroups(&self) -> impl Iterator<Item = &str> {
        let own = Some(self.cgroup.as_str()).filter(|cgroup| cgroup.starts_with('/'));
        std::iter::successors(own, |cgroup| outer(cgroup))
    }
}

/// Reads what may have changed of a process; `None` if it cannot be read. The caller must make sure that the id was not
/// reused meanwhile.
pub(super) fn look_at(pid: u32) -> Option<Seen> {
    let stat = read_text(&format!("/proc/{pid}/stat")).ok()?;
    let (cgroup, container) = cgroup_of(pid)?;
    Some(Seen { cgroup, container, nice: nice_of(&stat) })
}

/// The nice value in `/proc/PID/stat`: the 19th field
/// ([proc_pid_stat(5)](https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html)). The second one is a name that may have spaces.
fn nice_of(stat: &str) -> i8 {
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind_name.split_whitespace().nth(16).and_then(|nice| nice.parse().ok()).unwrap_or(0)
}

/// The cgroup of a process in the unified hierarchy (empty if there is none), and the container that its cgroup of either version
/// names. `None` if it cannot be read. The caller must make sure that the id was not reused meanwhile.
fn cgroup_of(pid: u32) -> Option<(String, Option<ContainerId>)> {
    let cgroups = read_text(&format!("/proc/{pid}/cgroup")).ok()?;
    Some((unified(&cgroups).to_owned(), ContainerId::of_process(&cgroups)))
}

/// The path of an executable without the ` (deleted)` that the kernel appends when the file is gone
/// ([proc_pid_exe(5)](https://man7.org/linux/man-pages/man5/proc_pid_exe.5.html)): a program whose package was upgraded
/// is still the same program.
fn without_mark(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(path) => OsStr::from_bytes(path).into(),
        None => path,
    }
}

/// The cgroup that contains a cgroup.
fn outer(cgroup: &str) -> Option<&str> {
    match cgroup.rsplit_once('/')?.0 {
        "" if cgroup.len() > 1 => Some("/"),
        "" => None,
        outer => Some(outer),
    }
}

fn read_text(path: &str) -> io::Result<String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(FILE_LEN_MAX as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known() {
        let uid = rustix::process::geteuid().as_raw();
        let own = Subject::read(std::process::id(), uid, &Users::default());
        assert_eq!(own.executable, std::env::current_exe().unwrap());
        assert!(!own.command.is_empty());
    }

    #[test]
    fn a_nice_value_is_found_behind_any_name() {
        let stat = "12 (a) b) S 1 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 25 -7 1 0 99";
        assert_eq!([stat, "12 (a", ""].map(nice_of), [-7, 0, 0]);
        let own = rustix::process::getpriority_process(None).unwrap();
        assert_eq!(look_at(std::process::id()).map(|seen| i32::from(seen.nice)), Some(own));
    }

    #[test]
    fn a_program_whose_file_was_replaced_keeps_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("online service");
        fs::copy("/bin/sleep", &path).unwrap();
        let mut child = std::process::Command::new(&path).arg("60").spawn().unwrap();
        fs::remove_file(&path).unwrap();
        let executable = Subject::read(child.id(), 0, &Users::default()).executable;
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(executable, path);
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_attributes() {
        let nobody = Subject::read(u32::MAX, 3, &Users::default());
        assert_eq!((nobody.executable.as_os_str().len(), nobody.command.as_str()), (0, ""));
    }

    #[test]
    fn a_cgroup_lies_in_all_that_contain_it() {
        let of = |cgroup: &str| {
            let subject = Subject { cgroup: cgroup.to_owned(), ..Subject::read(0, 0, &Users::default()) };
            subject.cgroups().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            of("/a.slice/b.service/c"),
            ["/a.slice/b.service/c", "/a.slice/b.service", "/a.slice", "/"]
        );
        assert_eq!(of("/"), ["/"]);
        assert_eq!(of(""), [""; 0]);
    }
}
