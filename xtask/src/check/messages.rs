//! Holds the lists of errors in `docs/troubleshooting.md` to the program, both ways:
//!
//! * each error of xsched-ctl and the viewer (`#[error("…")]`) is listed, and each cause of losses (`counters!`);
//! * each listed message is made of texts that are in the product.
//!
//! In the lists, words in capitals, paths, options, numbers and `…` stand for what a message fills in. Tests are left out.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail};
use ignore::WalkBuilder;
use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Item, LitStr, Macro,
    parse::Parser as _,
    visit::{self, Visit},
};

const PAGE: &str = "docs/troubleshooting.md";

/// The folders of the product, and whether users see each error of it.
const FOLDERS: [(&str, bool); 5] = [
    ("xsched-ctl", true),
    ("trace-viewer/src", true),
    ("trace-viewer/perfetto/src", false),
    ("shim", false),
    ("xsched-ebpf", false),
];

/// What a message may fill in at one place, in characters of the list.
const FILLED_MAX: usize = 60;

/// Fewer words say nothing about where they come from.
const WORDS_MIN: usize = 2;

pub(super) fn check(root: &Path) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("failed to read {PAGE}"))?;
    let sources = Sources::read(root)?;
    let mut finds = Vec::new();
    for Message { place, text } in sources.errors.iter().chain(&sources.losses) {
        if !is_listed(text, &page) {
            finds.push(format!("{place}: `{text}` is not listed in {PAGE}"));
        }
    }
    for (line, message) in listed(&page) {
        for unknown in unknown_parts(&message, &sources.texts) {
            finds.push(format!("{PAGE}:{line}: no text of the product has `{unknown}`"));
        }
    }
    for find in &finds {
        println!("{find}");
    }
    if !finds.is_empty() {
        bail!("{} messages differ between the program and {PAGE}", finds.len());
    }
    Ok(())
}

/// A message of an error, with `\0` where something is filled in.
struct Message {
    /// The file.
    place: String,
    text: String,
}

/// What the crates say.
#[derive(Default)]
struct Sources {
    errors: Vec<Message>,
    /// What a recording counts.
    losses: Vec<Message>,
    /// All string literals, a line each.
    texts: String,
}

impl Sources {
    fn read(root: &Path) -> Result<Self> {
        let mut sources = Self::default();
        for (folder, is_seen) in FOLDERS {
            let before = sources.errors.len();
            sources.read_folder(root, folder)?;
            if !is_seen {
                sources.errors.truncate(before);
            } else if sources.errors.len() == before {
                bail!("no errors found in {folder}");
            }
        }
        if sources.losses.is_empty() {
            bail!("no causes of losses found");
        }
        Ok(sources)
    }

    fn read_folder(&mut self, root: &Path, folder: &str) -> Result<()> {
        for entry in WalkBuilder::new(root.join(folder)).sort_by_file_path(Ord::cmp).build() {
            let path = entry?.into_path();
            let inside = path.strip_prefix(root).unwrap_or(&path);
            let is_test = inside.components().any(|part| part.as_os_str() == "tests");
            if is_test || path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path)?;
            let file =
                syn::parse_file(&text).with_context(|| format!("failed to parse {}", inside.display()))?;
            Reader { sources: self, place: inside.display().to_string() }.visit_file(&file);
        }
        Ok(())
    }
}

struct Reader<'s> {
    sources: &'s mut Sources,
    place: String,
}

impl Reader<'_> {
    fn text(&mut self, text: &str) {
        self.sources.texts.push_str(&plain(text));
        self.sources.texts.push('\n');
    }

    fn literals(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.literals(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<LitStr>(&literal.to_string()) {
                        self.text(&text.value());
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => item.attrs.as_slice(),
            Item::Fn(item) => &item.attrs,
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if !attribute.path().is_ident("error") {
            return;
        }
        // What follows the text fills it in.
        let first = |input: syn::parse::ParseStream<'_>| {
            let text = input.parse::<LitStr>();
            input.parse::<TokenStream>()?;
            text
        };
        let Ok(list) = attribute.meta.require_list() else { return };
        self.literals(list.tokens.clone());
        let Ok(text) = first.parse2(list.tokens.clone()) else { return };
        let text = plain(&text.value());
        if text.chars().any(char::is_alphabetic) {
            self.sources.errors.push(Message { place: self.place.clone(), text });
        }
    }

    fn visit_lit_str(&mut self, text: &'ast LitStr) {
        self.text(&text.value());
    }

    fn visit_macro(&mut self, one: &'ast Macro) {
        if one.path.is_ident("counters") {
            // Each line is a variant, its name and its text. What documents it is in groups.
            let texts = one.tokens.clone().into_iter().filter_map(|token| match token {
                TokenTree::Literal(literal) => syn::parse_str::<LitStr>(&literal.to_string()).ok(),
                _ => None,
            });
            let texts = texts.map(|text| text.value()).filter(|text| text.contains(' '));
            let message = |text: String| Message { place: self.place.clone(), text: plain(&text) };
            self.sources.losses.extend(texts.map(message));
        }
        self.literals(one.tokens.clone());
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
}

/// A text without the marks of code, with `\0` for what is filled in.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0_u32;
    for char in text.chars() {
        match char {
            '{' => {
                depth += 1;
                plain.push('\0');
            }
            '}' => depth = depth.saturating_sub(1),
            '`' => {}
            _ if depth == 0 => plain.push(char),
            _ => {}
        }
    }
    plain
}

