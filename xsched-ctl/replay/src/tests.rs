//! Small recordings, made here.

use xsched_control_api::{
    answer::Settings,
    parameters::{Parameters, Wish},
};
use xsched_perfetto::{Annotation, Clocks, Instant, Scope, TraceWriter, Track, TrackSlice};
use xsched_sched::Nanos;
use xsched_sched::simulation::Release;

use super::*;

/// A command: process, stream, when it was called, began and ended, in microseconds.
type Made = (u32, &'static str, [u64; 3]);

/// What of a recording is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    Executions,
    Policy,
}

/// A recording of commands under a policy, by processes of these parameters.
fn recorded(
    policies: &[(&str, &str)],
    commands: &[Made],
    parameters: &[(u32, Parameters)],
    without: Without,
) -> Vec<u8> {
    let clocks = Clocks { boottime_ns: 1_000, ..Clocks::now() };
    let mut writer = TraceWriter::new(Vec::new(), clocks).unwrap();
    let settings = Settings::default().to_text();
    for (policy, state) in policies.iter().filter(|_| without != Without::Policy) {
        let annotations = [
            Annotation::new("policy", *policy),
            Annotation::new("state", *state),
            Annotation::new("settings", &*settings),
        ];
        let instant = Instant {
            scope: Scope::Global,
            ts_ns: 1_000,
            category: "controller",
            name: "policy",
            annotations: &annotations,
        };
        writer.instant(&instant).unwrap();
    }
    for (pid, parameters) in parameters {
        let (label, text) = (format!("app {pid}"), parameters.to_text());
        let annotations = [
            Annotation::new("pid", *pid),
            Annotation::new("process", &*label),
            Annotation::new("parameters", &*text),
        ];
        let instant = Instant {
            scope: Scope::Global,
            ts_ns: 1_000,
            category: "controller",
            name: "parameters",
            annotations: &annotations,
        };
        writer.instant(&instant).unwrap();
    }
    let group = writer.track(&Track { parent: Scope::Global, name: "GPU 0" }).unwrap();
    for (pid, stream, [called, began, ended]) in commands.iter().filter(|_| without != Without::Executions) {
        let label = format!("app {pid}");
        let track = writer
            .track(&Track { parent: Scope::Track(group), name: &format!("{label} stream {stream}") })
            .unwrap();
        let annotations = [
            Annotation::new("pid", *pid),
            Annotation::new("process", &*label),
            Annotation::new("stream", *stream),
            Annotation::new("queue_delay_ns", (began - called) * 1_000),
        ];
        let slice = TrackSlice {
            track,
            begin_ns: 1_000 + began * 1_000,
            end_ns: Some(1_000 + ended * 1_000),
            category: "gpu",
            name: "k",
            annotations: &annotations,
            ended_flow: None,
        };
        writer.track_slice(&slice).unwrap();
    }
    std::mem::take(writer.get_mut())
}

fn read_bytes(bytes: &[u8]) -> Result<Recording, ReplayError> {
    Recording::read(Path::new("f"), bytes)
}

const ACTIVE: [(&str, &str); 1] = [("priority", "active")];

fn plain(commands: &[Made]) -> Programs {
    let bytes = recorded(&ACTIVE, commands, &[], Without::Nothing);
    Programs::of(&read_bytes(&bytes).unwrap())
}

fn us(count: u64) -> Nanos {
    Nanos::from_micros(count)
}

#[test]
fn what_cannot_be_replayed_is_refused_with_what_to_do() {
    use xsched_terminal::{Advice as _, ExitCode};

    let commands = [(1, "a", [0, 0, 10])];
    let refused = |policies: &[(&str, &str)], without| {
        let refused = read_bytes(&recorded(policies, &commands, &[], without)).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::BadData);
        (refused.to_string(), refused.hint().unwrap())
    };
    let (message, hint) = refused(&ACTIVE, Without::Executions);
    assert!(
        message.contains("has no executions") && hint.contains("xsched-ctl trace --all"),
        "{message}: {hint}"
    );
    let (message, hint) = refused(&ACTIVE, Without::Policy);
    assert!(message.contains("by which policy") && hint.contains("serve"), "{message}: {hint}");
    let (message, _) = refused(&[("priority", "off")], Without::Nothing);
    assert!(message.contains("deferred nothing"), "{message}");
    let (message, _) = refused(&[("priority", "active"), ("fair", "active")], Without::Nothing);
    assert!(message.contains("from `priority` to `fair`"), "{message}");
    let (message, _) = refused(&[("later", "active")], Without::Nothing);
    assert!(message.contains("`later`"), "{message}");
    assert!(matches!(read_bytes(b"no trace"), Err(ReplayError::NotATrace { .. })));
}

#[test]
fn time_of_other_processes_is_not_counted_twice() {
    // The second could run from 5 on; until 30 the first one's command did.
    let programs = plain(&[(1, "a", [0, 0, 30]), (2, "b", [5, 5, 50])]);
    let times = |index: usize| programs.all[index].streams[0].steps[0].time;
    assert_eq!((times(0), times(1)), (us(30), us(20)));
}

