use std::collections::BTreeSet;

use xsched_arbiter::Times;
use xsched_control_api::{
    answer::{Answer, From, List, Reason},
    parameters::Wish,
    peer::{Party, Peer},
    request::{Request, Target},
};
use xsched_protocol::{
    arbiter_page::{Report, Word, device_key},
    wire::{Hello, OpenClaim, Opened, OriginName, OriginTime, OriginUsage, PacketKind, Reported, Usage},
};
use zerocopy::FromZeros as _;

use super::client::Link;
use super::*;
use crate::subject::Seen;

mod promises;
mod reconfigure;
mod room;

/// No test runs as this user, which is not root.
const USER: u32 = 4_000_000_000;
const ROOT: Actor = Actor { pid: 1, uid: 0, container: None, party: Party::User(0) };

pub(super) struct Bench(pub(super) Controller);

impl Bench {
    pub(super) fn new(config: &str) -> Self {
        let arbiter = Arbiter::in_memory(&Times::default()).unwrap();
        let mut controller = Controller::new(arbiter, Config::parse(config).unwrap(), Users::default());
        controller.beat(now_ns());
        Self(controller)
    }

    /// Admits a process with this id, which need not exist.
    fn admit(&mut self, pid: u32, hello: Hello) -> ClientId {
        self.0.admit(&Peer::unknown(pid, USER), &hello, None).unwrap().id
    }

    fn open(&mut self, id: ClientId, device: u32) -> Opened {
        self.answer(id, device).opened
    }

    fn answer(&mut self, id: ClientId, device: u32) -> Answered {
        let wanted = OpenClaim {
            kind: PacketKind::OpenClaim as u32,
            device: device_key(0, device, 0, 0),
            ..OpenClaim::new_zeroed()
        };
        let opened = self.0.open(id, &wanted).unwrap();
        self.0.settle(now_ns());
        opened
    }

    /// Also returns the epoll instance that comes with the answer.
    fn open_with_wake(&mut self, id: ClientId, device: u32) -> (Opened, Option<OwnedFd>) {
        let Answered { opened, mut descriptors, .. } = self.answer(id, device);
        let wake = descriptors.pop().filter(|_| opened.brings & Opened::WAKE != 0);
        (opened, wake)
    }

    pub(super) fn joined(&mut self, pid: u32, priority: i32) -> (ClientId, Opened) {
        let id = self.admit(pid, hello(priority));
        (id, self.open(id, 1))
    }

    pub(super) fn report(&mut self, id: ClientId, claim: Opened, report: Report) {
        let report = Reported {
            kind: PacketKind::Reported as u32,
            slot: claim.slot,
            operation: report as u64,
            argument: u64::from(claim.generation),
        };
        self.0.report(id, &report);
        self.0.settle(now_ns());
    }

    fn order(&mut self, actor: Actor, request: Request) -> Answer {
        let answer = self.0.order(actor, request, &mut Attendance::default());
        self.0.settle(now_ns());
        answer
    }

    fn list(&mut self) -> List {
        match self.order(ROOT, Request::List {}) {
            Answer::List(list) => list,
            other => panic!("{other:?}"),
        }
    }

    fn level(&self, claim: Opened) -> u64 {
        self.0.arbiter.page().claim(claim.slot).word.level()
    }

    /// The ready mask of the first device.
    fn ready(&self) -> u64 {
        self.0.arbiter.page().load(Word::ready(0))
    }
}

fn hello(priority: i32) -> Hello {
    Hello {
        kind: PacketKind::Hello as u32,
        hints: Hello::PRIORITY,
        priority,
        runtime: Runtime::Hip.number(),
        ..Hello::new_zeroed()
    }
}

fn set(pid: u32, priority: i16) -> Request {
    Request::Set { target: Target::Pid(pid), wish: Wish { priority: Some(priority), ..Wish::default() } }
}

#[track_caller]
fn assert_refused(answer: &Answer, wanted: Reason) {
    assert!(matches!(answer, Answer::Refused { reason, .. } if *reason == wanted), "{answer:?}");
}

