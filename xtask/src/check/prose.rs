//! Finds the text that people read in Rust and Markdown files: paragraphs, sentences and words.

use super::source::{self, Kind};

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
pub(super) fn of_rust(text: &str) -> Vec<Paragraph> {
    let mut reader = Reader::default();
    let mut last = (Kind::Code, 0);
    for piece in source::pieces(text) {
        let lines = piece.text.lines().zip(piece.line..);
        // Lines of one comment follow each other with nothing but indentation between them.
        if last != (piece.kind, piece.line) {
            reader.end();
            reader.is_in_code = false;
        }
        reader.is_measured = piece.kind == Kind::Doc;
        match piece.kind {
            Kind::Code => lines.for_each(|(line, number)| reader.names(number, line)),
            Kind::Doc | Kind::Comment => lines.for_each(|(line, number)| reader.line(number, line)),
            Kind::Text => lines.for_each(|(line, number)| reader.paragraph.push((number, line.to_owned()))),
        }
        last = (piece.kind, piece.line + piece.text.lines().count().max(1));
    }
    reader.end();
    reader.paragraphs
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

    /// Each name that a line of code defines is a text.
    fn names(&mut self, number: usize, code: &str) {
        let mut is_defined = false;
        for word in code.split(|c: char| c != '_' && !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            if is_defined {
                self.paragraph.push((number, word.replace('_', " ")));
                self.end();
            }
            is_defined =
                matches!(word, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "mod");
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
        assert_eq!(texts(&of_rust(text)), ["One more.", "a", "why  CODE", "text"]);
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
