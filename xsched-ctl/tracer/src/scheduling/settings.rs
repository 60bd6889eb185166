//! Asks the controller for its policy, its settings and the parameters of its processes, and says what has changed: a recording can
//! then be repeated under others.
//!
//! The controller is asked when a process begins to write events, and once a second. It may take its time to answer, so a task waits
//! for that.

use std::collections::BTreeMap;

use tokio::task::JoinHandle;
use xsched_control_api::{
    answer::{Answer, List},
    client::Controller,
    parameters::Parameters,
    request::Request,
};
use xsched_symbols::now_ns;

use super::entry::{Entry, Regime};
use super::source::is_trusted;

/// How often it is asked, and how often at most.
const EVERY_NS: u64 = 1_000_000_000;
const AT_MOST_EVERY_NS: u64 = 100_000_000;

/// What has changed since the controller was last asked.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) entries: Vec<Entry>,
    /// Processes that have left the controller: their parameters hold no more.
    pub(crate) left: Vec<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct SettingsWatch {
    /// The answer that is waited for.
    asked: Option<JoinHandle<Option<List>>>,
    asked_ns: u64,
    /// How many processes had begun to write events when it was last asked.
    processes: usize,
    regime: Option<Regime>,
    parameters: BTreeMap<u32, Parameters>,
}

impl SettingsWatch {
    /// What has changed. `processes`: how many have begun to write events so far.
    pub(crate) async fn poll(&mut self, processes: usize) -> Changes {
        let now_ns = now_ns();
        let answered = match self.asked.take_if(|asked| asked.is_finished()) {
            Some(asked) => asked.await.ok().flatten(),
            None => None,
        };
        let changes = answered.map(|list| self.changes(now_ns, list)).unwrap_or_default();
        let since_ns = now_ns.saturating_sub(self.asked_ns);
        let is_due = since_ns >= EVERY_NS || processes != self.processes && since_ns >= AT_MOST_EVERY_NS;
        if is_due && processes > 0 && self.asked.is_none() {
            (self.asked_ns, self.processes) = (now_ns, processes);
            self.asked = Some(tokio::spawn(list()));
        }
        changes
    }

    fn changes(&mut self, time_ns: u64, List { controller, processes, .. }: List) -> Changes {
        let mut entries = Vec::new();
        let regime = Regime {
            policy: controller.policy,
            state: controller.state.to_string(),
            settings: controller.settings,
        };
        if self.regime.as_ref() != Some(&regime) {
            self.regime = Some(regime.clone());
            entries.push(Entry::Regime(time_ns, regime));
        }
        let present: BTreeMap<_, _> =
            processes.iter().map(|process| (process.pid, process.parameters)).collect();
        let changed = present.iter().filter(|(pid, parameters)| self.parameters.get(pid) != Some(parameters));
        entries.extend(changed.map(|(pid, parameters)| Entry::Parameters(*pid, time_ns, *parameters)));
        let left = self.parameters.keys().filter(|pid| !present.contains_key(pid)).copied().collect();
        self.parameters = present;
        Changes { entries, left }
    }
}

/// The controller's processes; none without a controller that may say what the timeline shows.
async fn list() -> Option<List> {
    let mut controller = Controller::connect().await.ok()?;
    if !is_trusted(controller.peer.uid) {
        return None;
    }
    match controller.ask(&Request::List {}).await {
        Ok(Answer::List(list)) => Some(list),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use xsched_control_api::answer::{Counts, From, PageKeeper, Process, Settings, Sight, State, Status};

    use super::*;

    fn list_of(policy: &str, processes: &[(u32, i16)]) -> List {
        let process = |&(pid, priority): &(u32, i16)| Process {
            pid,
            uid: 0,
            user: String::new(),
            command: String::new(),
            cgroup: String::new(),
            pod: None,
            parameters: Parameters { priority, ..Parameters::default() },
            class: String::new(),
            from: From::Default,
            reports: PageKeeper::Programs,
            claims: Vec::new(),
        };
        let controller = Status {
            version: String::new(),
            pid: 1,
            uid: 0,
            state: State::Active,
            policy: policy.to_owned(),
            settings: Settings::default(),
            keeper: PageKeeper::Programs,
            sight: Sight::Chains,
            uptime_ns: 0,
            counts: Counts::default(),
        };
        List { controller, devices: Vec::new(), processes: processes.iter().map(process).collect() }
    }

    #[test]
    fn only_what_has_changed_is_said() {
        let mut watch = SettingsWatch::default();
        let mut pids = |list| {
            let Changes { entries, left } = watch.changes(1, list);
            let regimes = entries.iter().filter(|entry| matches!(entry, Entry::Regime(..))).count();
            let pids: Vec<_> = entries.iter().flat_map(Entry::pids).collect();
            (regimes, pids, left)
        };
        assert_eq!(pids(list_of("fair", &[(7, 0), (8, 0)])), (1, vec![7, 8], vec![]));
        assert_eq!(pids(list_of("fair", &[(7, 0), (8, 0)])), (0, vec![], vec![]));
        assert_eq!(pids(list_of("fair", &[(7, 0), (8, 100)])), (0, vec![8], vec![]));
        assert_eq!(pids(list_of("slo", &[(8, 100)])), (1, vec![], vec![7]));
        assert_eq!(
            pids(list_of("slo", &[(7, 0), (8, 100)])),
            (0, vec![7], vec![]),
            "it may be another process"
        );
    }
}