/// It connects again before its packet is handled, as after it has executed itself.
#[test]
fn a_packet_of_a_process_that_is_no_longer_there_is_not_malformed() {
    let mut bench = Bench::new("");
    let id = bench.admit(11, hello(0));
    bench.admit(11, hello(0));
    let late = bench.0.open(id, &OpenClaim::new_zeroed()).unwrap_err();
    bench.0.count_end(Some(late), false);
    assert_eq!(bench.list().controller.counts.malformed, 0);
}

#[test]
fn the_shims_of_a_process_that_uses_two_runtimes_stay_joined_and_each_connects_again_by_itself() {
    let mut bench = Bench::new("");
    let of_cuda = || Hello { runtime: Runtime::Cuda.number(), ..hello(0) };
    let (hip, first) = bench.joined(11, 0);
    let cuda = bench.admit(11, of_cuda());
    let second = bench.open(cuda, 2);
    bench.report(hip, first, Report::Ready);
    bench.report(cuda, second, Report::Ready);
    let is_ready = |bench: &Bench, claim: Opened| bench.0.arbiter.page().claim(claim.slot).word.is_ready();
    assert!(is_ready(&bench, first) && is_ready(&bench, second), "each device has its claim");
    let answer = bench.order(ROOT, set(11, 5));
    assert!(matches!(&answer, Answer::Set { changed } if changed.len() == 2), "{answer:?}");
    let priorities: Vec<_> =
        bench.list().processes.iter().map(|process| process.parameters.priority).collect();
    assert_eq!(priorities, [5, 5], "what is set for a process counts for all of it");

    let again = bench.admit(11, of_cuda());
    let pids: Vec<_> =
        bench.list().processes.iter().map(|process| (process.pid, process.claims.len())).collect();
    assert_eq!(pids, [(11, 1), (11, 0)]);
    assert!(is_ready(&bench, first) && !bench.0.arbiter.page().claim(second.slot).word.is_open());
    bench.0.leave(again);
    assert!(is_ready(&bench, first), "the other shim is still there");
    let strange = Hello { runtime: 0, ..hello(0) };
    let refused = bench.0.admit(&Peer::unknown(12, USER), &strange, None);
    assert_eq!(refused.err(), Some(RefusalReason::Malformed));
}

#[test]
fn a_process_that_shows_an_abandoned_token_uses_no_table_entry() {
    let mut bench = Bench::new("");
    let (here, _) = bench.joined(11, 0);
    let Link::Known(known) = bench.0.clients[&here].link else { panic!("it is spoken for") };
    let arbiter = &mut bench.0.arbiter;
    let [late, early] = [arbiter.speak_for(12), arbiter.speak_for(13)];
    // The welcome packet with its token may still be on its way.
    bench.0.clients.get_mut(&here).unwrap().link = Link::Awaited(7);
    bench.0.dismiss_unless_expected(early, 7);
    bench.0.clients.get_mut(&here).unwrap().link = Link::Known(known);
    for owner in [late, known] {
        bench.0.dismiss_unless_expected(owner, 8);
    }
    let mut can_open = |owner| bench.0.arbiter.open(owner, device_key(0, 1, 0, 0), 1).is_ok();
    assert_eq!([late, early, known].map(&mut can_open), [false, true, true]);
}

#[test]
fn a_token_shown_while_events_were_lost_uses_no_table_entry() {
    let mut bench = Bench::new("");
    let (here, own) = bench.joined(11, 0);
    let late = bench.0.arbiter.speak_for(12);
    let lost = |bench: &Bench| bench.0.arbiter.page().load(Word::EVENTS_LOST);
    // More events than are kept for a controller that does not read them.
    while lost(&bench) == 0 {
        for operation in [Report::Ready, Report::Idle] {
            let report = Reported {
                kind: PacketKind::Reported as u32,
                slot: own.slot,
                operation: operation as u64,
                argument: u64::from(own.generation),
            };
            bench.0.report(here, &report);
        }
    }
    bench.0.settle(now_ns());
    let opened = bench.0.arbiter.open(late, device_key(0, 1, 0, 0), 1);
    assert!(matches!(opened, Err(xsched_arbiter::ArbiterError::OwnerGone)), "{opened:?}");
    assert_eq!(bench.list().processes.len(), 1);
    bench.open(here, 1);
}

