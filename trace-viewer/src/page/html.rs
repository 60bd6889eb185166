//! Writes HTML and SVG in which only the names of elements and attributes are markup.

use std::fmt::Write as _;

/// A piece of a page. Tags and the names of attributes are constants of the program; every value is escaped.
#[derive(Debug, Default)]
pub(super) struct Html(String);

/// Attributes: name, value.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Html {
    /// Begins an element.
    pub(super) fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes {
            write!(self.0, " {name}=\"").expect("a String takes everything");
            self.text(value);
            self.0.push('"');
        }
        self.0.push('>');
    }

    /// Ends an element.
    pub(super) fn close(&mut self, tag: &'static str) {
        write!(self.0, "</{tag}>").expect("a String takes everything");
    }

    /// An element that contains only text.
    pub(super) fn element(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.open(tag, attributes);
        self.text(text);
        self.close(tag);
    }

    /// Text; every character with a meaning in HTML is escaped.
    pub(super) fn text(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // Not allowed in a page: the replacement character is shown in its place.
                '\0' => self.0.push('\u{fffd}'),
                other => self.0.push(other),
            }
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped() {
        let mut html = Html::default();
        html.element("p", &[("title", "\" onclick='x")], "</p><script>&amp;");
        assert_eq!(html.as_str(), "<p title=\"&quot; onclick=&#39;x\">&lt;/p&gt;&lt;script&gt;&amp;amp;</p>");
    }
}
