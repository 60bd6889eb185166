//! From the text of a file to rules, with errors that name the line.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::origin::Rules;
use crate::patterns::{Pattern, PatternError};
use crate::suggest::closest;

const TABLES: [&str; 1] = ["origin"];
const ORIGIN_KEYS: [&str; 2] = ["also_transparent", "transparent"];

/// What is wrong with a file of rules, and in which line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {mistake}")]
pub struct RulesError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub mistake: Mistake,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// It is no TOML.
    #[error("{0}")]
    Syntax(String),
    /// There is no such thing.
    #[error("there is no {kind} `{found}`{}", suggestion(*.meant))]
    Unknown {
        /// `table` or `key`.
        kind: &'static str,
        /// What is there.
        found: String,
        /// What was probably meant.
        meant: Option<&'static str>,
    },
    /// A value has the wrong type.
    #[error("`{key}` must be {wanted}, not {found}")]
    Type {
        /// Its name.
        key: String,
        /// What it must be.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A pattern is refused.
    #[error("{0}")]
    Pattern(#[from] PatternError),
}

fn suggestion(meant: Option<&str>) -> String {
    meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

/// Where something stands, in bytes, and what is wrong with it.
struct Fault(usize, Mistake);

impl Rules {
    /// Reads the text of a file of rules. What it does not mention stays as built in.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let located = |Fault(offset, mistake)| RulesError { line: line_of(text, offset), mistake };
        let document = DeTable::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            located(Fault(offset, Mistake::Syntax(error.message().to_owned())))
        })?;
        let mut rules = Self::default();
        for (name, value) in document.get_ref() {
            match &**name.get_ref() {
                "origin" => rules.parse_origin(value),
                other => Err(unknown("table", name.span().start, other, &TABLES)),
            }
            .map_err(located)?;
        }
        Ok(rules)
    }

    fn parse_origin(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), Fault> {
        let DeValue::Table(origin) = value.get_ref() else {
            return Err(wrong_type("origin", "a table", value));
        };
        let mut added = Vec::new();
        for (key, value) in origin {
            match &**key.get_ref() {
                "transparent" => self.transparent = patterns("transparent", value)?,
                "also_transparent" => added = patterns("also_transparent", value)?,
                other => return Err(unknown("key", key.span().start, other, &ORIGIN_KEYS)),
            }
        }
        self.transparent.append(&mut added);
        Ok(())
    }
}

fn patterns(key: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<Pattern>, Fault> {
    const WANTED: &str = "a list of file names such as [\"libmine.so*\"]";
    let DeValue::Array(items) = value.get_ref() else { return Err(wrong_type(key, WANTED, value)) };
    items
        .iter()
        .map(|item| match item.get_ref() {
            DeValue::String(glob) => {
                Pattern::new(glob).map_err(|error| Fault(item.span().start, error.into()))
            }
            _ => Err(wrong_type(key, WANTED, item)),
        })
        .collect()
}

fn unknown(kind: &'static str, offset: usize, found: &str, known: &[&'static str]) -> Fault {
    let meant = closest(found, known.iter().copied());
    Fault(offset, Mistake::Unknown { kind, found: found.to_owned(), meant })
}

fn wrong_type(key: &str, wanted: &'static str, value: &Spanned<DeValue<'_>>) -> Fault {
    let found = match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    Fault(value.span().start, Mistake::Type { key: key.to_owned(), wanted, found })
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_replace_or_extend_the_built_in_one() {
        let extended = Rules::parse("[origin]\nalso_transparent = [\"libmine.so*\"]\n").unwrap();
        assert!(extended.is_transparent("libmine.so.1") && extended.is_transparent("libamdhip64.so.6"));
        let replaced = Rules::parse("origin.transparent = [\"libmine.so*\"]").unwrap();
        assert!(replaced.is_transparent("libmine.so.1") && !replaced.is_transparent("libamdhip64.so.6"));
        assert!(Rules::parse("# nothing\n").unwrap().is_transparent("libamdhip64.so.6"));
    }

    #[track_caller]
    fn assert_refused(text: &str, message: &str) {
        assert_eq!(Rules::parse(text).unwrap_err().to_string(), message);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        assert_refused("\n[orgin]\n", "line 2: there is no table `orgin`; did you mean `origin`?");
        assert_refused("[[weather]]\n", "line 1: there is no table `weather`");
        assert_refused(
            "[origin]\n\ntransparant = []\n",
            "line 3: there is no key `transparant`; did you mean `transparent`?",
        );
        assert_refused(
            "[origin]\ntransparent = \"libx.so\"\n",
            "line 2: `transparent` must be a list of file names such as [\"libmine.so*\"], not a text",
        );
        assert_refused(
            "[origin]\ntransparent = [\n  \"libx.so\",\n  7,\n]\n",
            "line 4: `transparent` must be a list of file names such as [\"libmine.so*\"], not a number",
        );
        assert_refused("[origin]\ntransparent = [\"\"]\n", "line 2: an empty pattern matches nothing");
        assert_refused("origin = 3\n", "line 1: `origin` must be a table, not a number");
    }

    #[test]
    fn what_is_no_toml_is_refused_with_its_line() {
        let error = Rules::parse("[origin]\ntransparent = [\"a\n").unwrap_err();
        assert_eq!(error.line, 2, "{error}");
        assert!(matches!(error.mistake, Mistake::Syntax(_)), "{error:?}");
        assert!(Rules::parse("[origin]\ntransparent = []\ntransparent = []\n").unwrap_err().line >= 2);
    }
}
