//! The word rules that a program can judge: words for people where processes and code are meant, and long sentences.
//!
//! It reads comments, doc comments, string literals and names of definitions in Rust files, and Markdown files. Sentences are
//! measured in doc comments and in Markdown. Other code, quoted code and files of test data are left out.
//!
//! `words.toml` has the number of finds that a folder may have. It may only fall: with fewer finds the check asks to lower the
//! number. A folder that is not in the list may have none.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use ignore::WalkBuilder;

use super::{
    Detail,
    prose::{self, Paragraph},
};

/// Forbidden words, each with what to write instead. The list is not searched, nor are the tests of this file.
const FORBIDDEN: [(&str, &str); 20] = [
    ("who", "name the process, caller or user; `that` or `which`"),
    ("whom", "name the process, caller or user; `that` or `which`"),
    ("whoever", "name the process or caller"),
    ("whomever", "name the process or caller"),
    ("somebody", "name the process or caller; `another process`"),
    ("someone", "name the process or caller; `another process`"),
    ("nobody", "`no process`, `no caller`"),
    ("noone", "`no process`, `no caller`"),
    ("everybody", "`every process`, `all processes`"),
    ("everyone", "`every process`, `all processes`"),
    ("anybody", "`any process`, `any caller`"),
    ("anyone", "`any process`, `any caller`"),
    ("he", "`it`; `they` for people"),
    ("him", "`it`; `them` for people"),
    ("his", "`its`; `their` for people"),
    ("himself", "`itself`; `themselves` for people"),
    ("themself", "`itself`; `themselves` for people"),
    ("afresh", "`again`, `reset`, `restart`"),
    ("anew", "`again`, `reset`, `restart`"),
    ("thereof", "`of it`"),
];

/// Behind these words, which are for people, `who` and `whom` are right.
const PEOPLE: [&str; 11] = [
    "administrator",
    "administrators",
    "developer",
    "developers",
    "people",
    "person",
    "reader",
    "readers",
    "user",
    "users",
    "vendors",
];

/// Words in a sentence.
const SENTENCE_MAX: usize = 40;

/// Files and folders that quote others or are made of test data.
const LEFT_OUT: [&str; 6] = [
    "tests/data",
    "tests/hip-sim/include",
    "shim/rules/sets",
    "xtask/src/check/words.rs",
    "LICENSE",
    "target",
];

/// One find.
struct Find {
    path: PathBuf,
    line: usize,
    what: String,
}

pub(super) fn check(root: &Path, detail: Detail) -> Result<()> {
    let bounds = root.join("xtask/src/check/words.toml");
    let text = fs::read_to_string(&bounds).with_context(|| format!("failed to read {}", bounds.display()))?;
    let bounds = read_bounds(&text)?;
    let mut by_folder: BTreeMap<String, Vec<Find>> = BTreeMap::new();
    for find in finds(root)? {
        by_folder.entry(folder(&find.path)).or_default().push(find);
    }
    let counts: BTreeMap<_, _> = by_folder.iter().map(|(name, found)| (name.clone(), found.len())).collect();
    let faults = faults(&counts, &bounds);
    for (folder, found) in &by_folder {
        if detail == Detail::All || faults.iter().any(|fault| fault.folder == *folder && fault.is_above) {
            println!("{folder}: {}", found.len());
            for Find { path, line, what } in found {
                println!("  {}:{line}: {what}", path.display());
            }
        }
    }
    if !faults.is_empty() {
        let messages: Vec<_> = faults.into_iter().map(|fault| fault.message).collect();
        bail!("{}", messages.join("\n"));
    }
    Ok(())
}

fn read_bounds(text: &str) -> Result<BTreeMap<String, usize>> {
    let table = toml::de::DeTable::parse(text).context("failed to read the bounds of words")?;
    let bounds = table.get_ref().iter().map(|(folder, bound)| {
        let bound = bound.get_ref().as_integer().and_then(|bound| bound.as_str().parse().ok());
        Ok((folder.get_ref().to_string(), bound.with_context(|| format!("no number: {}", folder.get_ref()))?))
    });
    bounds.collect()
}

/// A folder whose number of finds is not its bound.
#[derive(Debug)]
struct Fault {
    folder: String,
    is_above: bool,
    message: String,
}

fn faults(counts: &BTreeMap<String, usize>, bounds: &BTreeMap<String, usize>) -> Vec<Fault> {
    let mut folders: Vec<_> = counts.keys().chain(bounds.keys()).collect();
    folders.sort();
    folders.dedup();
    let fault = |folder: &String| {
        let number = |of: &BTreeMap<String, usize>| of.get(folder).copied().unwrap_or(0);
        let (count, bound) = (number(counts), number(bounds));
        let message = match count.cmp(&bound) {
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Greater => format!("{folder}: {count} finds, {bound} may be"),
            std::cmp::Ordering::Less => format!("{folder}: {count} finds, lower its {bound} in words.toml"),
        };
        Some(Fault { folder: folder.clone(), is_above: count > bound, message })
    };
    folders.into_iter().filter_map(fault).collect()
}