#[test]
fn device_time_is_listed_by_library() {
    let mut bench = Bench::new("");
    let (id, claim) = bench.joined(11, 0);
    bench.0.calls.names = watch::channel(vec!["libtorch_hip.so".into(), "librocblas.so.4".into()]).1;
    bench.0.name_origin(id, &OriginName::new(5, b"librocblas.so.4"));
    let part = |origin, device_ns| OriginTime { origin, reserved: 0, device_ns };
    let mut divide = |slot, generation, parts: &[OriginTime]| {
        bench.0.divide(id, &OriginUsage::new(slot, generation, parts));
        let origins = bench.list().processes[0].claims[0].origins.clone();
        origins.into_iter().map(|origin| (origin.library, origin.device_ns)).collect::<Vec<_>>()
    };
    let own = OriginTime::OWN;
    let parts = [part(1, 70), part(2, 40), part(own | 5, 50), part(own | 6, 3), part(9, 2), part(0, 1)];
    let told = [("librocblas.so.4", 90), ("libtorch_hip.so", 70), ("[unknown]", 6)];
    let told = told.map(|(name, ns)| (name.to_owned(), ns));
    assert_eq!(divide(claim.slot, claim.generation, &parts), told);
    assert_eq!(divide(claim.slot, claim.generation + 1, &[part(1, 700)]), told, "it is of an earlier claim");
    assert_eq!(divide(claim.slot, claim.generation, &[part(1, 60)]), told, "counters do not decrease");
    let lies = [part(own | 7, u64::MAX), part(own | 8, u64::MAX)];
    assert_eq!(divide(claim.slot, claim.generation, &lies)[0], ("[unknown]".to_owned(), u64::MAX));
    let many: Vec<_> = (100..1_000).map(|origin| part(origin, 1_000)).collect();
    for parts in many.chunks(20) {
        divide(claim.slot, claim.generation, parts);
    }
    assert!(bench.0.claims[&claim.slot].origins.len() <= 64);
    let stranger = Actor::of(&Peer::unknown(1, USER + 1));
    let Answer::List(list) = bench.order(stranger, Request::List {}) else { panic!("no list") };
    assert!(list.processes[0].claims[0].origins.is_empty(), "other users do not see it");
}

#[test]
fn a_process_with_a_device_for_itself_is_listed_as_alone() {
    let mut bench = Bench::new("");
    let alone = |bench: &mut Bench| {
        let claims = bench.list().processes.into_iter().flat_map(|process| process.claims);
        claims.map(|claim| claim.alone).collect::<Vec<_>>()
    };
    bench.joined(11, 0);
    assert_eq!(alone(&mut bench), [true]);
    let elsewhere = bench.admit(12, hello(0));
    bench.open(elsewhere, 2);
    assert_eq!(alone(&mut bench), [true, true]);
    bench.joined(13, 5);
    assert_eq!(alone(&mut bench), [false, true, false]);
}

#[test]
fn the_more_urgent_process_is_before_the_others() {
    let mut bench = Bench::new("");
    let (batch_id, batch) = bench.joined(11, -100);
    let (urgent_id, urgent) = bench.joined(12, 7);
    assert!(bench.level(urgent) < bench.level(batch));
    bench.report(batch_id, batch, Report::Ready);
    assert_eq!(bench.ready(), 1 << bench.level(batch));
    bench.report(urgent_id, urgent, Report::Ready);
    assert_eq!(bench.ready(), 1 << bench.level(batch) | 1 << bench.level(urgent));
    let list = bench.list();
    assert_eq!(list.processes.iter().map(|one| one.claims[0].suspended).collect::<Vec<_>>(), [true, false]);
    bench.report(urgent_id, urgent, Report::Idle);
    assert_eq!(bench.ready(), 1 << bench.level(batch));
}

#[test]
fn a_process_that_leaves_defers_no_other() {
    let mut bench = Bench::new("");
    let (_, batch) = bench.joined(11, -100);
    let (urgent_id, urgent) = bench.joined(12, 7);
    bench.report(urgent_id, urgent, Report::Ready);
    assert_ne!(bench.ready(), 0);
    bench.0.leave(urgent_id);
    bench.0.settle(now_ns());
    assert_eq!(bench.ready(), 0);
    assert_eq!(bench.list().processes.len(), 1);
    assert!(bench.0.arbiter.page().claim(batch.slot).word.is_open());
    assert_eq!(bench.0.arbiter.page().claims().count(), 1);
}

