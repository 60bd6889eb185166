//! `xsched-ctl list`: the processes under the controller, and their scheduling parameters.

mod line;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use xsched_control_api::{
    answer::{Answer, Claim, List, Process, Status},
    client::Controller,
    request::Request,
};
use xsched_terminal::{Reader, counted, duration, print, short_name, write_table};

use crate::cli::{self, Lines};
use crate::failure::Failure;
use crate::order::strange;
pub(crate) use line::{Line, named};

pub(crate) async fn run(arguments: cli::List) -> Result<u8, Failure> {
    let mut controller = Controller::connect().await?;
    loop {
        let answer = controller.ask(&Request::List {}).await?;
        let text = if arguments.json {
            answer.to_line()
        } else {
            let Answer::List(list) = answer else { return Err(strange(&answer)) };
            text(&list, arguments.by)
        };
        // Moves the cursor home and clears the screen below it.
        let is_redrawn = arguments.watch.is_some() && !arguments.json && io::stdout().is_terminal();
        let before = if is_redrawn { "\x1b[H\x1b[J" } else { "" };
        let reader = print(&format!("{before}{text}"))?;
        let Some(seconds) = arguments.watch.filter(|_| reader == Reader::Present) else { return Ok(0) };
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }
}

/// The columns for a claim.
pub(crate) const HEADINGS: [&str; 11] = [
    "command",
    "user",
    "device",
    "class",
    "from",
    "state",
    "pid",
    "claim",
    "level",
    "device time",
    "suspended",
];

/// How many of them are names.
const NAMES: usize = 6;

fn text(list: &List, by: Lines) -> String {
    let controller = &list.controller;
    let processes = counted(list.processes.len() as u64, "process", "processes");
    let mut text = format!("{}, policy {}, {processes}\n", controller.state, controller.policy);
    let written = match by {
        _ if list.processes.is_empty() => Ok(()),
        Lines::Claim => write_table(&mut text, HEADINGS, claim_rows(list), NAMES),
        Lines::Origin => write_table(&mut text, ORIGIN_HEADINGS, origin_rows(list), ORIGIN_NAMES),
    };
    written.expect("writing to a string does not fail");
    let counts = &controller.counts;
    for (count, what) in [
        (
            counts.by_socket,
            "processes report over the socket, which is slower: no BPF program sees their reports",
        ),
        (
            counts.outdated,
            "processes so far have a shim of another version and run unscheduled: the controller's log names them",
        ),
        (counts.malformed, "connections ended because of malformed packets"),
        (counts.slow, "connections ended because the process did not answer"),
        (counts.full, "connections or claims refused because a limit was reached"),
        (counts.failed, "changes of the page failed"),
        (counts.answered_again, "verdicts had to be given again: each user's table holds 65,536"),
    ] {
        if count > 0 {
            writeln!(text, "{count} {what}").expect("writing to a string does not fail");
        }
    }
    text
}

fn claim_rows(list: &List) -> Vec<[String; HEADINGS.len()]> {
    let mut rows = Vec::new();
    for process in &list.processes {
        if process.claims.is_empty() {
            rows.push(row(&list.controller, process, None));
        }
        rows.extend(process.claims.iter().map(|claim| row(&list.controller, process, Some(claim))));
    }
    rows
}

const ORIGIN_HEADINGS: [&str; 8] =
    ["library", "command", "user", "device", "pid", "claim", "device time", "so far"];

/// How many of them are names.
const ORIGIN_NAMES: usize = 4;

fn origin_rows(list: &List) -> Vec<[String; ORIGIN_HEADINGS.len()]> {
    let mut rows = Vec::new();
    for process in &list.processes {
        for claim in &process.claims {
            rows.extend(claim.origins.iter().map(|origin| {
                [
                    short_name(&origin.library),
                    named(process),
                    process.user.clone(),
                    claim.device.clone(),
                    process.pid.to_string(),
                    claim.slot.to_string(),
                    percent(origin.device_share),
                    duration(Some(origin.device_ns)),
                ]
            }));
        }
    }
    rows
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn row(status: &Status, process: &Process, claim: Option<&Claim>) -> [String; HEADINGS.len()] {
    let line = Line::of(status, process, claim);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        line.command,
        line.user,
        or_dash(line.device),
        line.parameters,
        line.from,
        or_dash(line.state.map(str::to_owned)),
        line.pid.to_string(),
        or_dash(line.slot.map(|slot| slot.to_string())),
        or_dash(line.level.map(|level| level.to_string())),
        or_dash(line.device_share.map(percent)),
        duration(line.suspended_ns),
    ]
}

#[cfg(test)]
mod tests {
    use xsched_control_api::answer::{Counts, From, Origin, PageKeeper, State};
    use xsched_control_api::parameters::Parameters;

    use super::*;

    fn list(processes: Vec<Process>) -> List {
        let controller = Status {
            version: "1".to_owned(),
            pid: 7,
            uid: 0,
            state: State::Active,
            policy: "priority".to_owned(),
            settings: xsched_control_api::answer::Settings::default(),
            keeper: PageKeeper::Programs,
            sight: xsched_control_api::answer::Sight::Chains,
            uptime_ns: 5,
            counts: Counts { slow: 2, answered_again: 7, ..Counts::default() },
        };
        List { controller, devices: Vec::new(), processes }
    }

