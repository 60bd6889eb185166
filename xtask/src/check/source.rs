//! Divides the text of a Rust file into code, comments and string literals, for checks that compile nothing.

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    /// `//` and `/* */`.
    Comment,
    /// `///` and `//!`.
    Doc,
    /// The inside of a string literal, escapes as they are written.
    Text,
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'t> {
    pub(super) kind: Kind,
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    /// Without the marks around it.
    pub(super) text: &'t str,
}

/// The pieces of a file, in order. White space between pieces belongs to the code.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut reader = Reader { text, at: 0, code_from: 0, line: 1, pieces: Vec::new() };
    while reader.at < text.len() {
        reader.step();
    }
    reader.end_code();
    reader.pieces
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// Where the code begins that is not among the pieces yet, and on which line.
    code_from: usize,
    line: usize,
    pieces: Vec<Piece<'t>>,
}

impl Reader<'_> {
    fn step(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        match rest[0] {
            b'/' if rest.starts_with(b"//") => self.line_comment(rest),
            b'/' if rest.starts_with(b"/*") => self.block_comment(rest),
            b'"' => self.string(rest),
            b'r' if !self.is_in_word() || self.follows_prefix() => self.raw_string(rest),
            b'\'' => self.at += quote_length(rest),
            _ => self.at += 1,
        }
    }

    fn line_comment(&mut self, rest: &[u8]) {
        let length = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        let is_doc = (rest.starts_with(b"///") && !rest.starts_with(b"////")) || rest.starts_with(b"//!");
        let (kind, mark) = if is_doc { (Kind::Doc, 3) } else { (Kind::Comment, 2) };
        self.piece(kind, mark, length, 0);
    }

    fn block_comment(&mut self, rest: &[u8]) {
        let (mut at, mut depth) = (2, 1);
        while depth > 0 && at < rest.len() {
            if rest[at..].starts_with(b"*/") {
                (at, depth) = (at + 2, depth - 1);
            } else if rest[at..].starts_with(b"/*") {
                (at, depth) = (at + 2, depth + 1);
            } else {
                at += 1;
            }
        }
        self.piece(Kind::Comment, 2, at, if depth == 0 { 2 } else { 0 });
    }

    fn string(&mut self, rest: &[u8]) {
        let mut at = 1;
        while at < rest.len() && rest[at] != b'"' {
            at += if rest[at] == b'\\' { 2 } else { 1 };
        }
        let length = (at + 1).min(rest.len());
        self.piece(Kind::Text, 1, length, length - at.min(length));
    }

    /// From the `r` of `r"` or `r#"`; a raw identifier or an `r` alone is code.
    fn raw_string(&mut self, rest: &[u8]) {
        let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
        let start = hashes + 2;
        if rest.get(start - 1) != Some(&b'"') {
            self.at += 1;
            return;
        }
        let end = format!("\"{}", "#".repeat(hashes));
        let inside = self.text[self.at + start..].find(&end);
        match inside {
            Some(inside) => self.piece(Kind::Text, start, start + inside + end.len(), end.len()),
            None => self.piece(Kind::Text, start, rest.len(), 0),
        }
    }

    /// The code so far is a piece, and then `length` bytes from here, without the marks at their ends.
    fn piece(&mut self, kind: Kind, mark: usize, length: usize, end_mark: usize) {
        self.end_code();
        let end = self.at + length;
        self.pieces.push(Piece {
            kind,
            line: self.line,
            text: &self.text[self.at + mark..(end - end_mark).max(self.at + mark)],
        });
        self.line += line_ends(&self.text[self.at..end]);
        (self.at, self.code_from) = (end, end);
    }

    fn end_code(&mut self) {
        let text = &self.text[self.code_from..self.at];
        if !text.trim().is_empty() {
            self.pieces.push(Piece { kind: Kind::Code, line: self.line, text });
        }
        self.line += line_ends(text);
        self.code_from = self.at;
    }

    /// Whether a word begins earlier and goes on here.
    fn is_in_word(&self) -> bool {
        self.text[..self.at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }

    /// Whether this is the `r` of `br"` or `cr"`.
    fn follows_prefix(&self) -> bool {
        let word = self.text[..self.at].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
        matches!(word, Some("b" | "c"))
    }
}

/// The length of a character literal; 1 for the mark of a lifetime or label.
pub(super) fn quote_length(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        // The escaped character itself may be a quote.
        let close = rest.iter().skip(3).position(|b| *b == b'\'');
        return close.map_or(rest.len(), |at| at + 4);
    }
    let close = rest.iter().skip(1).take(5).position(|b| *b == b'\'');
    match close {
        // One character, of up to four bytes.
        Some(length @ 1..) if str::from_utf8(&rest[1..=length]).is_ok_and(|s| s.chars().count() == 1) => {
            length + 2
        }
        _ => 1,
    }
}

fn line_ends(text: &str) -> usize {
    text.bytes().filter(|b| *b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(Kind, usize, &str)> {
        pieces(text).into_iter().map(|p| (p.kind, p.line, p.text.trim())).collect()
    }

    #[test]
    fn code_comments_and_strings_are_divided() {
        let text = "//! File.\nfn a() { // why\n    say(\"a \\\" // b\");\n}\n/* c /* d */\ne */ x";
        assert_eq!(
            read(text),
            [
                (Kind::Doc, 1, "File."),
                (Kind::Code, 1, "fn a() {"),
                (Kind::Comment, 2, "why"),
                (Kind::Code, 2, "say("),
                (Kind::Text, 3, "a \\\" // b"),
                (Kind::Code, 3, ");\n}"),
                (Kind::Comment, 5, "c /* d */\ne"),
                (Kind::Code, 6, "x"),
            ]
        );
    }

    #[test]
    fn raw_strings_end_with_as_many_hashes() {
        assert_eq!(read("r#\"a \"b\"#"), [(Kind::Text, 1, "a \"b")]);
        assert_eq!(read("br\"\\\""), [(Kind::Code, 1, "b"), (Kind::Text, 1, "\\")]);
        assert_eq!(read("r#type"), [(Kind::Code, 1, "r#type")]);
        assert_eq!(read("for r in \"x\""), [(Kind::Code, 1, "for r in"), (Kind::Text, 1, "x")]);
    }

    #[test]
    fn quotes_of_characters_and_lifetimes_begin_no_string() {
        for code in ["'\"' x", "'\\'' x", "'\\u{22}' x", "b'\"' x", "<'a, 'b> x", "'µ' x", "' ' x"] {
            assert_eq!(read(code), [(Kind::Code, 1, code)]);
        }
    }

    #[test]
    fn text_that_ends_too_early_is_still_read() {
        for text in ["\"a", "/* a", "r#\"abc", "'", "'\\", "//", "\"\\"] {
            pieces(text);
        }
    }
}
