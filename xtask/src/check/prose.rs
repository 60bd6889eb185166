//! Finds the text that people read in Rust and Markdown files: paragraphs, sentences and words.

use std::ops::Range;

use anyhow::{Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};

/// Consecutive lines of text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Paragraph {
    /// Numbers, from 1, and text without the marks of comments.
    pub(super) lines: Vec<(usize, String)>,
    /// Its sentences are to be measured.
    pub(super) is_measured: bool,
}

/// A sentence.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    /// Where it begins.
    pub(super) line: usize,
    pub(super) words: usize,
    /// Its first words.
    pub(super) start: String,
}

/// Comments, doc comments, string literals, and the names that are defined.
pub(super) fn of_rust(text: &str) -> Result<Vec<Paragraph>> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("no Rust: {error}"))?;
    let mut source =
        Source { text, at: 0, line: 1, last: (Kind::Text, 0), is_defined: false, reader: Reader::default() };
    source.read(tokens);
    source.comments_until(text.len());
    source.reader.end();
    Ok(source.reader.paragraphs)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Comment,
    Doc,
    /// String literals and names.
    Text,
}

/// A Rust file as it is read.
struct Source<'t> {
    text: &'t str,
    /// The end of what is read, in bytes.
    at: usize,
    /// The line of that end.
    line: usize,
    /// The kind of the last piece, and the line behind it.
    last: (Kind, usize),
    /// The next name is defined.
    is_defined: bool,
    reader: Reader,
}

impl Source<'_> {
    fn read(&mut self, tokens: TokenStream) {
        for token in tokens {
            if let TokenTree::Group(group) = &token {
                self.token(group.span_open().byte_range(), false);
                self.read(group.stream());
                self.token(group.span_close().byte_range(), false);
            } else {
                self.token(token.span().byte_range(), matches!(token, TokenTree::Ident(_)));
            }
        }
    }

    fn token(&mut self, range: Range<usize>, is_ident: bool) {
        // A doc comment is several tokens, all with its whole range.
        if range.start < self.at {
            return;
        }
        self.comments_until(range.start);
        let text = &self.text[range];
        if text.starts_with("//") {
            self.piece(Kind::Doc, &text[3..]);
        } else if let Some(string) = inside_quotes(text) {
            self.piece(Kind::Text, string);
        } else if is_ident && self.is_defined {
            self.piece(Kind::Text, &text.replace('_', " "));
        } else {
            self.last = (Kind::Text, 0);
        }
        self.is_defined = is_ident
            && matches!(text, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "mod");
        self.skip(text);
    }

    /// Between tokens are only white space and comments without `doc`.
    fn comments_until(&mut self, end: usize) {
        let text = &self.text[self.at..end];
        for line in text.split_inclusive('\n') {
            if let Some(comment) = line.trim_start().strip_prefix("//") {
                self.piece(Kind::Comment, comment);
            }
            self.skip(line);
        }
    }

    fn skip(&mut self, text: &str) {
        self.at += text.len();
        self.line += text.matches('\n').count();
    }

    fn piece(&mut self, kind: Kind, text: &str) {
        // Lines of one comment follow each other with nothing but indentation between them.
        if self.last != (kind, self.line) {
            self.reader.end();
            self.reader.is_in_code = false;
        }
        self.reader.is_measured = kind == Kind::Doc;
        for (line, number) in text.lines().zip(self.line..) {
            match kind {
                Kind::Doc | Kind::Comment => self.reader.line(number, line),
                Kind::Text => self.reader.paragraph.push((number, line.to_owned())),
            }
        }
        self.last = (kind, self.line + 1);
    }
}

/// The inside of a string literal, escapes as they are written. Characters are no strings.
fn inside_quotes(literal: &str) -> Option<&str> {
    let (prefix, rest) = literal.split_once('"')?;
    if prefix.contains('\'') { None } else { rest.rsplit_once('"').map(|(inside, _)| inside) }
}

/// All text outside of code blocks.
pub(super) fn of_markdown(text: &str) -> Vec<Paragraph> {
    let mut reader = Reader { is_measured: true, ..Reader::default() };
    for (line, number) in text.lines().zip(1..) {
        // In a comment each line has one space in front.
        reader.line(number, &format!(" {line}"));
    }
    reader.end();
    reader.paragraphs
}

#[derive(Default)]
struct Reader {
    paragraphs: Vec<Paragraph>,
    paragraph: Vec<(usize, String)>,
    is_measured: bool,
    is_in_code: bool,
}

