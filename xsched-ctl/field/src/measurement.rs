//! One measurement: some participants that begin at the same moment.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use crate::options::Mode;
use crate::process::{Order, Process};
use crate::speech::{Outcome, Rung};
use crate::trouble::Trouble;

/// How long a participant may take to be ready: PyTorch from a cold disk, and a model of ResNet-50's size.
const READY_PATIENCE: Duration = Duration::from_secs(150);
/// Between the last participant's readiness and the beginning: a process joins a controller without waiting for it.
const SETTLING: Duration = Duration::from_millis(300);
/// What a participant may take longer than its window: a batch that is on the device, the last results.
const RESULT_PATIENCE: Duration = Duration::from_secs(45);
/// How long it may take to end after its result.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// What a participant is.
#[derive(Clone, Debug)]
pub(crate) struct Participant {
    pub(crate) name: String,
    /// Its class where it is scheduled.
    pub(crate) class: &'static str,
    /// Its command line, without the shim.
    pub(crate) words: Vec<OsString>,
}

/// What it gave.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) outcome: Outcome,
    pub(crate) rungs: Vec<Rung>,
}

/// Participants that run. Dropping it ends all of them, at once.
struct Crew(Vec<Process>);

impl Drop for Crew {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Process::ask_to_end);
    }
}

/// Starts the participants, lets them begin when all are ready, and returns what each found.
///
/// `window` is how long they measure.
pub(crate) async fn measure(orders: &[Order], mode: Mode, window: Duration) -> Result<Vec<Finding>, Failed> {
    let mut crew = Crew(Vec::new());
    for order in orders {
        crew.0.push(Process::start(order)?);
    }
    let deadline = Instant::now() + READY_PATIENCE;
    for process in &mut crew.0 {
        let ready = process.ready(deadline).await;
        ready.map_err(|trouble| Failed::in_process(trouble, process))?;
    }
    tokio::time::sleep(SETTLING).await;
    for process in &mut crew.0 {
        process.go().await;
    }
    let deadline = Instant::now() + window + RESULT_PATIENCE;
    let mut findings = Vec::new();
    for process in &mut crew.0 {
        let result = process.result(deadline).await;
        let outcome = result.map_err(|trouble| Failed::in_process(trouble, process))?;
        findings.push(Finding { outcome, rungs: process.rungs().to_vec() });
    }
    for process in std::mem::take(&mut crew.0) {
        let name = process.name.clone();
        let output = process.finish(END_PATIENCE).await;
        if mode != Mode::Native && joined(&output.stderr).is_none_or(|processes| processes == 0) {
            return Err(Trouble::NotJoined { name }.into());
        }
    }
    Ok(findings)
}

/// Why a measurement has no result, and what was done before.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) trouble: Trouble,
    pub(crate) rungs: Vec<Rung>,
    /// What was being tried.
    pub(crate) trying: Option<String>,
}

impl Failed {
    fn in_process(trouble: Trouble, process: &Process) -> Self {
        Self { trouble, rungs: process.rungs().to_vec(), trying: process.trying().map(ToOwned::to_owned) }
    }
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Self {
        Self { trouble, rungs: Vec::new(), trying: None }
    }
}

/// How many processes had joined, in what `xsched-ctl run --json` prints at its end.
fn joined(stderr: &str) -> Option<u64> {
    let last = stderr.lines().rev().find(|line| line.starts_with('{'))?;
    serde_json::from_str::<serde_json::Value>(last).ok()?.get("joined")?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Order {
        Order {
            name: name.to_owned(),
            words: ["sh", "-c", script].map(Into::into).to_vec(),
            ..Order::default()
        }
    }

    /// Prints when it was let go, in nanoseconds.
    const WHEN: &str =
        r#"echo '@field "ready"'; read go; echo "@field {\"result\":{\"values\":[[\"at\",$(date +%s%N)]]}}""#;

    #[tokio::test]
    async fn no_participant_begins_before_all_are_ready() {
        let slow = format!("sleep 0.4; date +%s%N >&2; {WHEN}");
        let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let orders = [shell("quick", WHEN), shell("slow", &slow)];
        let findings = measure(&orders, Mode::Native, Duration::from_secs(1)).await.unwrap();
        let first = findings[0].outcome.value("at").unwrap();
        assert!(first - begun as f64 > 4e8, "the quick one began before the slow one was ready");
    }

    #[tokio::test]
    async fn one_that_fails_ends_the_others() {
        let begun = Instant::now();
        let waits = r#"echo '@field "ready"'; read go; sleep 1000"#;
        let orders = [shell("waits", waits), shell("fails", "echo '@field {\"trying\":\"conv\"}'; exit 9")];
        let failed = measure(&orders, Mode::Native, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(failed.trouble.to_string(), "fails ended with status 9 in `conv`");
        assert_eq!(failed.trying.as_deref(), Some("conv"));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn the_number_of_joined_processes_is_read() {
        assert_eq!(joined("warning\n{\"code\":0,\"controller\":true,\"joined\":1}\n"), Some(1));
        assert_eq!(joined("{\"code\":0,\"controller\":true,\"joined\":null}\n"), None);
        assert_eq!(joined("nothing"), None);
    }
}
