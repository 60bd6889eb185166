//! The word rules that a program can judge: words for people where processes and code are meant, and long sentences.
//!
//! It reads comments, doc comments, string literals and names of definitions in Rust files, and Markdown files. Sentences are
//! measured in doc comments and in Markdown. Other code, quoted code and files of test data are left out.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use ignore::WalkBuilder;

use super::prose::{self, Paragraph};

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

pub(super) fn check(root: &Path) -> Result<()> {
    let finds = finds(root)?;
    for Find { path, line, what } in &finds {
        println!("{}:{line}: {what}", path.display());
    }
    if !finds.is_empty() {
        bail!("{} finds", finds.len());
    }
    Ok(())
}

fn finds(root: &Path) -> Result<Vec<Find>> {
    let mut finds = Vec::new();
    for entry in WalkBuilder::new(root).hidden(false).filter_entry(|e| e.file_name() != ".git").build() {
        let entry = entry?;
        let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
        if LEFT_OUT.iter().any(|left_out| path.starts_with(left_out)) {
            continue;
        }
        let read: fn(&str) -> Result<Vec<Paragraph>> = match path.extension().and_then(|e| e.to_str()) {
            Some("rs") => prose::of_rust,
            Some("md") => |text| Ok(prose::of_markdown(text)),
            _ => continue,
        };
        let paragraphs = fs::read_to_string(entry.path()).map_err(Into::into).and_then(|text| read(&text));
        for paragraph in paragraphs.with_context(|| format!("failed to read {}", path.display()))? {
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
        prose::of_rust(text).unwrap().iter().flat_map(finds_in).collect()
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
}
