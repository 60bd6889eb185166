//! What a participant of a measurement says, one line each on its standard output: `@field ` and a word as JSON.
//!
//! ```text
//! participant                               kit
//!   @field {"trying":"randn"}          -->       (any number of times)
//!   @field "ready"                     -->       waits for all participants
//!                                      <--       a line: go
//!   @field {"result":{"samples":[..]}} -->       and the participant ends
//! ```
//!
//! Other lines are the application's own; the kit keeps the last of them.

use serde::{Deserialize, Serialize};

/// How each line of the protocol begins.
pub(crate) const PREFIX: &str = "@field ";

/// A word of a participant.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Word {
    /// It has done everything that is not measured.
    Ready,
    /// What it begins now: the kit names it if the participant ends there.
    Trying(String),
    /// A part is done: of a ladder, one rung.
    Done(Rung),
    /// What it has measured.
    Result(Outcome),
}

/// One rung of a ladder.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Rung {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) ms: Option<f64>,
    /// Why it failed.
    #[serde(default)]
    pub(crate) error: Option<String>,
}

/// The result of a participant.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Outcome {
    /// Why there is no other result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// What it lacks, where a measurement is left out on purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) absent: Option<String>,
    /// Figures by name, each in the unit of its name's last word.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) series: Vec<Series>,
    /// Single numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) values: Vec<(String, f64)>,
    /// Names and versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) facts: Vec<(String, String)>,
}

/// Measurements of one kind.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) samples: Vec<f64>,
}

impl Outcome {
    /// A number by its name.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|(of, _)| of == name).map(|(_, value)| *value)
    }

    /// A fact by its name.
    pub(crate) fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|(of, _)| of == name).map(|(_, fact)| fact.as_str())
    }

    /// Measurements by their name.
    pub(crate) fn samples(&self, name: &str) -> &[f64] {
        self.series.iter().find(|series| series.name == name).map_or(&[], |series| &series.samples)
    }
}

/// The word in a line, if it has one.
pub(crate) fn heard(line: &str) -> Option<Word> {
    serde_json::from_str(line.strip_prefix(PREFIX)?).ok()
}

/// The line for a word.
pub(crate) fn line(word: &Word) -> String {
    let json = serde_json::to_string(word).expect("words have no maps with odd keys");
    format!("{PREFIX}{json}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        let outcome = Outcome {
            series: vec![Series { name: "request".to_owned(), samples: vec![0.5, 1.25] }],
            values: vec![("kernels".to_owned(), 3.0)],
            ..Outcome::default()
        };
        for word in [
            Word::Ready,
            Word::Trying("randn".to_owned()),
            Word::Done(Rung { name: "matmul".to_owned(), ms: Some(1.5), error: None }),
            Word::Result(outcome),
        ] {
            let line = line(&word);
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line:?}");
            assert_eq!(heard(line.trim_end()), Some(word));
        }
    }

    #[test]
    fn lines_of_applications_are_no_words() {
        for line in [
            "ready",
            "\"ready\"",
            "@field",
            "@field ready",
            "@field {\"ready\":",
            "@field {\"nonsense\":1}",
            "",
        ] {
            assert_eq!(heard(line), None, "{line}");
        }
    }

    #[test]
    fn a_result_may_lack_everything() {
        assert_eq!(heard("@field {\"result\":{}}"), Some(Word::Result(Outcome::default())));
    }
}