#[test]
fn events_are_listened_to_only_where_a_decision_depends_on_them() {
    let mut bench = Bench::new("");
    let (id, _) = bench.joined(11, 0);
    assert!(!bench.0.listens(), "priorities do not depend on work");
    bench.order(ROOT, Request::Policy { name: Some("fair".into()) });
    assert!(bench.0.listens());
    bench.order(ROOT, Request::Policy { name: Some("priority".into()) });
    let recorded = bench.0.record(ROOT).unwrap();
    assert!(bench.0.listens(), "the recorder wants them in time");
    bench.0.stop_recording(recorded.id);
    assert!(!bench.0.listens());
    bench.0.clients.get_mut(&id).unwrap().link = Link::Awaited(7);
    assert!(bench.0.listens(), "it waits to be known");
    let soon = Bench::new("[scheduler]\nstarvation = '20ms'\n");
    assert!(soon.0.listens(), "a time slice is due before the next heartbeat");
}

#[test]
fn off_releases_all_processes_until_on() {
    let mut bench = Bench::new("");
    let (id, claim) = bench.joined(11, 0);
    bench.report(id, claim, Report::Ready);
    assert_ne!(bench.ready(), 0);
    let answer = bench.order(ROOT, Request::Off {});
    assert_eq!(answer, Answer::State { state: State::Off, was: State::Active });
    bench.0.beat(now_ns());
    assert_eq!(bench.ready(), 0);
    bench.order(ROOT, Request::On {});
    assert_ne!(bench.ready(), 0, "the masks stay correct while nothing is deferred");
}

#[test]
fn choosing_a_policy_turns_scheduling_on() {
    let mut bench = Bench::new("");
    bench.order(ROOT, Request::Off {});
    let answer = bench.order(ROOT, Request::Policy { name: Some("fair".into()) });
    assert_eq!(
        answer,
        Answer::Policy { policy: "fair".into(), was: "priority".into(), turned: Some(State::Active) }
    );
    assert_eq!(bench.list().controller.state, State::Active);
    let answer = bench.order(ROOT, Request::Policy { name: Some("fair".into()) });
    assert_eq!(answer, Answer::Policy { policy: "fair".into(), was: "fair".into(), turned: None });
    assert_refused(&bench.order(ROOT, Request::Policy { name: Some("no".into()) }), Reason::NotFound);
}

#[test]
fn an_observing_controller_decides_and_defers_nothing() {
    let mut bench = Bench::new("[scheduler]\nobserve = true");
    let (_, batch) = bench.joined(11, -100);
    let (id, urgent) = bench.joined(12, 7);
    bench.report(id, urgent, Report::Ready);
    bench.0.beat(now_ns());
    assert!(bench.level(urgent) < bench.level(batch));
    assert_eq!(bench.ready(), 0);
    let held = |bench: &mut Bench| -> Vec<_> {
        bench.list().processes.iter().map(|process| process.claims[0].suspended).collect()
    };
    assert_eq!(held(&mut bench), [true, false], "the list shows what would be suspended");
    bench.report(id, urgent, Report::Idle);
    assert_eq!(held(&mut bench), [false, false]);
    let answer = bench.order(ROOT, Request::On {});
    assert_eq!(answer, Answer::State { state: State::Observing, was: State::Observing });
}

#[test]
fn a_claim_of_another_process_is_not_touched() {
    let mut bench = Bench::new("");
    let (_, victim) = bench.joined(11, 0);
    let (liar, own) = bench.joined(12, 0);
    let refused = |bench: &mut Bench| bench.list().controller.counts.refused;
    let before = refused(&mut bench);
    for report in [Report::Ready, Report::Idle, Report::Close] {
        bench.report(liar, victim, report);
    }
    assert_eq!(bench.ready(), 0);
    let usage =
        Usage { slot: victim.slot, generation: victim.generation, device_ns: 9, ..Usage::new_zeroed() };
    bench.0.usage(liar, &usage);
    assert_eq!(bench.list().processes[0].claims[0].device_ns, 0);
    assert!(refused(&mut bench) > before);
    let stale = Opened { generation: own.generation.wrapping_sub(1), ..own };
    bench.report(liar, stale, Report::Ready);
    assert_eq!(bench.ready(), 0);
}

