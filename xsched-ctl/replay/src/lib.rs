//! `xsched-ctl replay`: what if a recorded load had run under another policy, or with other parameters.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `recording` | what the file says |
//! | `rebuild` | programs: device times, and what each submission follows |
//! | `model`, `change` | programs as claims of the scheduler's simulation, with the parameters that are asked for |
//! | `figures` | latencies and throughput |
//! | `shown`, `timeline` | the output |
//!
//! The simulation itself is `xsched_sched::simulation`. Memory grows with the number of commands.

mod change;
mod error;
mod figures;
mod model;
mod rebuild;
mod recording;
mod shown;
mod timeline;

pub use change::Change;
pub use error::ReplayError;

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use xsched_perfetto::Input;
use xsched_sched::PolicyKind;
use xsched_terminal::{print, say};

use figures::Figures;
use model::{changed_parameters, model, recorded_parameters};
use rebuild::Programs;
use recording::Recording;
use shown::Runs;

/// What is to be replayed.
#[derive(Clone, Debug)]
pub struct Options {
    /// The recording, compressed or not.
    pub file: PathBuf,
    /// The policy to try; none: the recorded one.
    pub policy: Option<PolicyKind>,
    /// Parameters to try.
    pub changes: Vec<Change>,
    /// Where to write the timeline of the run.
    pub output: Option<PathBuf>,
    /// Print one JSON object.
    pub json: bool,
}

/// Runs the verb.
pub fn run(options: &Options) -> Result<(), ReplayError> {
    let Options { file, policy, changes, output, json } = options;
    let recording = read(file)?;
    let wanted = changed_parameters(&recording, changes)?;
    if let Some(output) = output.as_deref().filter(|output| is_same(file, output)) {
        return Err(ReplayError::IsRecording(output.to_owned()));
    }
    let programs = Programs::of(&recording);
    let as_recorded = recorded_parameters(&recording);
    let modelled = model(&recording, &programs, recording.policy, &as_recorded).run();
    let is_asked = policy.is_some() || !changes.is_empty();
    let policy = policy.unwrap_or(recording.policy);
    let asked = is_asked.then(|| model(&recording, &programs, policy, &wanted).run());
    if let Some(output) = output {
        let (parameters, modelled) = (&wanted, asked.as_ref().unwrap_or(&modelled));
        let run = timeline::Run { recording: &recording, programs: &programs, policy, parameters, modelled };
        write(output, &run)?;
    }
    let name = if changes.is_empty() { policy.to_string() } else { format!("{policy}, with --set") };
    let runs = Runs {
        recording: &recording,
        programs: &programs,
        recorded: Figures::recorded(&programs),
        modelled: Figures::modelled(&programs, &modelled),
        asked: asked.map(|asked| (name, Figures::modelled(&programs, &asked))),
    };
    print(&if *json { format!("{}\n", runs.json()) } else { runs.text() })?;
    Ok(())
}

fn read(path: &Path) -> Result<Recording, ReplayError> {
    let unreadable = |cause| ReplayError::Unreadable { path: path.to_owned(), cause };
    let input = Input::open(File::open(path).map_err(unreadable)?).map_err(unreadable)?;
    let recording = Recording::read(path, input)?;
    if let Some(damage) = &recording.damage {
        say!("{} is damaged: failed to {damage}; what precedes that is replayed", path.display());
    }
    for pid in &recording.changed {
        say!("the parameters of process {pid} changed while it was recorded: the last ones are used");
    }
    for process in recording.processes.values().filter(|process| process.parameters.is_none()) {
        say!("the parameters of {} are not in the recording: the usual ones are used", process.label);
    }
    Ok(recording)
}

fn write(path: &Path, run: &timeline::Run<'_>) -> Result<(), ReplayError> {
    let file =
        File::create(path).map_err(|cause| ReplayError::NotCreated { path: path.to_owned(), cause })?;
    let unwritable = |cause| ReplayError::Unwritable { path: path.to_owned(), cause };
    run.write(BufWriter::new(file)).map_err(unwritable)?;
    say!("{} written; `xsched-ctl view {}` shows it", path.display(), path.display());
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> bool {
    fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
}

#[cfg(test)]
mod tests;
