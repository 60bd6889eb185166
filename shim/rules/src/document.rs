//! Reads a TOML file key by key, so that each mistake is reported with its line.
//!
//! A reader handles the keys that it knows and refuses all others with [`Entry::unknown`], which suggests the key that was
//! probably meant.

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::patterns::{Pattern, PatternError};
use crate::suggest::closest;

/// A mistake in a file, with its line.
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
    /// The text is not valid TOML.
    #[error("{0}")]
    Syntax(String),
    /// A name is not known.
    #[error("there is no {kind} `{found}`{}", suggestion(*.meant, .known))]
    Unknown {
        /// The kind of name: `table`, `key`, `policy`, ...
        kind: &'static str,
        /// The name in the file.
        found: String,
        /// The name that was probably meant.
        meant: Option<&'static str>,
        /// All known names, if they are few.
        known: Vec<&'static str>,
    },
    /// A value has the wrong type.
    #[error("`{key}` must be {wanted}, not {found}")]
    Type {
        /// The key.
        key: String,
        /// The expected type.
        wanted: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// A value has the right type but is not valid.
    #[error("`{key}`: {problem}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong with the value.
        problem: String,
    },
    /// A pattern is not valid.
    #[error("{0}")]
    Pattern(#[from] PatternError),
    /// A table, or several values together, are not valid.
    #[error("{0}")]
    Together(&'static str),
}

fn suggestion(meant: Option<&str>, known: &[&str]) -> String {
    match meant {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; there are: {}", known.join(", ")),
    }
}

/// The most mistakes that are reported for a file. More would not help its author, and the text may come from any process.
const MISTAKES_MAX: usize = 50;

/// The mistakes of a file: at least one, in the order of their lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    named: Vec<RulesError>,
    /// There may be more mistakes.
    is_cut: bool,
}

impl Mistakes {
    /// The first mistake.
    pub fn first(&self) -> &RulesError {
        &self.named[0]
    }

    /// One line for each mistake, beginning with the file's name.
    pub fn of_file(&self, path: &Path) -> String {
        let path = path.display();
        let mut lines: Vec<_> = self.named.iter().map(|mistake| format!("{path}, {mistake}")).collect();
        if self.is_cut {
            lines.push(format!("{path} has too many mistakes; the rest was not read"));
        }
        lines.join("\n")
    }
}

/// The first mistake, and the number of further ones.
impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.named.len() - 1;
        write!(f, "{}", self.first())?;
        if others == 0 { Ok(()) } else { write!(f, "; and {others} more") }
    }
}

impl Error for Mistakes {}

/// A mistake, and its byte offset.
#[derive(Debug)]
pub struct Fault(usize, Mistake);

/// The faults of a document so far. Readers continue after a fault, so that all are reported together.
#[derive(Debug, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Records the fault of an `Err`; returns the value of an `Ok`.
    pub fn note<T>(&mut self, read: Result<T, Fault>) -> Option<T> {
        read.map_err(|fault| self.0.push(fault)).ok()
    }
}