#[test]
fn claims_of_a_process_are_limited() {
    let mut bench = Bench::new("");
    let id = bench.admit(11, hello(0));
    let claims: BTreeSet<_> = (0..64).map(|_| bench.open(id, 1).slot).collect();
    assert_eq!(claims.len(), 64);
    let wanted = OpenClaim { device: device_key(0, 1, 0, 0), ..OpenClaim::new_zeroed() };
    assert_eq!(bench.0.open(id, &wanted).unwrap_err(), RefusalReason::Full);
    let other = bench.admit(12, hello(0));
    let nothing = OpenClaim { device: 0, ..wanted };
    assert_eq!(bench.0.open(other, &nothing).unwrap_err(), RefusalReason::Malformed);
}

#[test]
fn processes_of_a_user_are_limited() {
    let mut bench = Bench::new("");
    for pid in 1..=1024 {
        bench.admit(pid, hello(0));
    }
    assert_eq!(bench.0.admit(&Peer::unknown(5000, USER), &hello(0), None).unwrap_err(), RefusalReason::Full);
    assert!(bench.0.admit(&Peer::unknown(5000, USER + 1), &hello(0), None).is_ok());
}

#[test]
fn a_process_that_connects_again_starts_from_zero() {
    let mut bench = Bench::new("");
    let (_, first) = bench.joined(11, 0);
    let (_, second) = bench.joined(11, 5);
    let list = bench.list();
    assert_eq!(list.processes.len(), 1);
    assert_eq!(list.processes[0].parameters.priority, 5);
    assert_eq!(bench.0.arbiter.page().claims().count(), 1);
    assert!((first.slot, first.generation) != (second.slot, second.generation));
}

#[test]
fn what_is_set_holds_until_it_is_taken_back() {
    let mut bench = Bench::new("");
    let (_, low) = bench.joined(11, -20);
    let (_, high) = bench.joined(12, 20);
    assert!(bench.level(high) < bench.level(low));
    let Answer::Set { changed, .. } = bench.order(ROOT, set(11, 200)) else { panic!() };
    assert_eq!((changed[0].old.priority, changed[0].new.priority), (-20, 200));
    assert!(bench.level(low) < bench.level(high));
    assert_eq!(bench.list().processes[0].from, From::Set);
    // Another part in addition.
    let weight = Wish { weight: Some(300), ..Wish::default() };
    bench.order(ROOT, Request::Set { target: Target::Pid(11), wish: weight });
    let parameters = bench.list().processes[0].parameters;
    assert_eq!((parameters.priority, parameters.weight), (200, 300));
    bench.order(ROOT, Request::Set { target: Target::Pid(11), wish: Wish::default() });
    assert_eq!(bench.list().processes[0].parameters.priority, -20);
    assert!(bench.level(high) < bench.level(low));
    assert_refused(&bench.order(ROOT, set(99, 1)), Reason::NotFound);
    assert_refused(&bench.order(ROOT, set(11, 256)), Reason::Malformed);
}

#[test]
fn after_a_reset_the_setting_of_the_cgroup_applies() {
    let mut bench = Bench::new("[[rule]]\nclass = 'high'\n");
    let (id, _) = bench.joined(11, 100);
    bench.0.clients.get_mut(&id).unwrap().subject.cgroup = "/a".to_owned();
    let cgroup = Request::Set {
        target: Target::Cgroup("/a".into()),
        wish: Wish { priority: Some(-50), ..Wish::default() },
    };
    assert!(matches!(bench.order(ROOT, cgroup), Answer::Set { .. }));
    let owner = Actor::of(&Peer::unknown(2, USER));
    assert!(matches!(bench.order(owner, set(11, -80)), Answer::Set { .. }));
    let reset = Request::Set { target: Target::Pid(11), wish: Wish::default() };
    let Answer::Set { changed, .. } = bench.order(owner, reset) else {
        panic!("it is nowhere above the ceiling")
    };
    assert_eq!((changed[0].old.priority, changed[0].new.priority), (-80, -50));
}

