//! Names that a report does not tell: of hosts and users, and paths below folders of users.

use std::env;
use std::fs;

use serde_json::Value;

use super::Report;
use crate::trouble::Trouble;

/// Folders with the same files on every machine: their paths say nothing about it.
const PUBLIC: [&str; 12] = [
    "/proc/",
    "/sys/",
    "/dev/",
    "/usr/lib",
    "/usr/local/cuda",
    "/usr/share/",
    "/usr/bin/",
    "/lib/",
    "/lib64/",
    "/opt/rocm",
    "/etc/xsched",
    "/run/xsched",
];

/// What stands for a path, a host and a user.
const PATH: &str = "<path>";
const HOST: &str = "<host>";
const USER: &str = "<user>";

/// Names that are replaced. Short ones and such that are words are not: they would hit other text.
pub(crate) struct Private {
    /// The longest first: one may be the beginning of another.
    hosts: Vec<String>,
    users: Vec<String>,
}

impl Private {
    /// The names of this machine and of the user, also of the one behind `sudo`.
    pub(crate) fn of_this_machine() -> Self {
        let uname = rustix::system::uname();
        let host = uname.nodename().to_string_lossy().into_owned();
        let short = host.split('.').next().unwrap_or_default().to_owned();
        let domain = uname.domainname().to_string_lossy().into_owned();
        let of_environment = ["USER", "LOGNAME", "SUDO_USER"].iter().filter_map(|name| env::var(name).ok());
        let homes = fs::read_dir("/home")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Self::new([host, short, domain], of_environment.chain(homes))
    }

    fn new(hosts: impl IntoIterator<Item = String>, users: impl IntoIterator<Item = String>) -> Self {
        let telling = |name: &String| {
            name.len() > 2 && !["root", "localhost", "(none)", "user"].contains(&name.as_str())
        };
        let sorted = |names: &mut dyn Iterator<Item = String>| {
            let mut names: Vec<_> = names.filter(telling).collect();
            names.sort_by_key(|name| std::cmp::Reverse(name.len()));
            names.dedup();
            names
        };
        Self { hosts: sorted(&mut hosts.into_iter()), users: sorted(&mut users.into_iter()) }
    }

    /// The report without them.
    pub(crate) fn hide(&self, report: &Report) -> Result<Report, Trouble> {
        let failed = |error: serde_json::Error| Trouble::at("hiding names")(error.into());
        let mut value = serde_json::to_value(report).map_err(failed)?;
        self.hide_in(&mut value);
        serde_json::from_value(value).map_err(failed)
    }

    fn hide_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hidden(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.hide_in(value)),
            // An embedded file is there because it was asked for. The others are words of the kit, whatever a user is called.
            Value::Object(fields) => {
                fields
                    .iter_mut()
                    .filter(|(name, _)| !["base64", "mode", "step", "verdict"].contains(&name.as_str()))
                    .for_each(|(_, value)| self.hide_in(value));
            }
            _ => {}
        }
    }

    fn hidden(&self, text: &str) -> String {
        let text = without_paths(text);
        let text = self.hosts.iter().fold(text, |text, name| replace_word(&text, name, HOST));
        self.users.iter().fold(text, |text, name| replace_word(&text, name, USER))
    }
}

/// Characters that paths are made of in the outputs of programs.
fn is_of_path(character: char) -> bool {
    character.is_alphanumeric() || "/._-+@~=%#".contains(character) || !character.is_ascii()
}

/// Replaces absolute paths. What is left is the name of a library, by which versions are known.
fn without_paths(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let before = rest[..at].chars().next_back();
        let (head, tail) = rest.split_at(at);
        result.push_str(head);
        let end = tail.find(|character| !is_of_path(character)).unwrap_or(tail.len());
        let path = &tail[..end];
        let is_absolute =
            !before.is_some_and(|character| character.is_alphanumeric() || "._-<)".contains(character));
        let is_path = is_absolute && path[1..].contains(|character: char| character.is_alphanumeric());
        let is_public = PUBLIC.iter().any(|public| path.starts_with(public)) && !path.contains("/../");
        if is_path && !is_public {
            result.push_str(PATH);
            let name = path.rsplit('/').next().unwrap_or_default();
            if name.contains(".so") {
                result.push('/');
                result.push_str(name);
            }
        } else {
            result.push_str(path);
        }
        rest = &tail[end..];
    }
    result.push_str(rest);
    result
}

/// Replaces a name where it is not a part of a longer word.
fn replace_word(text: &str, name: &str, by: &str) -> String {
    let is_of_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, after) = (
            rest[..at].chars().next_back().or(result.chars().next_back()),
            rest[at + name.len()..].chars().next(),
        );
        result.push_str(&rest[..at]);
        let is_whole = !before.is_some_and(is_of_word) && !after.is_some_and(is_of_word);
        result.push_str(if is_whole { by } else { name });
        rest = &rest[at + name.len()..];
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    fn private() -> Private {
        Private::new(["node17.cluster".into(), "node17".into(), "x".into()], ["alice".into(), "root".into()])
    }

    #[test]
    fn paths_are_replaced_but_for_those_that_every_machine_has() {
        for (text, hidden) in [
            ("cannot open /home/user/kit/run.py: no", "cannot open <path>: no"),
            ("/home/user/lib/libhipblas.so.2.1", "<path>/libhipblas.so.2.1"),
            (
                "at /sys/kernel/btf/vmlinux, /opt/rocm-6.3/lib/libamdhip64.so.6",
                "at /sys/kernel/btf/vmlinux, /opt/rocm-6.3/lib/libamdhip64.so.6",
            ),
            ("File \"/scratch/alice/x.py\", line 3", "File \"<path>\", line 3"),
            ("20 launches/s, and/or 1 / 2", "20 launches/s, and/or 1 / 2"),
            ("/usr/lib/../../srv/alice", "<path>"),
            ("XSCHED=/data/a:/data/b", "XSCHED=<path>:<path>"),
            ("/data/zoë/x", "<path>"),
        ] {
            assert_eq!(without_paths(text), hidden);
        }
    }

    #[test]
    fn names_are_replaced_as_whole_words() {
        let private = private();
        assert_eq!(private.hidden("alice on node17.cluster"), "<user> on <host>");
        assert_eq!(private.hidden("malice, node170, x, root"), "malice, node170, x, root");
    }

    #[test]
    fn nothing_private_is_left_anywhere_in_a_report() {
        let mut report = example();
        let secret = "alice at node17 in /scratch/alice/secret";
        report.cut = Some(secret.to_owned());
        report.machine[0].value = secret.to_owned();
        report.steps[0].notes.push(secret.to_owned());
        report.steps[0].rows[0].what = secret.to_owned();
        report.steps[1].texts[0].text = secret.to_owned();
        let json = serde_json::to_string(&private().hide(&report).unwrap()).unwrap();
        for word in ["alice", "node17", "secret"] {
            assert!(!json.contains(word), "{json}");
        }
        assert_eq!(json.matches("<user> at <host> in <path>").count(), 5);
    }

    #[test]
    fn embedded_files_are_kept_as_they_are() {
        let mut report = example();
        report.steps[1].files[0].base64 = "/alice/node17/".to_owned();
        assert_eq!(private().hide(&report).unwrap(), report);
    }
}