/// Reads a document; `read` gets its outermost table. Returns what could be read, and the mistakes if there are any.
pub fn read<T>(text: &str, read: impl FnOnce(Section<'_>, &mut Faults) -> T) -> (T, Option<Mistakes>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut faults = Faults::default();
    let result = read(Section { text, offset: 0, table: document.get_ref() }, &mut faults);
    if !errors.is_empty() {
        // Other faults may be consequences of the parts that could not be parsed.
        let fault = |error: toml::de::Error| {
            let offset = error.span().map_or(0, |span| span.start);
            Fault(offset, Mistake::Syntax(error.message().to_owned()))
        };
        faults = Faults(errors.into_iter().take(MISTAKES_MAX).map(fault).collect());
    }
    let Faults(mut faults) = faults;
    faults.sort_by_key(|Fault(offset, _)| *offset);
    let is_cut = faults.len() >= MISTAKES_MAX;
    faults.truncate(MISTAKES_MAX);
    let located = |Fault(offset, mistake)| RulesError { line: line_of(text, offset), mistake };
    let mut named: Vec<_> = faults.into_iter().map(located).collect();
    // One syntax error often causes further errors in the same line.
    named.dedup_by(|later, earlier| {
        later.line == earlier.line && matches!(earlier.mistake, Mistake::Syntax(_))
    });
    (result, (!named.is_empty()).then_some(Mistakes { named, is_cut }))
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct Section<'d> {
    /// The whole document.
    text: &'d str,
    offset: usize,
    table: &'d DeTable<'d>,
}

impl<'d> Section<'d> {
    /// The entries of the table.
    fn entries(self) -> impl Iterator<Item = Entry<'d>> {
        let text = self.text;
        self.table.iter().map(move |(key, value)| Entry {
            key: key.get_ref(),
            text,
            offset: key.span().start,
            value,
        })
    }

    /// Passes each entry to `read`, also after a fault; returns true if there is no fault.
    pub fn each(
        self,
        faults: &mut Faults,
        mut read: impl FnMut(Entry<'d>, &mut Faults) -> Result<(), Fault>,
    ) -> bool {
        let before = faults.0.len();
        for entry in self.entries() {
            if faults.0.len() >= MISTAKES_MAX {
                return false;
            }
            let read = read(entry, faults);
            faults.note(read);
        }
        faults.0.len() == before
    }

    /// The line of the table's header, counted from 1.
    pub fn line(self) -> usize {
        line_of(self.text, self.offset)
    }

    /// A fault of the table as a whole.
    pub fn fault(self, mistake: Mistake) -> Fault {
        Fault(self.offset, mistake)
    }
}

/// A key with its value.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'d> {
    /// The key.
    pub key: &'d str,
    text: &'d str,
    offset: usize,
    value: &'d Spanned<DeValue<'d>>,
}

impl<'d> Entry<'d> {
    /// The fault that there is no `kind` (`key`, `table`) of this name.
    pub fn unknown(&self, kind: &'static str, known: &[&'static str]) -> Fault {
        Fault(self.offset, unknown(kind, self.key, known))
    }

    /// A table.
    pub fn section(&self) -> Result<Section<'d>, Fault> {
        match self.value.get_ref() {
            DeValue::Table(table) => Ok(Section { text: self.text, offset: self.offset, table }),
            _ => Err(self.wrong_type("a table", self.value)),
        }
    }

    /// The tables of an array of tables (`[[name]]`).
    pub fn sections(&self) -> Result<Vec<Section<'d>>, Fault> {
        const WANTED: &str = "a list of tables, each with its name in double brackets";
        let DeValue::Array(items) = self.value.get_ref() else {
            return Err(self.wrong_type(WANTED, self.value));
        };
        items
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::Table(table) => Ok(Section { text: self.text, offset: item.span().start, table }),
                _ => Err(self.wrong_type(WANTED, item)),
            })
            .collect()
    }

    /// A text; `wanted` describes it for the error message.
    pub fn text(&self, wanted: &'static str) -> Result<&'d str, Fault> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self.wrong_type(wanted, self.value)),
        }
    }

    /// One of several words, as its index in `known`. `kind` describes the words.
    pub fn word(&self, kind: &'static str, known: &[&'static str]) -> Result<usize, Fault> {
        let text = self.text("a word")?;
        known
            .iter()
            .position(|word| *word == text)
            .ok_or_else(|| Fault(self.value.span().start, unknown(kind, text, known)))
    }

    /// A whole number within bounds.
    pub fn integer(&self, bounds: RangeInclusive<i64>) -> Result<i64, Fault> {
        let DeValue::Integer(number) = self.value.get_ref() else {
            return Err(self.wrong_type("a whole number", self.value));
        };
        match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) if bounds.contains(&number) => Ok(number),
            _ => Err(self.refuse(format!("expected {} to {}", bounds.start(), bounds.end()))),
        }
    }

    /// `true` or `false`.
    pub fn truth(&self) -> Result<bool, Fault> {
        match self.value.get_ref() {
            DeValue::Boolean(truth) => Ok(*truth),
            _ => Err(self.wrong_type("true or false", self.value)),
        }
    }

    /// A glob.
    pub fn pattern(&self) -> Result<Pattern, Fault> {
        let glob = self.text("a text, in which `*` and `?` match any characters")?;
        Pattern::new(glob).map_err(|error| Fault(self.value.span().start, error.into()))
    }

    /// A glob for programs: it matches file names, or paths if it has a slash.
    pub fn program(&self) -> Result<Pattern, Fault> {
        let glob = self.text("a name such as \"trainer\", or a path such as \"/opt/*/app\"")?;
        program(glob).map_err(|mistake| Fault(self.value.span().start, mistake))
    }

    /// A glob for cgroups.
    pub fn cgroup(&self) -> Result<Pattern, Fault> {
        let glob = self.text("a path such as \"/system.slice/*\"")?;
        cgroup(glob).map_err(|mistake| Fault(self.value.span().start, mistake))
    }

    /// A list of globs; `wanted` gives an example.
    pub fn patterns(&self, wanted: &'static str) -> Result<Vec<Pattern>, Fault> {
        let DeValue::Array(items) = self.value.get_ref() else {
            return Err(self.wrong_type(wanted, self.value));
        };
        items
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::String(glob) => {
                    Pattern::new(glob).map_err(|error| Fault(item.span().start, error.into()))
                }
                _ => Err(self.wrong_type(wanted, item)),
            })
            .collect()
    }

    /// A text or a list of texts; `wanted` gives an example. `convert` converts each text, or returns its mistake.
    pub fn some<T>(
        &self,
        wanted: &'static str,
        convert: impl Fn(&str) -> Result<T, Mistake>,
    ) -> Result<Vec<T>, Fault> {
        let one = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
            DeValue::String(text) => convert(text).map_err(|mistake| Fault(value.span().start, mistake)),
            _ => Err(self.wrong_type(wanted, value)),
        };
        match self.value.get_ref() {
            DeValue::Array(items) if items.is_empty() => {
                Err(self.refuse("an empty list matches nothing; omit the key to match anything".to_owned()))
            }
            DeValue::Array(items) => items.iter().map(one).collect(),
            _ => one(self.value).map(|only| vec![only]),
        }
    }

    /// The fault that the value is not valid.
    pub fn refuse(&self, problem: String) -> Fault {
        Fault(self.value.span().start, Mistake::Value { key: self.key.to_owned(), problem })
    }

    fn wrong_type(&self, wanted: &'static str, value: &Spanned<DeValue<'_>>) -> Fault {
        let found = match value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "a truth value",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        Fault(value.span().start, Mistake::Type { key: self.key.to_owned(), wanted, found })
    }
}