#[test]
fn a_process_moved_to_another_cgroup_gets_that_ones_parameters() {
    let mut bench = Bench::new("[[rule]]\ncgroup = '/batch*'\npriority = -50\n");
    let [online, other] = [11, 12].map(|pid| bench.admit(pid, Hello { hints: 0, ..hello(0) }));
    let [moved, other] = [online, other].map(|id| bench.open(id, 1));
    let in_cgroup =
        |cgroup: &str| vec![(online, Seen { cgroup: cgroup.to_owned(), container: None, nice: 0 })];
    assert!(bench.0.learn_cgroups(in_cgroup("/batch.slice/job")));
    bench.0.settle(now_ns());
    assert!(bench.level(moved) > bench.level(other));
    assert_eq!(bench.list().processes[0].parameters.priority, -50);
    assert!(!bench.0.learn_cgroups(in_cgroup("/batch.slice/job")), "it is there already");
    let wish = Wish { priority: Some(33), ..Wish::default() };
    bench.order(ROOT, Request::Set { target: Target::Cgroup("/online".into()), wish });
    assert!(bench.0.learn_cgroups(in_cgroup("/online/worker")));
    assert_eq!(bench.list().processes[0].parameters.priority, 33);
    bench.0.leave(online);
    assert!(!bench.0.learn_cgroups(in_cgroup("/batch.slice")), "it is gone");
}

#[test]
fn a_cgroup_is_named_as_the_kernel_does() {
    let mut bench = Bench::new("");
    let set = |name: &str| Request::Set {
        target: Target::Cgroup(name.to_owned()),
        wish: Wish { priority: Some(3), ..Wish::default() },
    };
    for odd in ["", "a", "/a/", "//", "/a//b"] {
        assert_refused(&bench.order(ROOT, set(odd)), Reason::Malformed);
    }
    for name in ["/", "/a.slice/b c"] {
        assert!(matches!(bench.order(ROOT, set(name)), Answer::Set { .. }), "{name}");
    }
}

