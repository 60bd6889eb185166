//! From the text of a file to rules on the call chain.

use crate::document::{self, Fault, Section};
use crate::origin::Rules;
use crate::patterns::Pattern;

const TABLES: [&str; 1] = ["origin"];
const ORIGIN_KEYS: [&str; 2] = ["also_transparent", "transparent"];

impl Rules {
    /// Reads the text of a file of rules. What it does not mention stays as built in.
    pub fn parse(text: &str) -> Result<Self, document::RulesError> {
        document::read(text, |root| {
            let mut rules = Self::default();
            for entry in root.entries() {
                match entry.key {
                    "origin" => rules.parse_origin(entry.section()?)?,
                    _ => return Err(entry.unknown("table", &TABLES)),
                }
            }
            Ok(rules)
        })
    }

    fn parse_origin(&mut self, origin: Section<'_>) -> Result<(), Fault> {
        const WANTED: &str = "a list of file names such as [\"libmine.so*\"]";
        let mut added: Vec<Pattern> = Vec::new();
        for entry in origin.entries() {
            match entry.key {
                "transparent" => self.transparent = entry.patterns(WANTED)?,
                "also_transparent" => added = entry.patterns(WANTED)?,
                _ => return Err(entry.unknown("key", &ORIGIN_KEYS)),
            }
        }
        self.transparent.append(&mut added);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Mistake;

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
