//! The report: everything that was found, in the form that is sent back.

mod files;
mod html;
mod plot;
mod private;

use serde::{Deserialize, Serialize};

pub(crate) use files::Files;
pub(crate) use html::base64;
pub(crate) use private::Private;

use crate::options::{Mode, Step};
use crate::statistics::Figure;

/// The version of the report's fields.
pub(crate) const FORMAT: u32 = 1;

/// A whole report.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) format: u32,
    /// Of xsched-ctl.
    pub(crate) version: String,
    /// UTC.
    pub(crate) begun: String,
    pub(crate) seconds: f64,
    pub(crate) quick: bool,
    /// Why it does not have all steps.
    pub(crate) cut: Option<String>,
    /// Kernel, driver, runtime, libraries, GPU.
    pub(crate) machine: Vec<Fact>,
    pub(crate) steps: Vec<StepReport>,
}

/// A name and what it has.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl Fact {
    pub(crate) fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// What became of a step.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "verdict", content = "reason")]
pub(crate) enum Verdict {
    /// All of it was done.
    Done,
    /// Some of it failed: the rows say which.
    Failed(String),
    /// It needs something that this node lacks.
    Skipped(String),
    /// The kit was interrupted in it.
    Cut(String),
}

/// A step's section.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct StepReport {
    pub(crate) step: Step,
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
    pub(crate) seconds: f64,
    pub(crate) rows: Vec<Row>,
    /// What a reader has to know about the figures.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// Outputs.
    #[serde(default)]
    pub(crate) texts: Vec<Text>,
    #[serde(default)]
    pub(crate) plots: Vec<Plot>,
    /// Files in it.
    #[serde(default)]
    pub(crate) files: Vec<Embedded>,
}

impl StepReport {
    pub(crate) fn new(step: Step) -> Self {
        Self {
            step,
            verdict: Verdict::Done,
            seconds: 0.0,
            rows: Vec::new(),
            notes: Vec::new(),
            texts: Vec::new(),
            plots: Vec::new(),
            files: Vec::new(),
        }
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// A line of a table.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: String,
    pub(crate) mode: Mode,
    pub(crate) unit: String,
    #[serde(flatten)]
    pub(crate) measured: Measured,
}

/// What a measurement gave.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Measured {
    /// Samples.
    Figure(Figure),
    /// One number.
    Value(f64),
    /// Why there is none.
    Failed(String),
}

/// A text as a program printed it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Text {
    pub(crate) title: String,
    pub(crate) text: String,
}

/// Points over time.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Plot {
    pub(crate) title: String,
    /// What the points are, upwards.
    pub(crate) unit: String,
    pub(crate) lines: Vec<Line>,
}

/// Points of one mode: seconds, and the measured number.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Line {
    pub(crate) mode: Mode,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A file inside of the report.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Embedded {
    pub(crate) name: String,
    /// Its bytes, in base 64.
    pub(crate) base64: String,
}

#[cfg(test)]
pub(crate) fn example() -> Report {
    let figure = Figure::of(&[vec![1.0, 2.0, 9.5]]).unwrap();
    let row = |mode, measured| Row {
        what: "8 x 100 us <beside> one".to_owned(),
        mode,
        unit: "ms".to_owned(),
        measured,
    };
    let mut preemption = StepReport::new(Step::Preemption);
    preemption.rows = vec![
        row(Mode::Native, Measured::Figure(figure)),
        row(Mode::Scheduled, Measured::Value(0.5)),
        row(Mode::Compat, Measured::Failed("batch ended in `randn`".to_owned())),
    ];
    preemption.verdict = Verdict::Failed("compat: batch ended".to_owned());
    preemption.note("a & b");
    preemption.plots = vec![Plot {
        title: "requests".to_owned(),
        unit: "ms".to_owned(),
        lines: vec![Line { mode: Mode::Native, points: vec![(0.0, 1.0), (1.0, 3.0)] }],
    }];
    let mut recording = StepReport::new(Step::Recording);
    recording.verdict = Verdict::Skipped("only root records".to_owned());
    recording.texts =
        vec![Text { title: "said".to_owned(), text: "</pre><script>alert(1)</script>".to_owned() }];
    recording.files = vec![Embedded { name: "run.perfetto".to_owned(), base64: "AAEC".to_owned() }];
    Report {
        format: FORMAT,
        version: "0.1.0".to_owned(),
        begun: "2026-01-02T03:04:05Z".to_owned(),
        seconds: 12.5,
        quick: true,
        cut: Some("Ctrl-C".to_owned()),
        machine: vec![Fact::new("kernel", "6.1"), Fact::new("GPU", "simulated")],
        steps: vec![preemption, recording],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report = example();
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let step = &json["steps"][0];
        assert_eq!((&step["verdict"], &step["reason"]), (&"failed".into(), &"compat: batch ended".into()));
        assert_eq!(
            (&step["rows"][0]["mode"], &step["rows"][0]["figure"]["n"]),
            (&"native".into(), &3.into())
        );
        assert_eq!(json["steps"][1]["verdict"], "skipped");
    }
}