#[test]
fn releases_follow_from_times() {
    let second = 1_000_000;
    let commands = [
        (1, "a", [0, 0, 1_000]),
        (1, "a", [10, 1_000, 2_000]),
        // When the second had ended.
        (1, "a", [2_100, 2_100, 3_000]),
        // When the first of two had ended.
        (1, "a", [2_110, 3_000, 4_000]),
        (1, "a", [3_060, 4_000, 5_000]),
        // After a long time without work.
        (1, "a", [second, second, second + 1_000]),
    ];
    let programs = plain(&commands);
    let releases: Vec<_> = programs.all[0].streams[0].steps.iter().map(|step| step.release).collect();
    let expected = [
        Release::At { time: Nanos::ZERO, back: 0, idle: Nanos::ZERO },
        Release::Behind(us(10)),
        Release::Done { back: 1, host: us(100) },
        Release::Behind(us(10)),
        Release::Done { back: 2, host: us(60) },
        Release::At { time: us(second), back: 1, idle: us(second - 5_000) },
    ];
    assert_eq!(releases, expected);
    assert_eq!(programs.all[0].streams[0].requests, [0, 0, 1, 1, 2, 3]);
    let figures = Figures::recorded(&programs);
    assert_eq!((figures[0].requests, figures[0].p50), (4, us(1_900)));
}

/// Requests of five commands, closed loop, for both of two processes in turn.
fn two_in_turn() -> Vec<Made> {
    let mut commands = Vec::new();
    for round in 0..200 {
        for (place, pid) in [(0, 1), (1, 2)] {
            let begin = 1_000 * round + 500 * place;
            // Each waits for its own request before.
            let called = if round == 0 { 0 } else { begin - 480 };
            for step in 0..5 {
                commands.push((pid, "a", [called + step, begin + 100 * step, begin + 100 * (step + 1)]));
            }
        }
    }
    commands
}

#[test]
fn a_run_can_be_replayed_and_comes_out_the_same() {
    let low = Parameters { priority: -100, ..Parameters::default() };
    let bytes = recorded(&[("fair", "active")], &two_in_turn(), &[(1, low), (2, low)], Without::Nothing);
    let first = read_bytes(&bytes).unwrap();
    let programs = Programs::of(&first);
    let parameters = recorded_parameters(&first);
    let modelled = model(&first, &programs, first.policy, &parameters).run();
    let mut written = Vec::new();
    let policy = first.policy;
    let run = timeline::Run {
        recording: &first,
        programs: &programs,
        policy,
        parameters: &parameters,
        modelled: &modelled,
    };
    run.write(&mut written).unwrap();

    let second = read_bytes(&written).unwrap();
    assert_eq!((second.policy, second.settings), (first.policy, first.settings));
    assert_eq!(second.processes[&1].parameters, Some(low));
    let again = Programs::of(&second);
    let (was, is) = (Figures::modelled(&programs, &modelled), Figures::recorded(&again));
    assert_eq!(was.len(), 2);
    for (was, is) in was.iter().zip(&is) {
        let change = is.change_from(was);
        assert!(is.requests > 150 && change.commands.abs() < 5.0, "{was:?} {is:?}");
    }
    let replayed = model(&second, &again, policy, &recorded_parameters(&second)).run();
    for (was, is) in is.iter().zip(Figures::modelled(&again, &replayed)) {
        assert!(is.change_from(was).commands.abs() < 5.0, "{was:?} {is:?}");
    }
}

#[test]
fn a_model_that_does_not_fit_says_so() {
    let low = Parameters { priority: -100, ..Parameters::default() };
    let bytes = recorded(&[("fair", "active")], &two_in_turn(), &[(1, low), (2, low)], Without::Nothing);
    let recording = read_bytes(&bytes).unwrap();
    let programs = Programs::of(&recording);
    let shown = |factor: f64| {
        let recorded = Figures::recorded(&programs);
        let mut modelled = recorded.clone();
        modelled[1].commands *= factor;
        let runs = Runs { recording: &recording, programs: &programs, recorded, modelled, asked: None };
        (
            runs.text().contains("does not fit this recording: it is off by up to 30 %"),
            runs.json()["fits"].clone(),
        )
    };
    assert_eq!(shown(1.3), (true, false.into()));
    assert_eq!(shown(0.9), (false, true.into()));
}

#[test]
fn other_parameters_are_for_processes_by_id_or_name() {
    let bytes = recorded(&ACTIVE, &two_in_turn(), &[], Without::Nothing);
    let recording = read_bytes(&bytes).unwrap();
    let wish = Wish { priority: Some(100), ..Wish::default() };
    let with = |target: &str| {
        changed_parameters(&recording, &[Change { target: target.to_owned(), wish, nice: None }])
    };
    let priorities = |target| with(target).unwrap().values().map(|(own, _)| own.priority).collect::<Vec<_>>();
    assert_eq!((priorities("2"), priorities("app")), (vec![0, 100], vec![100, 100]));
    assert_eq!(
        with("other").unwrap_err().to_string(),
        "no process `other` in the recording, which has: app 1, app 2"
    );

    let programs = Programs::of(&recording);
    let parameters = with("2").unwrap();
    let figures =
        Figures::modelled(&programs, &model(&recording, &programs, recording.policy, &parameters).run());
    assert!(figures[1].device > 3.0 * figures[0].device, "{figures:?}");
}

#[test]
fn a_timeline_does_not_replace_its_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    fs::write(&file, recorded(&ACTIVE, &two_in_turn(), &[], Without::Nothing)).unwrap();
    let options = |output: &Path| Options {
        file: file.clone(),
        policy: None,
        changes: Vec::new(),
        output: Some(output.to_owned()),
        json: true,
    };
    assert!(matches!(run(&options(&file)), Err(ReplayError::IsRecording(_))));
    let missing = folder.path().join("none").join("g");
    assert!(matches!(run(&options(&missing)), Err(ReplayError::NotCreated { .. })));
}
