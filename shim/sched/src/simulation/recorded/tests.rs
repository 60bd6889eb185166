//! Properties of recorded programs.

use super::*;
use crate::{ClaimChange, DeviceId, ProcessId, simulation};

const fn us(count: u64) -> Nanos {
    Nanos::from_micros(count)
}

fn step(time: Nanos, release: Release) -> Step {
    Step { time, host: Nanos::ZERO, launch: Nanos::ZERO, class: time.0, release }
}

/// Requests of so many commands, each as soon as the one before is done.
fn closed(requests: usize, commands: usize, time: Nanos) -> Vec<Step> {
    let release = |index: usize| match (index, index % commands) {
        (0, _) => Release::At { time: Nanos::ZERO, back: 0, idle: Nanos::ZERO },
        (_, 0) => Release::Done { back: 1, host: us(20) },
        _ => Release::Behind(us(5)),
    };
    (0..requests * commands).map(|index| step(time, release(index))).collect()
}

/// One command at a time from outside, in these intervals.
fn open(requests: u64, every: Nanos, time: Nanos) -> Vec<Step> {
    let at = |number: u64| Release::At {
        time: every.times(number),
        back: usize::from(number > 0),
        idle: every - time,
    };
    (0..requests).map(|number| step(time, at(number))).collect()
}

fn claim(process: u32, priority: i16, steps: Vec<Step>) -> Recorded {
    let attributes = Attributes { priority, ..Attributes::new(DeviceId(0), ProcessId(process)) };
    Recorded { attributes, opens: Nanos::ZERO, gates: Gates::Close, streams: vec![steps], goes_on: true }
}

fn model(policy: PolicyKind, claims: Vec<Recorded>, until: Nanos) -> Model {
    Model { policy, settings: Settings::default(), claims, idle_after: None, until }
}

fn run(policy: PolicyKind, claims: Vec<Recorded>, until: Nanos) -> Modelled {
    model(policy, claims, until).run()
}

fn of(modelled: &Modelled, claim: usize) -> Vec<Execution> {
    modelled.executions.iter().filter(|execution| execution.claim == claim).copied().collect()
}

const SECOND: Nanos = Nanos::from_secs(1);

#[test]
fn a_program_alone_takes_its_own_time() {
    let mut program = claim(1, 0, closed(10, 5, us(100)));
    program.goes_on = false;
    let ended = of(&run(PolicyKind::Priority, vec![program], SECOND), 0);
    assert_eq!(ended.len(), 50);
    // The host's time between requests, and nothing else.
    assert_eq!(ended[49].ended - ended[0].began, us(10 * 500 + 9 * 20));
    assert!(ended.windows(2).all(|pair| pair[0].ended <= pair[1].began), "one at a time, in order");
}

#[test]
fn a_program_goes_on_as_it_did() {
    let short = of(&run(PolicyKind::Priority, vec![claim(1, 0, closed(10, 5, us(100)))], SECOND), 0);
    let long = of(&run(PolicyKind::Priority, vec![claim(1, 0, closed(500, 5, us(100)))], SECOND), 0);
    assert!(short.len() > 9_000, "{}", short.len());
    assert_eq!(short.len(), long.len(), "as if more had been recorded");
}

#[test]
fn a_program_that_never_waits_does_not_submit_without_end() {
    let at = Release::At { time: Nanos::ZERO, back: 0, idle: Nanos::ZERO };
    let steps = vec![step(us(10), at), step(us(10), Release::Behind(Nanos::ZERO))];
    assert_eq!(of(&run(PolicyKind::Priority, vec![claim(1, 0, steps)], SECOND), 0).len(), 2);
}

#[test]
fn work_from_outside_comes_at_its_time_however_slow_the_device() {
    let urgent = claim(1, 100, closed(400, 20, us(100)));
    let served = claim(2, 0, open(20, us(10_000), us(50)));
    let alone = of(&run(PolicyKind::Priority, vec![served.clone()], SECOND), 0);
    assert!(alone.iter().zip(0..20).all(|(one, number)| one.called == us(10_000).times(number)), "{alone:?}");
    // It waits for the starvation bound, and its requests have come meanwhile.
    let until = Nanos::from_secs(3);
    let beside = of(&run(PolicyKind::Priority, vec![urgent, served], until), 1);
    assert!(beside[0].ended > Nanos::from_millis(900), "{:?}", beside[0]);
    assert!(beside[1].called < beside[0].ended + us(100), "{:?}", beside[1]);
}

