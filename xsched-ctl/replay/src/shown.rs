//! What is printed: a table, or one JSON object.

use std::fmt::Write as _;

use serde_json::{Value, json};
use xsched_terminal::{counted, duration, short_name, write_table};

use crate::figures::Figures;
use crate::rebuild::Programs;
use crate::recording::Recording;

/// What the model leaves out, which a reader of its figures has to know.
pub(crate) const LEFT_OUT: [&str; 6] = [
    "a device runs one command at a time: what several processes or streams gain side by side is not in the model",
    "a command takes as long under every policy; caches, clocks and memory do not change that",
    "a process waits on its host where the recording shows it, and for as long; processors are never short",
    "streams of one process are served in the order of their submissions, all at the priority of the process",
    "waits of one stream or process for another are not known",
    "parameters and policy stay as they were at the end of the recording",
];

/// Percent by which the model of the recorded policy may be off, before a reader is told not to trust what follows from it.
const FIT_PERCENT: f64 = 25.0;

/// The runs of one replay.
pub(crate) struct Runs<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) programs: &'a Programs,
    pub(crate) recorded: Vec<Figures>,
    pub(crate) modelled: Vec<Figures>,
    /// The name of the policy that was asked for, and its figures.
    pub(crate) asked: Option<(String, Vec<Figures>)>,
}

impl Runs<'_> {
    pub(crate) fn text(&self) -> String {
        let Self { recording, programs, recorded, modelled, asked } = self;
        let commands: usize =
            programs.all.iter().flat_map(|program| &program.streams).map(|one| one.steps.len()).sum();
        let mut text = format!(
            "recorded under {}: {}, {}, {}\n\n",
            recording.policy,
            counted(recording.processes.len() as u64, "process", "processes"),
            counted(commands as u64, "command", "commands"),
            duration(Some(programs.until.0)),
        );
        let mut rows = Vec::new();
        for (index, program) in programs.all.iter().enumerate() {
            let name = recording.processes.get(&program.pid).map_or("", |process| &process.label);
            let mut row = |name: &str, run: String, own: &Figures, before: Option<&Figures>| {
                let change = before.map(|before| own.change_from(before));
                let percent =
                    |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:+.1} %"));
                rows.push([
                    name.to_owned(),
                    run,
                    own.requests.to_string(),
                    duration(Some(own.p50.0)),
                    percent(change.map(|change| change.p50)),
                    duration(Some(own.p99.0)),
                    percent(change.map(|change| change.p99)),
                    format!("{:.1}", own.commands),
                    percent(change.map(|change| change.commands)),
                    format!("{:.1} %", own.device),
                ]);
            };
            let (was, model) = (&recorded[index], &modelled[index]);
            row(&short_name(name), "recorded".to_owned(), was, None);
            row("", format!("model of {}", recording.policy), model, Some(was));
            if let Some((asked, figures)) = asked {
                row("", asked.clone(), &figures[index], Some(model));
            }
        }
        let headings = ["process", "run", "requests", "p50", "", "p99", "", "commands/s", "", "device"];
        // A text takes everything.
        let _ = write_table(&mut text, headings, rows, 2);
        text.push_str("\nPercentages of the model are what it is off from the recording");
        if asked.is_some() {
            let _ = write!(text, "; the others are changes from the model of {}", recording.policy);
        }
        text.push_str(
            ".\nA request is what a stream submits without waiting in between. The model leaves out:\n",
        );
        for what in LEFT_OUT {
            let _ = writeln!(text, "* {what}");
        }
        if self.misfit() > FIT_PERCENT {
            let _ = writeln!(
                text,
                "\nThe model does not fit this recording: it is off by up to {:.0} %. Do not trust what it says of other policies.",
                self.misfit()
            );
        }
        text
    }

    /// By how many percent the model of the recorded policy is off, at most, in latency (p50) or throughput of a process.
    fn misfit(&self) -> f64 {
        let changes = self.recorded.iter().zip(&self.modelled).map(|(was, model)| model.change_from(was));
        changes.map(|change| change.p50.abs().max(change.commands.abs())).fold(0.0, f64::max)
    }

    pub(crate) fn json(&self) -> Value {
        let processes = self.programs.all.iter().enumerate().map(|(index, program)| {
            let (was, model) = (&self.recorded[index], &self.modelled[index]);
            let name = self.recording.processes.get(&program.pid).map_or("", |process| process.name());
            let mut process = json!({
                "pid": program.pid,
                "name": name,
                "device": &*program.device,
                "recorded": was.json(),
                "model": model.json(),
                "off": model.change_from(was).json(),
            });
            if let Some((_, asked)) = &self.asked {
                process["asked"] = asked[index].json();
                process["change"] = asked[index].change_from(model).json();
            }
            process
        });
        json!({
            "policy": self.recording.policy.to_string(),
            "asked": self.asked.as_ref().map(|(name, _)| name),
            "length_ns": self.programs.until.0,
            "fits": self.misfit() <= FIT_PERCENT,
            "processes": processes.collect::<Vec<_>>(),
            "left_out": LEFT_OUT,
        })
    }
}