    fn claim() -> Claim {
        Claim {
            slot: 3,
            device: "0000:c1:00.0".to_owned(),
            parameters: None,
            stream_priority: 0,
            level: 1,
            ready: true,
            suspended: true,
            waits_for: Vec::new(),
            alone: false,
            device_share: 0.254,
            device_ns: 9,
            origins: vec![
                Origin { library: "librocblas.so.4".to_owned(), device_share: 0.2, device_ns: 1_230_000 },
                Origin { library: "[unknown]".to_owned(), device_share: 0.054, device_ns: 7 },
            ],
            launched: 2,
            deferred: 1,
            suspended_ns: 1_500_000,
            latency_ns: None,
        }
    }

    fn process(claim: Claim) -> Process {
        Process {
            pid: 4711,
            uid: 0,
            user: "root".to_owned(),
            command: "python3".to_owned(),
            cgroup: "/kubepods.slice/pod7".to_owned(),
            pod: None,
            parameters: Parameters { priority: 120, weight: 200, ..Parameters::default() },
            class: "high".to_owned(),
            from: From::Rule,
            reports: PageKeeper::Programs,
            claims: vec![claim],
        }
    }

    #[test]
    fn a_claim_is_a_line() {
        let list = list(vec![process(claim())]);
        let shown = text(&list, Lines::Claim);
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[0], "active, policy priority, 1 process");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>().join(" "),
            "python3 root 0000:c1:00.0 high 120, x200 rule suspended 4711 3 1 25 % 1.50 ms"
        );
        assert_eq!(lines[3], "2 connections ended because the process did not answer");
        assert!(lines[4].starts_with("7 verdicts had to be given again"), "{shown}");
        let shown = text(&list, Lines::Origin);
        let lines = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        let lines: Vec<_> = lines.skip(1).take(3).collect();
        let wanted = [
            "library command user device pid claim device time so far",
            "librocblas.so.4 python3 root 0000:c1:00.0 4711 3 20 % 1.23 ms",
            "[unknown] python3 root 0000:c1:00.0 4711 3 5 % 7 ns",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn unknown_device_time_is_not_shown_as_zero() {
        let claim = Claim { ready: false, suspended: false, alone: true, device_share: 0.0, ..claim() };
        let shown = text(&list(vec![process(claim)]), Lines::Claim);
        let line = shown.lines().nth(2).unwrap_or_default();
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words.join(" "), "python3 root 0000:c1:00.0 high 120, x200 rule alone 4711 3 1 - 1.50 ms");
    }

    /// The last line of a list with one claim, in this state of the controller.
    fn line(state: State, claim: Claim) -> String {
        let mut list = list(vec![process(claim)]);
        list.controller = Status { state, counts: Counts::default(), ..list.controller };
        let shown = text(&list, Lines::Claim);
        shown.lines().last().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn while_off_no_process_is_called_idle() {
        let claim = || Claim { ready: false, suspended: false, device_share: 0.0, ..claim() };
        let before = "python3 root 0000:c1:00.0 high 120, x200 rule";
        assert_eq!(line(State::Off, claim()), format!("{before} free 4711 3 1 - 1.50 ms"));
        assert_eq!(line(State::Active, claim()), format!("{before} idle 4711 3 1 0 % 1.50 ms"));
    }

    #[test]
    fn while_off_no_process_is_called_ready() {
        // While the controller observes, processes report that all the time.
        let claim = Claim { suspended: false, ..claim() };
        let before = "python3 root 0000:c1:00.0 high 120, x200 rule";
        assert_eq!(line(State::Off, claim), format!("{before} free 4711 3 1 25 % 1.50 ms"));
    }

    #[test]
    fn an_observing_controller_shows_which_claims_would_wait() {
        let before = "python3 root 0000:c1:00.0 high 120, x200 rule";
        assert_eq!(line(State::Observing, claim()), format!("{before} would wait 4711 3 1 25 % 1.50 ms"));
    }

    #[test]
    fn parameters_set_for_a_claim_are_shown_as_set() {
        let parameters = Some(Parameters { priority: -7, ..Parameters::default() });
        let shown = line(State::Active, Claim { parameters, ..claim() });
        assert!(shown.contains("normal -7 set suspended"), "{shown}");
    }

    #[test]
    fn an_slo_is_shown_beside_the_latency() {
        let mut list = list(vec![process(Claim { latency_ns: Some(10_800_000), ..claim() })]);
        list.processes[0].parameters.slo = Some("p99 < 12ms".parse().unwrap());
        let ignored = text(&list, Lines::Claim);
        assert!(!ignored.contains("p99") && !ignored.contains("now"), "{ignored}");
        list.controller.policy = "slo".to_owned();
        let shown = text(&list, Lines::Claim);
        assert!(shown.contains("high 120, x200, p99 < 12ms (now 10.8 ms)"), "{shown}");
    }

    #[test]
    fn an_empty_list_shows_no_processes() {
        let mut list = list(Vec::new());
        list.controller.counts = Counts::default();
        assert_eq!(text(&list, Lines::Claim), "active, policy priority, 0 processes\n");
    }

    /// After an upgrade this may be all of them.
    #[test]
    fn processes_with_another_version_are_counted_even_if_no_other_has_joined() {
        let mut list = list(Vec::new());
        list.controller.counts = Counts { outdated: 2, ..Counts::default() };
        let shown = text(&list, Lines::Claim);
        assert!(
            shown.lines().nth(1).is_some_and(|line| line.starts_with("2 processes so far have a shim")),
            "{shown}"
        );
    }
}
