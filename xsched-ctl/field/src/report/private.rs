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
    /// What names of machines end with here.
    domains: Vec<String>,
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
        let domains = [host.split_once('.').map(|(_, domain)| domain.to_owned()), Some(domain)];
        let domains = domains.into_iter().flatten().chain(searched(&read("/etc/resolv.conf")));
        let aliases = aliases(&read("/etc/hosts"), &short);
        Self::new([host, short].into_iter().chain(aliases), domains, of_environment.chain(homes))
    }

    fn new(
        hosts: impl IntoIterator<Item = String>,
        domains: impl IntoIterator<Item = String>,
        users: impl IntoIterator<Item = String>,
    ) -> Self {
        let telling = |name: &String| {
            name.len() > 2 && !["root", "localhost", "(none)", "user"].contains(&name.as_str())
        };
        let sorted = |names: &mut dyn Iterator<Item = String>| {
            let mut names: Vec<_> = names.filter(telling).collect();
            names.sort_by_key(|name| std::cmp::Reverse(name.len()));
            names.dedup();
            names
        };
        Self {
            hosts: sorted(&mut hosts.into_iter()),
            domains: sorted(&mut domains.into_iter()),
            users: sorted(&mut users.into_iter()),
        }
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
        let text = without_hosts(&text, &self.hosts, &self.domains);
        // Also where it is a part of something longer, such as `node17:8080` or `node17-ib0`.
        let text = self.hosts.iter().fold(text, |text, name| replace_word(&text, name, HOST));
        self.users.iter().fold(text, |text, name| replace_word(&text, name, USER))
    }
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// The domains in which a resolver looks for names.
fn searched(resolver: &str) -> Vec<String> {
    let lines = resolver.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        matches!(words.next(), Some("search" | "domain")).then_some(words)
    });
    lines.flatten().map(|domain| domain.trim_matches('.').to_owned()).collect()
}

/// Further names of a host, from a table of hosts.
fn aliases(table: &str, host: &str) -> Vec<String> {
    let lines = table.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names = lines.map(|line| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>());
    names.filter(|names| names.iter().any(|name| name == host)).flatten().collect()
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
        let (head, tail) = rest.split_at(at);
        result.push_str(head);
        let word = &tail[..end_of_word(tail)];
        let is_path = begins_path(head) && word[1..].contains(|character: char| character.is_alphanumeric());
        let is_public = PUBLIC.iter().any(|public| word.starts_with(public)) && !word.contains("/../");
        let path = if is_path && !is_public { &tail[..end_of_path(head, tail)] } else { word };
        if is_path && !is_public {
            result.push_str(PATH);
            let name = path.rsplit('/').next().unwrap_or_default();
            if name.contains(".so") && name.chars().all(is_of_path) {
                result.push('/');
                result.push_str(name);
            }
        } else {
            result.push_str(path);
        }
        rest = &tail[path.len()..];
    }
    result.push_str(rest);
    result
}

/// Whether a slash behind this begins an absolute path, and is not within a word such as `and/or`. An option's path stands
/// right behind its letters, as in `-I/home`.
fn begins_path(before: &str) -> bool {
    let letters = |character: char| character.is_alphanumeric() || "._-<)".contains(character);
    let word = before.rfind(|character| !letters(character)).map_or(before, |at| {
        let end = before[at..].chars().next().map_or(0, char::len_utf8);
        &before[at + end..]
    });
    word.is_empty() || word.starts_with('-') && word.len() > 1
}

/// Where the word ends that this begins with: a path, if there are no spaces in it but escaped ones.
fn end_of_word(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let is_escaped = character == '\\' && characters.next_if(|(_, next)| *next == ' ').is_some();
        if !is_escaped && !is_of_path(character) {
            return at;
        }
    }
    text.len()
}

