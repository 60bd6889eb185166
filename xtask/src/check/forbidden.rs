//! Forbidden things in the sources that neither the compiler nor clippy finds.

use std::{env, fs, path::Path};

use anyhow::{Result, bail};
use ignore::WalkBuilder;

/// One forbidden thing.
struct Rule {
    name: &'static str,
    reason: &'static str,
    /// Whether files of this name are searched.
    applies: fn(&Path) -> bool,
    /// Whether a line breaks the rule.
    breaks: Box<dyn Fn(&str) -> bool>,
}

/// Extensions of files that are written by hand here. Data files may quote anything.
const WRITTEN_HERE: [&str; 14] =
    ["rs", "toml", "md", "c", "h", "cpp", "hpp", "hip", "py", "mjs", "js", "html", "sh", "yml"];

fn rules(root: &Path, home: Option<&Path>) -> Vec<Rule> {
    // Written in pieces, so that the rules do not find themselves.
    let unfinished = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let allow = concat!("[al", "low(");
    let homes: Vec<String> =
        [Some(root), home].into_iter().flatten().filter(|p| p.parent().is_some()).map(with_slash).collect();
    let foreign_homes = [concat!("/ho", "me/"), concat!("/Us", "ers/")];
    vec![
        Rule {
            name: "panic = \"abort\"",
            reason: "a panic inside a hook falls back to the real function, which needs unwinding",
            applies: |path| path.extension().is_some_and(|e| e == "toml"),
            breaks: Box::new(|line| {
                line.split_whitespace().collect::<String>().starts_with("panic=\"abort\"")
            }),
        },
        Rule {
            name: "a path of this machine",
            reason: "the sources must build and read the same everywhere",
            applies: |_| true,
            breaks: Box::new(move |line| homes.iter().any(|home| has_path(line, home))),
        },
        Rule {
            name: "a path of a home folder",
            reason: "as above; examples use /home/user",
            applies: is_written_here,
            breaks: Box::new(move |line| {
                foreign_homes
                    .iter()
                    .any(|homes| has_path(&line.replace(concat!("/ho", "me/user"), ""), homes))
            }),
        },
        Rule {
            name: "an unfinished mark",
            reason: "an omission on purpose is explained in a sentence; anything else is finished or not merged",
            applies: is_written_here,
            breaks: Box::new(move |line| unfinished.iter().any(|mark| has_word(line, mark))),
        },
        Rule {
            name: "allow as an attribute",
            reason: "`#[expect(lint, reason = \"..\")]` has a reason, and the compiler reports when it is not needed any more",
            applies: |path| path.extension().is_some_and(|e| e == "rs"),
            breaks: Box::new(move |line| line.contains(allow)),
        },
    ]
}

/// Searches every file that git would not ignore.
pub(super) fn check(root: &Path) -> Result<()> {
    let home = env::var_os("HOME").map(std::path::PathBuf::from);
    let rules = rules(root, home.as_deref());
    let mut found = 0;
    for entry in WalkBuilder::new(root).hidden(false).filter_entry(|e| e.file_name() != ".git").build() {
        let entry = entry?;
        // Files that are not text are skipped.
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
        for (number, rule) in violations(&rules, path, &text) {
            eprintln!("{}:{number}: {}: {}", path.display(), rule.name, rule.reason);
            found += 1;
        }
    }
    if found > 0 {
        bail!("{found} forbidden things");
    }
    Ok(())
}

/// Line numbers, from 1, with the rules that they break.
fn violations<'r>(rules: &'r [Rule], path: &Path, text: &str) -> Vec<(usize, &'r Rule)> {
    let rules = rules.iter().filter(|rule| (rule.applies)(path));
    rules
        .flat_map(|rule| {
            text.lines()
                .zip(1..)
                .filter(|(line, _)| (rule.breaks)(line))
                .map(move |(_, number)| (number, rule))
        })
        .collect()
}

fn is_written_here(path: &Path) -> bool {
    path.extension().and_then(|e| e.to_str()).is_some_and(|e| WRITTEN_HERE.contains(&e))
}

fn with_slash(path: &Path) -> String {
    format!("{}/", path.display())
}

/// Whether a line contains an absolute path that starts with `start`; not within a URL or a longer path.
fn has_path(line: &str, start: &str) -> bool {
    occurrences(line, start)
        .any(|(before, _)| !before.is_some_and(|c| c.is_alphanumeric() || "/.}~_-".contains(c)))
}

fn has_word(line: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    occurrences(line, word).any(|(before, after)| !before.is_some_and(in_word) && !after.is_some_and(in_word))
}

/// The characters before and after each occurrence.
fn occurrences<'l>(line: &'l str, what: &'l str) -> impl Iterator<Item = (Option<char>, Option<char>)> + 'l {
    line.match_indices(what)
        .map(|(at, found)| (line[..at].chars().next_back(), line[at + found.len()..].chars().next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, line: &str) -> Vec<&'static str> {
        let rules = rules(Path::new("/checkout/xsched"), Some(Path::new("/own/home")));
        violations(&rules, Path::new(path), line).into_iter().map(|(_, rule)| rule.name).collect()
    }

    #[test]
    fn each_rule_finds_what_it_forbids() {
        assert_eq!(broken("Cargo.toml", "panic = \"abort\""), ["panic = \"abort\""]);
        assert_eq!(broken("a.rs", "open(\"/checkout/xsched/x\")"), ["a path of this machine"]);
        assert_eq!(broken("run", "cd /own/home/src"), ["a path of this machine"]);
        assert_eq!(broken("a.md", concat!("see /ho", "me/alice/x")), ["a path of a home folder"]);
        assert_eq!(broken("a.rs", concat!("// TO", "DO: later")), ["an unfinished mark"]);
        assert_eq!(broken("a.rs", concat!("#![al", "low(dead_code)]")), ["allow as an attribute"]);
    }

    #[test]
    fn similar_text_is_not_found() {
        assert!(broken("a.rs", "let TODOS = MASTODON;").is_empty());
        assert!(broken("a.md", "https://example.org/own/home/x and target/own/home/x").is_empty());
        assert!(broken("a.rs", "\"/home/user/miniconda3/lib\"").is_empty());
        assert!(broken("data.tsv", concat!("TO", "DO")).is_empty());
        assert!(broken("a.rs", "the panic = \"abort\" profile").is_empty());
    }

    #[test]
    fn lines_are_counted_from_one() {
        let rules = rules(Path::new("/checkout"), None);
        let text = concat!("fine\nFIX", "ME\n");
        assert_eq!(violations(&rules, Path::new("a.rs"), text)[0].0, 2);
    }
}