#[test]
fn gates_keep_all_but_the_running_command_from_the_device() {
    let overtaken = |gates| {
        let low = Recorded { gates, ..claim(1, -100, closed(100, 50, us(400))) };
        let mut request = closed(1, 8, us(100));
        request[0].release = Release::At { time: us(20_300), back: 0, idle: Nanos::ZERO };
        let modelled = run(PolicyKind::Priority, vec![low, claim(2, 100, request)], Nanos::from_millis(100));
        let high = of(&modelled, 1);
        assert_eq!(high.len(), 8);
        of(&modelled, 0)
            .iter()
            .filter(|low| high[0].submitted < low.began && low.began < high[7].began)
            .count()
    };
    assert_eq!(overtaken(Gates::Close), 0);
    assert_eq!(overtaken(Gates::None), 1, "the second one in flight");
}

#[test]
fn fair_divides_the_device_by_weight() {
    let mut claims = vec![claim(1, 0, closed(20, 10, us(200))), claim(2, 0, closed(20, 10, us(300)))];
    claims[0].attributes.weight = 300;
    let modelled = run(PolicyKind::Fair, claims, Nanos::from_secs(4));
    let used = |index| of(&modelled, index).iter().map(|one| (one.ended - one.began).0).sum::<u64>() as f64;
    let ratio = used(0) / used(1);
    assert!((2.8..3.2).contains(&ratio), "{ratio}");
}

#[test]
fn waits_say_for_which_claim() {
    let low = claim(1, -100, closed(100, 50, us(400)));
    let high = claim(2, 100, open(40, us(20_300), us(1_000)));
    let modelled = run(PolicyKind::Priority, vec![low, high], Nanos::from_millis(500));
    let waits: Vec<_> = modelled.waits.iter().filter(|wait| wait.claim == 0 && wait.by == Some(1)).collect();
    assert!(waits.len() >= 20, "{:?}", modelled.waits);
    assert!(waits.iter().all(|wait| wait.from < wait.to));
}

#[test]
fn the_same_model_runs_the_same() {
    let claims = vec![claim(1, 0, closed(20, 10, us(200))), claim(2, 0, closed(20, 7, us(310)))];
    let model = model(PolicyKind::Fair, claims, SECOND);
    assert_eq!(model.run().executions, model.run().executions);
}

/// What the scheduler was told of a claim, and when.
fn told(model: &Model, claim: u32) -> Vec<(Nanos, ClaimChange)> {
    let steps = simulation::run(model.world()).steps;
    steps
        .into_iter()
        .filter_map(|(time, change)| Some((time, change.filter(|one| one.claim().0 == claim)?)))
        .collect()
}

/// The shim's watcher reports when it is awake and has not for 10 ms, not at times of its own. A request begins with a report, which
/// tells of no use. The next one comes 10 ms later if the watcher is awake then, and otherwise when it has slept for 10 ms.
#[test]
fn use_is_reported_by_a_watcher_that_is_awake() {
    let requests = claim(2, 0, open(10, us(37_300), us(6_000)));
    let model = model(PolicyKind::Fair, vec![claim(1, 0, closed(100, 50, us(400))), requests], us(380_000));
    let told = told(&model, 1);
    let of = |kind: fn(&ClaimChange) -> bool| {
        told.iter().filter(move |(_, change)| kind(change)).map(|(time, _)| *time).collect::<Vec<_>>()
    };
    let reports = of(|change| matches!(change, ClaimChange::Used { .. }));
    let begins = of(|change| matches!(change, ClaimChange::Ready { .. }));
    assert_eq!(begins.len(), 10);
    let between: Vec<_> = reports.array_windows().map(|[one, next]| *next - *one).collect();
    assert!(between.iter().all(|time| *time >= us(10_000)), "{between:?}");
    for begin in begins {
        let first = reports.iter().position(|report| *report > begin).unwrap();
        assert!(reports[first] - begin < us(100), "{begin} {reports:?}");
        assert!(reports[first + 1] - reports[first] < us(20_500), "{begin} {reports:?}");
    }
    let used: Nanos = told
        .iter()
        .map(|(_, change)| if let ClaimChange::Used { device, .. } = change { *device } else { Nanos::ZERO })
        .sum();
    assert!((us(55_000)..us(66_000)).contains(&used), "{used}");
}

/// The arbiter notes when a claim became ready or idle. The scheduler hears of it later.
#[test]
fn changes_count_from_the_time_at_which_they_happened() {
    let model = model(PolicyKind::Fair, vec![claim(1, 0, open(10, us(10_000), us(700)))], us(100_000));
    let ready = |change: &ClaimChange| matches!(change, ClaimChange::Ready { .. });
    let told = told(&model, 0).into_iter().filter(|(_, change)| ready(change)).map(|(time, _)| time);
    assert!(told.eq((0..10).map(|number| us(10_000).times(number))));
}