/// Anything that a command may write in place of a number.
#[test]
fn numbers_that_make_no_sense_change_nothing() {
    const ODD: [&str; 26] = [
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        "1e308",
        "-1e308",
        "1e309",
        "1e-308",
        "1e1",
        "10.0",
        "0.5",
        "-0",
        "-0.0",
        "-1",
        "256",
        "65536",
        "4294967296",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "0x10",
        "+5",
        "\"5\"",
        "true",
        "[5]",
        "{}",
    ];
    let mut bench = Bench::new("");
    let (_, claim) = bench.joined(11, 0);
    let before = bench.list().processes[0].parameters;
    let (mut understood, mut tokens) = (0, 0);
    for (field, least, most) in [("priority", -255, 255), ("weight", 1, 10_000), ("share", 1, 100)] {
        let around = [least, most]
            .into_iter()
            .flat_map(|end| [end - 1, end, end + 1])
            .map(|number: i64| number.to_string());
        for number in ODD.map(str::to_owned).into_iter().chain(around) {
            let wish = format!(r#"{{"{field}":{number}}}"#);
            for target in [
                r#"{"pid":11}"#.to_owned(),
                format!(r#"{{"queue":{}}}"#, claim.slot),
                r#"{"cgroup":"/"}"#.to_owned(),
            ] {
                let set = |wish: &str| format!(r#"{{"verb":"set","target":{target},"wish":{wish}}}"#);
                let Ok(request) = serde_json::from_str(&set(&wish)) else { continue };
                let answer = bench.order(ROOT, request);
                let is_within = number.parse::<i64>().is_ok_and(|number| (least..=most).contains(&number));
                assert_eq!(matches!(answer, Answer::Set { .. }), is_within, "{wish}: {answer:?}");
                understood += u32::from(is_within);
                bench.order(ROOT, serde_json::from_str(&set("{}")).unwrap());
            }
            tokens += 1;
            let run = format!(r#"{{"verb":"run","wish":{wish},"token":"{tokens:032x}"}}"#);
            if let Ok(request) = serde_json::from_str(&run) {
                let answer = bench.order(ROOT, request);
                let is_within = number.parse::<i64>().is_ok_and(|number| (least..=most).contains(&number));
                assert_eq!(matches!(answer, Answer::Refused { .. }), !is_within, "{wish}: {answer:?}");
            }
        }
    }
    assert!(understood > 30, "{understood}");
    assert_eq!(bench.list().processes[0].parameters, before);
    for target in ODD.iter().filter(|number| number.parse::<u32>().is_err()) {
        let line = format!(r#"{{"verb":"set","target":{{"pid":{target}}},"wish":{{"share":5}}}}"#);
        assert!(serde_json::from_str::<Request>(&line).is_err(), "{line}");
    }
}

#[test]
fn a_user_changes_its_own_processes_within_its_rights() {
    let mut bench = Bench::new("");
    bench.joined(11, 0);
    let (owner, other) = (Actor::of(&Peer::unknown(2, USER)), Actor::of(&Peer::unknown(3, USER + 1)));
    assert!(matches!(bench.order(owner, set(11, -255)), Answer::Set { .. }));
    assert!(matches!(bench.order(owner, set(11, 49)), Answer::Set { .. }));
    assert_refused(&bench.order(owner, set(11, 50)), Reason::AboveCeiling);
    assert_refused(&bench.order(other, set(11, -1)), Reason::NotPermitted);
    for request in [
        Request::Off {},
        Request::On {},
        Request::Policy { name: Some("fair".into()) },
        Request::Set {
            target: Target::Cgroup("/".into()),
            wish: Wish { priority: Some(-1), ..Wish::default() },
        },
    ] {
        assert_refused(&bench.order(owner, request), Reason::NotPermitted);
    }
    let list = bench.list();
    assert_eq!((list.processes[0].parameters.priority, list.controller.counts.forbidden), (49, 6));
}

#[test]
fn a_reset_by_the_user_does_not_undo_roots_setting_beyond_the_ceiling() {
    let mut bench = Bench::new("[[rule]]\npriority = 100");
    bench.joined(11, 100);
    bench.order(ROOT, set(11, -200));
    let owner = Actor::of(&Peer::unknown(2, USER));
    let reset = Request::Set { target: Target::Pid(11), wish: Wish::default() };
    assert_refused(&bench.order(owner, reset), Reason::AboveCeiling);
    assert_eq!(bench.list().processes[0].parameters.priority, -200);
}

#[test]
fn one_claim_can_have_its_own_parameters() {
    let mut bench = Bench::new("");
    let (id, first) = bench.joined(11, 0);
    let second = bench.open(id, 1);
    assert_eq!(bench.level(first), bench.level(second));
    let wish = Wish { priority: Some(-50), ..Wish::default() };
    let answer = bench.order(ROOT, Request::Set { target: Target::Claim(second.slot), wish });
    assert!(matches!(answer, Answer::Set { .. }), "{answer:?}");
    assert!(bench.level(first) < bench.level(second));
    let list = bench.list();
    assert_eq!(list.processes[0].claims[1].parameters.map(|parameters| parameters.priority), Some(-50));
    assert_eq!(list.processes[0].parameters.priority, 0);
}

#[test]
#[ignore = "needs cgroup v2"]
fn a_setting_for_a_cgroup_applies_to_all_processes_in_and_below_it_now_and_later() {
    let mut bench = Bench::new("");
    // A process that does not exist has no cgroup; this one has.
    let own = std::process::id();
    bench.joined(own, 0);
    let wish = Wish { priority: Some(33), ..Wish::default() };
    bench.order(ROOT, Request::Set { target: Target::Cgroup("/".into()), wish });
    assert_eq!(bench.list().processes[0].parameters.priority, 33);
    bench.joined(own, 0);
    assert_eq!(bench.list().processes[0].parameters.priority, 33);
    bench.order(ROOT, Request::Set { target: Target::Cgroup("/".into()), wish: Wish::default() });
    assert_eq!(bench.list().processes[0].parameters.priority, 0);
}

#[test]
fn a_command_has_the_parameters_given_to_run() {
    let mut bench = Bench::new("");
    let token = "000102030405060708090a0b0c0d0e0f";
    let wish = Wish { priority: Some(150), ..Wish::default() };
    let run = Request::Run { wish, token: token.into() };
    let user = Actor::of(&Peer::unknown(2, USER));
    assert_refused(&bench.order(user, run.clone()), Reason::AboveCeiling);
    // The process connects first, as after a restart of the controller.
    let key: [u8; 16] = std::array::from_fn(|index| index as u8);
    let id = bench.admit(11, Hello { token: key, ..hello(-9) });
    assert_eq!(bench.list().processes[0].parameters.priority, -9);
    let mut attendance = Attendance::default();
    assert_eq!(bench.0.order(ROOT, run, &mut attendance), Answer::Run { overpromised: None });
    let process = &bench.list().processes[0];
    assert_eq!((process.parameters.priority, process.from), (150, From::Run));
    let joined = bench.0.order(ROOT, Request::Joined {}, &mut attendance);
    assert_eq!(joined, Answer::Joined { processes: vec![11], count: 1 });
    bench.0.part(&attendance);
    assert_eq!(bench.list().processes[0].parameters.priority, 150, "the command runs on");
    bench.0.leave(id);
    bench.admit(12, Hello { token: key, ..hello(-9) });
    assert_eq!(bench.list().processes[0].parameters.priority, -9, "the token is no longer needed");
}

#[test]
fn a_token_that_is_passed_on_raises_no_process_above_its_own_ceiling() {
    let mut bench = Bench::new(&format!("[[ceiling]]\nuser = '{USER}'\nclass = 'high'"));
    let token = "000102030405060708090a0b0c0d0e0f";
    let key: [u8; 16] = std::array::from_fn(|index| index as u8);
    let wish = Wish { priority: Some(120), ..Wish::default() };
    let run = Request::Run { wish, token: token.into() };
    let mut attendance = Attendance::default();
    let granted = bench.0.order(Actor::of(&Peer::unknown(2, USER)), run, &mut attendance);
    assert_eq!(granted, Answer::Run { overpromised: None });
    for (pid, uid) in [(11, USER), (12, USER + 1)] {
        let hello = Hello { token: key, ..hello(0) };
        bench.0.admit(&Peer::unknown(pid, uid), &hello, None).unwrap();
    }
    let priorities: Vec<_> = bench.list().processes.iter().map(|one| one.parameters.priority).collect();
    assert_eq!(priorities, [120, 49]);
}

#[test]
fn what_was_set_for_a_process_applies_when_it_connects_again() {
    let mut bench = Bench::new("");
    let wish = Wish { priority: Some(-100), ..Wish::default() };
    let id = bench.admit(11, hello(0));
    bench.order(ROOT, Request::Set { target: Target::Pid(11), wish });
    bench.0.leave(id);
    let id = bench.admit(11, hello(0));
    assert_eq!(bench.list().processes[0].parameters.priority, -100);
    bench.0.leave(id);
    bench.0.admit(&Peer::unknown(11, USER + 1), &hello(0), None).unwrap();
    assert_eq!(bench.list().processes[0].parameters.priority, 0, "another user's process");
}

#[test]
fn names_of_others_processes_are_not_shown() {
    let mut bench = Bench::new("");
    bench.admit(std::process::id(), hello(0));
    let command = |bench: &mut Bench, uid| {
        let Answer::List(list) = bench.order(Actor::of(&Peer::unknown(1, uid)), Request::List {}) else {
            panic!()
        };
        list.processes[0].command.clone()
    };
    assert_eq!(command(&mut bench, USER + 1), "");
    assert!(!command(&mut bench, USER).is_empty() && !command(&mut bench, 0).is_empty());
}

#[test]
fn a_lease_ends_also_when_no_process_waits_for_it() {
    let mut bench = Bench::new("[scheduler]\nlease = '5ms'");
    let (id, claim) = bench.joined(11, 0);
    bench.0.arbiter.set_times(&Times { lease: std::time::Duration::from_millis(5), ..Times::default() });
    bench.report(id, claim, Report::Ready);
    std::thread::sleep(std::time::Duration::from_millis(6));
    bench.0.beat(now_ns());
    bench.0.settle(now_ns());
    assert_eq!(bench.ready(), 0);
    assert_eq!(bench.list().controller.counts.expired, 1);
}