/// Where the path ends that `text` begins with, behind `before`. In quotes it goes on to the end of these. Otherwise words with
/// a slash in them may belong to it, up to the third one: more is hidden rather than less.
fn end_of_path(before: &str, text: &str) -> usize {
    const WORDS_MAX: usize = 3;
    let line = text.split('\n').next().unwrap_or_default();
    let closing = before.chars().next_back().and_then(|quote| match quote {
        '"' | '\'' | '`' => Some(quote),
        '\u{2018}' => Some('\u{2019}'),
        '\u{201c}' => Some('\u{201d}'),
        _ => None,
    });
    if let Some(end) = closing.and_then(|closing| line.find(closing)) {
        return end;
    }
    let mut path = end_of_word(line);
    let mut end = path;
    for _ in 0..WORDS_MAX {
        let Some(next) = line[end..].strip_prefix(' ') else { break };
        let word = &next[..end_of_word(next)];
        // Paths of their own.
        if word.is_empty() || word.starts_with(['/', '-']) || word.contains("=/") {
            break;
        }
        end += 1 + word.len();
        if word.contains('/') {
            path = end;
        }
    }
    path
}

/// Replaces the names of machines: a host's with the domain behind it, and all names in a domain.
fn without_hosts(text: &str, hosts: &[String], domains: &[String]) -> String {
    let is_of_name = |character: char| character.is_ascii_alphanumeric() || "-.".contains(character);
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_of_name) {
        let (head, tail) = rest.split_at(at);
        result.push_str(head);
        let end = tail.find(|character| !is_of_name(character)).unwrap_or(tail.len());
        let (name, behind) = tail.split_at(end);
        // A full stop ends a sentence.
        let bare = name.trim_end_matches(['.', '-']);
        let is_within = |domain: &String| {
            let first = bare.strip_suffix(domain.as_str());
            first.is_some_and(|first| first.ends_with('.') || first.is_empty() && domain.contains('.'))
        };
        let is_host = |host: &String| {
            bare.strip_prefix(host.as_str()).is_some_and(|more| more.is_empty() || more.starts_with('.'))
        };
        let is_private = domains.iter().any(is_within) || hosts.iter().any(is_host);
        result.push_str(if is_private { HOST } else { bare });
        result.push_str(&name[bare.len()..]);
        rest = behind;
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
        let hosts = ["node17.cluster", "node17", "x"].map(str::to_owned);
        let domains = ["corp", "example.org"].map(str::to_owned);
        Private::new(hosts, domains, ["alice".into(), "root".into()])
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
            ("clang -I/home/al/include -L/data/lib -isystem/srv/x", "clang -I<path> -L<path> -isystem<path>"),
            ("File \"/data/My Files/x.py\", line 3", "File \"<path>\", line 3"),
            ("open('/data/It works/x') = 3", "open('<path>') = 3"),
            ("cannot open /data/My Old Files/x.py: no", "cannot open <path>: no"),
            ("/data/My\\ Files/x.py is gone", "<path> is gone"),
            ("/data/a failed, 20 launches/s", "<path> failed, 20 launches/s"),
            ("'/data/a\nit's 1/s", "'<path>\nit's 1/s"),
            ("re-read a/b, x-y/z, -/x", "re-read a/b, x-y/z, -/x"),
        ] {
            assert_eq!(without_paths(text), hidden);
        }
    }

    #[test]
    fn names_are_replaced_as_whole_words() {
        let private = private();
        assert_eq!(private.hidden("alice on node17.cluster"), "<user> on <host>");
        assert_eq!(private.hidden("malice, node170, x, root"), "malice, node170, x, root");
        assert_eq!(private.hidden("node17.corp, node17:80, node17-ib0."), "<host>, <host>:80, <host>-ib0.");
        assert_eq!(private.hidden("from gpu3.corp. On a.b.example.org"), "from <host>. On <host>");
        assert_eq!(private.hidden("alice@node17.corp"), "<user>@<host>");
        assert_eq!(private.hidden("corp, a.corpus, example.org.uk"), "corp, a.corpus, example.org.uk");
        assert_eq!(searched("nameserver 10.0.0.1\nsearch corp a.example.org.\n"), ["corp", "a.example.org"]);
        assert_eq!(
            aliases("10.0.0.7 node17.lab node17 # login\n10.0.0.8 node18", "node17"),
            ["node17.lab", "node17"]
        );
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
