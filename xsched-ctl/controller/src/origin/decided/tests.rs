use super::*;
use crate::origin::programs::Programs;

const DECIDED: Decided = Decided { verdict: 1, origin: 2, rule: 3 };

fn key(number: u64) -> VerdictKey {
    VerdictKey { chain: number, subject: 7 }
}

fn knows(maps: &DecidedMaps, tgid: u32, number: u64) -> bool {
    let (map, _) = &maps.maps[&maps.holders[&tgid]];
    map.get(&Key(key(number)), 0).is_ok_and(|Value(decided)| decided == DECIDED)
}

#[test]
#[ignore = "needs root"]
fn verdicts_of_a_party_are_not_evicted_because_of_another() {
    let (programs, _) = Programs::load().unwrap();
    let mut maps = programs.decided;
    for (tgid, uid) in [(1, 1000), (2, 2000), (3, 1000)] {
        maps.add(tgid, Party::User(uid)).unwrap();
    }
    for tgid in [2, 3] {
        maps.decide(tgid, key(0), DECIDED);
    }
    for number in 1..u64::from(2 * ANSWERS_PER_PARTY) {
        maps.decide(1, key(number), DECIDED);
    }
    assert!(knows(&maps, 2, 0), "it is another party's");
    assert!(!knows(&maps, 3, 0), "it is not in the map");
    maps.remove(2, []);
    assert_eq!(maps.maps.len(), 1, "the party has no more processes");
    maps.decide(3, key(1), DECIDED);
    maps.remove(1, [key(1)]);
    assert!(!knows(&maps, 3, 1));
    for uid in 3000..3100 {
        maps.add(uid, Party::User(uid)).unwrap();
    }
    assert_eq!(maps.maps.len(), PARTIES_MAX + 1, "the others share one");
    assert!(maps.by_process.get(&3099, 0).is_ok());
}