/// Where a file is counted: the first two folders of its path, or its name at the root.
fn folder(path: &Path) -> String {
    let parents: Vec<_> =
        path.parent().into_iter().flat_map(Path::iter).take(2).map(|part| part.to_string_lossy()).collect();
    if parents.is_empty() { path.display().to_string() } else { parents.join("/") }
}

fn finds(root: &Path) -> Result<Vec<Find>> {
    let mut finds = Vec::new();
    for entry in WalkBuilder::new(root).hidden(false).filter_entry(|e| e.file_name() != ".git").build() {
        let entry = entry?;
        let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
        if LEFT_OUT.iter().any(|left_out| path.starts_with(left_out)) {
            continue;
        }
        let read: fn(&str) -> Vec<Paragraph> = match path.extension().and_then(|e| e.to_str()) {
            Some("rs") => prose::of_rust,
            Some("md") => prose::of_markdown,
            _ => continue,
        };
        let text =
            fs::read_to_string(entry.path()).with_context(|| format!("failed to read {}", path.display()))?;
        for paragraph in read(&text) {
            finds.extend(finds_in(&paragraph).into_iter().map(|(line, what)| Find {
                path: path.to_owned(),
                line,
                what,
            }));
        }
    }
    finds.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(finds)
}

/// Lines and messages.
fn finds_in(paragraph: &Paragraph) -> Vec<(usize, String)> {
    let mut finds = Vec::new();
    let mut before = String::new();
    for (line, text) in &paragraph.lines {
        for word in prose::words(text) {
            let lower = word.to_ascii_lowercase();
            let is_of_people = matches!(&*lower, "who" | "whom") && PEOPLE.contains(&&*before);
            // The name of a constant, or a string of one word, may be that of the account `nobody`.
            let is_name = word.chars().all(char::is_uppercase) || text == word;
            let forbidden = FORBIDDEN.iter().find(|(forbidden, _)| *forbidden == lower);
            if let Some((_, instead)) = forbidden.filter(|_| !is_of_people && !is_name) {
                finds.push((*line, format!("`{word}`: {instead}")));
            }
            before = lower;
        }
    }
    if paragraph.is_measured {
        for sentence in prose::sentences(paragraph) {
            if sentence.words > SENTENCE_MAX {
                finds.push((
                    sentence.line,
                    format!("a sentence of {} words: `{} ..`", sentence.words, sentence.start),
                ));
            }
        }
    }
    finds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        prose::of_rust(text).iter().flat_map(finds_in).collect()
    }

    #[test]
    fn words_for_people_are_found_in_comments_and_strings() {
        let lines = |text| found(text).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
        assert_eq!(lines("// Who waits.\nfn f() { say(\"his turn\"); }"), [1, 2]);
        assert_eq!(lines("/// Whoever comes, and nobody\n/// else.\nfn f() {}"), [1, 1]);
        assert!(found("/// The history of `who` and `self.him`.\nfn f() { who() }").is_empty());
        assert_eq!(lines("fn f() {}\nfn who_waits_is_woken() {}"), [2]);
        assert!(found("// whose, Who's \"whole\" the\n").len() == 1, "only the second");
        assert!(found("const NOBODY: u32 = id(\"nobody\");").is_empty(), "an account");
        assert_eq!(lines("// Users\n// who wait.\n// A process who waits."), [3]);
    }

    #[test]
    fn long_sentences_are_found_in_doc_comments() {
        let sentence = |count| format!("/// One. {}end.\n/// Two.\nfn f() {{}}", "word ".repeat(count - 1));
        assert!(found(&sentence(SENTENCE_MAX)).is_empty());
        assert_eq!(found(&sentence(SENTENCE_MAX + 1)).len(), 1);
        assert!(found(&sentence(SENTENCE_MAX + 1).replace("///", "//")).is_empty());
    }

    #[test]
    fn bounds_may_only_fall() {
        let map = |pairs: &[(&str, usize)]| pairs.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let found = faults(&map(&[("a", 2), ("b", 1), ("c", 1)]), &map(&[("a", 2), ("b", 3), ("d", 1)]));
        let messages: Vec<_> = found.iter().map(|fault| fault.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "b: 1 finds, lower its 3 in words.toml",
                "c: 1 finds, 0 may be",
                "d: 0 finds, lower its 1 in words.toml"
            ]
        );
    }

    #[test]
    fn bounds_are_numbers() {
        assert_eq!(read_bounds("\"shim/src\" = 7\n").unwrap(), BTreeMap::from([("shim/src".to_owned(), 7)]));
        assert!(read_bounds("a = \"b\"").is_err());
    }

    #[test]
    fn files_are_counted_in_the_first_two_folders() {
        assert_eq!(folder(Path::new("README.md")), "README.md");
        assert_eq!(folder(Path::new("shim/sched/src/a/b.rs")), "shim/sched");
        assert_eq!(folder(Path::new("docs/a.md")), "docs");
    }
}
