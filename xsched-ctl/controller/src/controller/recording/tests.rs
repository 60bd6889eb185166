use tokio::sync::oneshot::error::TryRecvError;
use xsched_control_api::peer::Party;
use xsched_protocol::arbiter_page::Report;
use xsched_protocol::events::Reader;

use super::super::tests::Bench;
use super::*;

const ROOT: Actor = Actor { pid: 1, uid: 0, container: None, party: Party::User(0) };
const STRANGER: Actor =
    Actor { pid: 2, uid: 3_999_999_999, container: None, party: Party::User(3_999_999_999) };

struct Follower {
    recorded: Recorded,
    ring: SharedRing,
    reader: Reader,
}

impl Follower {
    fn new(mut recorded: Recorded) -> Self {
        let first = recorded.announcements.try_recv().unwrap();
        assert_eq!((first.packet.ring, first.packet.is_over), (0, 0));
        let ring = SharedRing::map(first.memory.unwrap()).unwrap();
        let reader = Reader::new(ring.memory()).unwrap();
        Self { recorded, ring, reader }
    }

    fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let take = |record: xsched_protocol::events::Record| events.push(Event::of(&record).unwrap());
        assert_eq!(self.reader.read(self.ring.memory(), take), Ok(0));
        events
    }
}

#[test]
fn a_recorder_learns_of_all_claims_and_of_each_change() {
    let mut bench = Bench::new("");
    let (first, opened) = bench.joined(1, 100);
    let mut follower = Follower::new(bench.0.record(ROOT).unwrap());
    let seats = follower.events();
    assert!(matches!(seats[..], [Event::Claim { pid: 1, slot, .. }] if slot == opened.slot), "{seats:?}");
    let (second, _) = bench.joined(2, 0);
    assert!(follower.events().iter().any(|event| matches!(event, Event::Claim { pid: 2, .. })));
    bench.report(first, opened, Report::Ready);
    let ready = ArbiterChange::Ready as u32;
    let events = follower.events();
    assert!(
        events.iter().any(|event| matches!(event, Event::Arbiter(change) if change.change == ready)),
        "{events:?}"
    );
    // Each gets a ring once, and is notified of the end.
    for id in [first, second] {
        let told = bench.0.events_for(id).unwrap();
        assert!(told.events.wanted == 1 && told.ring.is_some() && bench.0.events_for(id).is_none());
        let announced = follower.recorded.announcements.try_recv().unwrap();
        assert_eq!(announced.packet.ring, id.0);
        // The process must wait for it.
        let mut is_announced = told.is_announced.unwrap();
        assert_eq!(is_announced.try_recv(), Err(TryRecvError::Empty));
        drop(announced);
        assert_eq!(is_announced.try_recv(), Err(TryRecvError::Closed));
    }
    bench.0.leave(second);
    let announced = follower.recorded.announcements.try_recv().unwrap();
    assert_eq!((announced.packet.ring, announced.packet.is_over), (second.0, 1));
    bench.0.stop_recording(follower.recorded.id);
    let told = bench.0.events_for(first).unwrap();
    assert!(told.events.wanted == 0 && told.ring.is_none() && told.is_announced.is_none());
}

#[test]
fn a_user_records_its_own_processes_until_root_records() {
    let mut bench = Bench::new("");
    let (id, opened) = bench.joined(1, 0);
    let mut strangers = Follower::new(bench.0.record(STRANGER).unwrap());
    bench.report(id, opened, Report::Ready);
    assert!(bench.0.events_for(id).is_none() && strangers.events().is_empty());
    assert_eq!(strangers.recorded.is_shared.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(bench.0.record(STRANGER).err(), Some(RecordRefusal::Busy));
    assert_eq!(strangers.recorded.is_shared.try_recv(), Ok(()), "another has asked");
    let mut roots = bench.0.record(ROOT).unwrap();
    assert_eq!(roots.is_shared.try_recv(), Ok(()), "the displaced one still has its probes");
    assert!(strangers.recorded.announcements.try_recv().is_err(), "it is closed");
    assert!(bench.0.events_for(id).is_some());
    assert_eq!(bench.0.record(ROOT).err(), Some(RecordRefusal::Busy));
    bench.0.stop_recording(strangers.recorded.id);
    assert!(bench.0.recordings.is_under_way(), "that of another");
    bench.0.stop_recording(roots.id);
}