impl Reader {
    /// A line of Markdown.
    fn line(&mut self, number: usize, line: &str) {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            self.end();
            self.is_in_code = !self.is_in_code;
            return;
        }
        let is_indented_code = self.paragraph.is_empty() && line.starts_with("     ");
        if self.is_in_code || is_indented_code {
            return;
        }
        let is_item = ["* ", "- ", "+ "].iter().any(|mark| trimmed.starts_with(mark))
            || trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(". ");
        if trimmed.is_empty() || is_item || trimmed.starts_with(['#', '|']) {
            self.end();
        }
        if trimmed.starts_with('|') {
            // Each cell is a text of its own.
            for cell in trimmed.split('|') {
                self.paragraph.push((number, cell.to_owned()));
                self.end();
            }
        } else if !trimmed.is_empty() {
            self.paragraph.push((number, trimmed.to_owned()));
        }
        if trimmed.starts_with('#') {
            self.end();
        }
    }

    fn end(&mut self) {
        let lines = std::mem::take(&mut self.paragraph);
        if !lines.is_empty() {
            self.paragraphs.push(Paragraph { lines: without_code(lines), is_measured: self.is_measured });
        }
    }
}

/// Replaces quoted code, which may go on over a line's end, and addresses of links.
fn without_code(lines: Vec<(usize, String)>) -> Vec<(usize, String)> {
    let mut is_code = false;
    lines
        .into_iter()
        .map(|(number, line)| {
            let mut text = String::new();
            for (index, part) in line.split('`').enumerate() {
                if index > 0 {
                    is_code = !is_code;
                    text.push_str(if is_code { " CODE" } else { "" });
                }
                if !is_code {
                    text.push_str(part);
                }
            }
            (number, text.split("](").enumerate().map(|(index, part)| without_address(index, part)).collect())
        })
        .collect()
}

/// Text after `](`, without the address.
fn without_address(index: usize, part: &str) -> &str {
    if index == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) }
}

/// Words of letters; an apostrophe ends a word.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_joint = |c: char| c == '_' || c.is_alphanumeric();
    text.split(move |c| !is_joint(c)).filter(|word| word.chars().all(char::is_alphabetic) && !word.is_empty())
}

/// The sentences of a paragraph. A sentence ends with a mark at the end of a word.
pub(super) fn sentences(paragraph: &Paragraph) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    let mut sentence: Option<Sentence> = None;
    for (line, text) in &paragraph.lines {
        for word in text.split_whitespace() {
            let current = sentence.get_or_insert(Sentence { line: *line, words: 0, start: String::new() });
            if word.chars().any(char::is_alphanumeric) {
                current.words += 1;
                if current.words <= 4 {
                    current.start.push_str(if current.start.is_empty() { "" } else { " " });
                    current.start.push_str(word);
                }
            }
            let bare = word.trim_end_matches([')', '"', '*', '_']);
            let is_end =
                bare.ends_with(['.', '?', '!', ':', ';']) && !matches!(bare, "e.g." | "i.e." | "etc.");
            if is_end {
                sentences.extend(sentence.take());
            }
        }
    }
    sentences.extend(sentence);
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(paragraphs: &[Paragraph]) -> Vec<String> {
        let join = |p: &Paragraph| p.lines.iter().map(|(_, text)| text.trim()).collect::<Vec<_>>().join(" ");
        paragraphs.iter().map(join).collect()
    }

    #[test]
    fn comments_are_paragraphs_and_code_is_left_out() {
        let text = "//! One\n//! more.\n//!\n//! ```text\n//! picture\n//! ```\nfn a() { // why `x y`\n    \"text\"; }";
        assert_eq!(texts(&of_rust(text).unwrap()), ["One more.", "a", "why  CODE", "text"]);
    }

    #[test]
    fn strings_begin_and_end_with_their_own_quotes() {
        let found = |text| texts(&of_rust(text).unwrap());
        assert_eq!(found("say(\"a \\\" // b\", '\"', br#\"c \"d\"#)"), ["a \\\" // b", "c \"d"]);
        assert_eq!(found("x<'a>(b'\"', '\\'') // c \"d\"\n\n// e\nr#fn"), ["c \"d\"", "e"]);
    }

    #[test]
    fn markdown_has_items_cells_and_code_blocks() {
        let text = "# Title\nText `a\nb` of [a link](https://x.org/who).\n\n* One.\n* Two.\n\n    indented\n\n| a | b |\n\n```\nwho\n```\n";
        let found = texts(&of_markdown(text));
        let found: Vec<_> = found.iter().filter(|text| !text.is_empty()).map(String::as_str).collect();
        assert_eq!(found, ["# Title", "Text  CODE of [a link.", "* One.", "* Two.", "a", "b"]);
    }

    #[test]
    fn sentences_end_with_marks() {
        let paragraph = &of_markdown("One two (three). Four,\nfive e.g. six: seven")[0];
        let found: Vec<_> = sentences(paragraph).into_iter().map(|s| (s.line, s.words)).collect();
        assert_eq!(found, [(1, 3), (1, 4), (2, 1)]);
    }
}