/// A glob for file names, or for paths if it has a slash. Refuses globs that can match neither.
pub(crate) fn program(glob: &str) -> Result<Pattern, Mistake> {
    if glob.contains('/') && !glob.starts_with(['/', '*', '?']) {
        return Err(Mistake::Together(
            "a name with a slash must be a path from the root, such as \"/opt/*/app\" or \"*/app\"",
        ));
    }
    Ok(Pattern::new(glob)?)
}

/// A glob for cgroups. Refuses globs that can match none.
pub(crate) fn cgroup(glob: &str) -> Result<Pattern, Mistake> {
    if !glob.is_empty() && !glob.starts_with(['/', '*', '?']) {
        return Err(Mistake::Together("a cgroup is a path from the root on, such as \"/system.slice/*\""));
    }
    if glob.len() > 1 && glob.ends_with('/') {
        return Err(Mistake::Together(
            "a cgroup's path must not end with a slash; it also matches the cgroups below",
        ));
    }
    Ok(Pattern::new(glob)?)
}

fn unknown(kind: &'static str, found: &str, known: &[&'static str]) -> Mistake {
    let meant = closest(found, known.iter().copied());
    Mistake::Unknown { kind, found: found.to_owned(), meant, known: known.to_vec() }
}

/// The mistake that there is no function of this name.
pub(crate) fn unknown_function(found: &str, known: impl IntoIterator<Item = &'static str>) -> Mistake {
    let meant = closest(found, known);
    Mistake::Unknown { kind: "function", found: found.to_owned(), meant, known: Vec::new() }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a document with one entry.
    fn one<T>(text: &str, convert: impl Fn(Entry<'_>) -> Result<T, Fault>) -> Result<T, String> {
        let (read, mistakes) = read(text, |root, faults| {
            let read = convert(root.entries().next().expect("one entry"));
            faults.note(read)
        });
        mistakes.map_or_else(
            || Ok(read.expect("an entry without a fault has a value")),
            |mistakes| Err(mistakes.to_string()),
        )
    }

    #[test]
    fn reading_continues_after_a_mistake() {
        let mut read_keys = Vec::new();
        let ((), mistakes) = read("b = 'x'\na = 1\n\nc = 'y'\n", |root, faults| {
            root.each(faults, |entry, _| {
                read_keys.push(entry.key.to_owned());
                entry.truth().map(drop)
            });
        });
        assert_eq!(read_keys.len(), 3);
        let mistakes = mistakes.unwrap();
        assert_eq!(
            mistakes.of_file(Path::new("f.toml")),
            "f.toml, line 1: `b` must be true or false, not a text\n\
             f.toml, line 2: `a` must be true or false, not a number\n\
             f.toml, line 4: `c` must be true or false, not a text"
        );
        assert_eq!(mistakes.to_string(), "line 1: `b` must be true or false, not a text; and 2 more");
    }

    #[test]
    fn the_number_of_reported_mistakes_is_limited() {
        let text =
            (0..MISTAKES_MAX + 7).map(|number| format!("k{number} = 1")).collect::<Vec<_>>().join("\n");
        let ((), mistakes) = read(&text, |root, faults| {
            root.each(faults, |entry, _| entry.truth().map(drop));
        });
        let lines = mistakes.unwrap().of_file(Path::new("f"));
        assert_eq!(lines.lines().count(), MISTAKES_MAX + 1);
        assert!(lines.ends_with("\nf has too many mistakes; the rest was not read"), "{lines}");
    }

    #[test]
    fn syntax_errors_hide_other_mistakes() {
        let ((), mistakes) = read("a = \nb = 1\nc = = 2\n", |root, faults| {
            root.each(faults, |entry, _| Err(entry.unknown("key", &["d"])));
        });
        let mistakes = mistakes.unwrap();
        let lines: Vec<_> = mistakes.named.iter().map(|mistake| mistake.line).collect();
        assert_eq!(lines, [1, 3], "{mistakes}");
        assert!(mistakes.named.iter().all(|one| matches!(one.mistake, Mistake::Syntax(_))), "{mistakes}");
    }

    #[test]
    fn values_are_read_by_type() {
        assert_eq!(one("a = 0x10", |entry| entry.integer(0..=16)), Ok(16));
        assert_eq!(one("a = true", |entry| entry.truth()), Ok(true));
        assert_eq!(one("a = 'two'", |entry| entry.word("number", &["one", "two"])), Ok(1));
        assert_eq!(one("a = 'x*'", |entry| entry.pattern().map(|glob| glob.matches("xy"))), Ok(true));
        assert_eq!(one("[[a]]\n[[a]]", |entry| entry.sections().map(|all| all.len())), Ok(2));
        let refused = |text, message: &str| {
            assert_eq!(one(text, |entry| entry.integer(-3..=3)).unwrap_err(), message);
        };
        refused("\na = 4", "line 2: `a`: expected -3 to 3");
        refused("a = 99999999999999999999", "line 1: `a`: expected -3 to 3");
        refused("a = '1'", "line 1: `a` must be a whole number, not a text");
    }

    #[test]
    fn a_wrong_word_is_reported_with_suggestions() {
        let refused = one("a = 'tiger'", |entry| entry.word("animal", &["cat", "tigers"])).unwrap_err();
        assert_eq!(refused, "line 1: there is no animal `tiger`; did you mean `tigers`?");
        let refused = one("a = 'horse'", |entry| entry.word("animal", &["cat", "tigers"])).unwrap_err();
        assert_eq!(refused, "line 1: there is no animal `horse`; there are: cat, tigers");
    }

    #[test]
    fn a_table_is_reported_with_the_line_of_its_header() {
        let refused = one("\n\n[[a]]\nb = 1", |entry| -> Result<(), Fault> {
            Err(entry.sections()?[0].fault(Mistake::Together("these keys exclude each other")))
        });
        assert_eq!(refused.unwrap_err(), "line 3: these keys exclude each other");
    }
}