/// Whether a row of the page has all parts of a message in their order, with no more between them than fills it in.
fn is_listed(message: &str, page: &str) -> bool {
    let parts: Vec<_> = message.split('\0').filter(|part| !part.is_empty()).collect();
    page.lines().filter(|line| line.starts_with('|')).any(|line| {
        let line = line.replace('`', "");
        let Some((first, others)) = parts.split_first() else { return true };
        line.match_indices(first).any(|(at, _)| follow(&line[at + first.len()..], others))
    })
}

fn follow(line: &str, parts: &[&str]) -> bool {
    let Some((first, others)) = parts.split_first() else { return true };
    line.match_indices(first)
        .take_while(|(at, _)| *at <= FILLED_MAX)
        .any(|(at, _)| follow(&line[at + first.len()..], others))
}

/// The messages in the lists, each with its line: what stands as code in the first column of a table with that heading.
fn listed(page: &str) -> Vec<(usize, String)> {
    let mut listed = Vec::new();
    let mut is_list = false;
    for (line, number) in page.lines().zip(1..) {
        if !line.starts_with('|') {
            is_list = false;
            continue;
        }
        let first = line.split(" | ").next().unwrap_or_default();
        is_list |= ["message", "cause", "text"].iter().any(|head| first.starts_with(&format!("| {head}")));
        if is_list {
            let spans = first.split('`').skip(1).step_by(2).filter(|span| span.contains(' '));
            listed.extend(spans.map(|span| (number, span.to_owned())));
        }
    }
    listed
}

/// The parts of a listed message that are put together from no texts of the program.
fn unknown_parts(message: &str, texts: &str) -> Vec<String> {
    let mut parts = vec![Vec::new()];
    for word in message.split(' ') {
        let bare = word.trim_matches(|char: char| !char.is_alphanumeric());
        let is_filled_in = bare.chars().any(|char| char.is_ascii_uppercase() || char.is_ascii_digit())
            && !bare.chars().any(|char| char.is_ascii_lowercase());
        let is_example = word.starts_with("--") || word.starts_with('.') || bare.contains(['/', '.', '0']);
        if is_filled_in || is_example || bare.is_empty() {
            parts.push(Vec::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(word);
        }
    }
    let unknown = parts.iter().filter(|part| part.len() >= WORDS_MIN && !is_made_of(part, texts));
    unknown.map(|part| part.join(" ")).collect()
}

/// Whether words are pieces of texts, put one behind the other. A piece has at least [`WORDS_MIN`] words, but for what is left.
fn is_made_of(words: &[&str], texts: &str) -> bool {
    let has = |words: &[&str]| {
        let piece = words.join(" ");
        texts.contains(piece.trim_matches(|char: char| !char.is_alphanumeric() && char != '/' && char != '-'))
    };
    words.len() < WORDS_MIN
        || (WORDS_MIN..=words.len())
            .rev()
            .any(|first| has(&words[..first]) && is_made_of(&words[first..], texts))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
        | message | what to do |\n| --- | --- |\n\
        | `cannot write FILE: CAUSE`, `no rights` | `chown` it |\n\n\
        | line | what |\n| --- | --- |\n| `no such thing at all` | |\n";

    #[test]
    fn a_message_is_listed_with_what_it_fills_in() {
        assert!(is_listed(&plain("cannot write `{path}`: {cause}"), PAGE));
        assert!(is_listed("no rights", PAGE));
        assert!(!is_listed(&plain("cannot write {path} to {place}"), PAGE));
        assert!(!is_listed("cannot", "cannot"), "only tables are lists");
    }

    #[test]
    fn listed_messages_are_in_the_first_column_of_lists() {
        let expected = [(3, "cannot write FILE: CAUSE".to_owned()), (3, "no rights".to_owned())];
        assert_eq!(listed(PAGE), expected);
    }

    #[test]
    fn a_listed_message_is_put_together_from_texts() {
        let texts = "\0 calls lost: \0\nthe ring buffer was full\ncannot write \0: \0\n";
        let unknown = |message| unknown_parts(message, texts);
        assert!(unknown("incomplete: N calls lost: the ring buffer was full").is_empty());
        assert!(unknown("cannot write FILE: CAUSE").is_empty());
        assert_eq!(unknown("cannot read FILE: CAUSE"), ["cannot read"]);
        assert_eq!(unknown("N calls lost: the disk is full"), ["calls lost: the disk is full"]);
    }

    #[test]
    fn texts_of_tests_do_not_count() {
        let mut sources = Sources::default();
        let file = syn::parse_file(
            "#[derive(Error)] enum E { #[error(\"it is {}\", .0)] A(u8), #[error(transparent)] B(F) }\n\
             fn f() { warn!(\"a {} b\", g(\"c\")); }\n\
             counters! { /// Of it.\n A \"a_lost\" \"a is lost\", }\n\
             #[cfg(test)] mod tests { fn h() { i(\"d\"); } }",
        )
        .unwrap();
        Reader { sources: &mut sources, place: "f".to_owned() }.visit_file(&file);
        let errors: Vec<_> = sources.errors.iter().map(|error| error.text.as_str()).collect();
        assert_eq!(errors, ["it is \0"]);
        let losses: Vec<_> = sources.losses.iter().map(|loss| loss.text.as_str()).collect();
        assert_eq!(losses, ["a is lost"]);
        assert_eq!(sources.texts, "it is \0\na \0 b\nc\n Of it.\na_lost\na is lost\n");
    }
}
