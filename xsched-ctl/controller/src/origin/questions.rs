//! Requests for verdicts that wait: for the chain of their call, for the name of its kernel, or for their party's turn.
//!
//! A decision takes as long as the process has made its rules, its chains and its names. So parties take turns, question by question,
//! and each turn of the thread is bounded. A party whose decision takes long rests for ten times as long: no other misses its verdicts
//! because of it, but for a tenth of the time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use xsched_control_api::peer::Party;
use xsched_protocol::verdict::VerdictKey;

/// Most of a process. Every number that it gives a kernel is another request, and each that waits is looked at again every 2 ms.
const OF_PROCESS_MAX: usize = 4096;

/// Longer than this, on the processor, takes only a decision that is meant to.
const LONG: Duration = Duration::from_millis(20);
const REST: u32 = 10;

/// For how long the calling thread has had a processor.
pub(super) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

pub(super) struct Question {
    /// Its process, by id in the initial pid namespace.
    pub(super) tgid: u32,
    pub(super) party: Party,
    pub(super) key: VerdictKey,
    pub(super) since: Instant,
}

/// The questions of a party.
#[derive(Default)]
struct Line {
    /// The next comes first.
    next: VecDeque<Question>,
    /// Those that have had their turn and wait on.
    seen: Vec<Question>,
    rests_until: Option<Instant>,
}

#[derive(Default)]
pub(super) struct Questions {
    lines: BTreeMap<Party, Line>,
    /// The party that had the last turn.
    last: Option<Party>,
    /// How many each process has.
    counts: HashMap<u32, usize>,
}

impl Questions {
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// False if too many of its process wait: it is to be asked again.
    pub(super) fn add(&mut self, question: Question) -> bool {
        let count = self.counts.entry(question.tgid).or_default();
        if *count >= OF_PROCESS_MAX {
            return false;
        }
        *count += 1;
        self.lines.entry(question.party).or_default().next.push_back(question);
        true
    }

    /// The next one: of the next party that has any and does not rest.
    pub(super) fn take(&mut self, now: Instant) -> Option<Question> {
        let can_go = |line: &Line| !line.next.is_empty() && line.rests_until.is_none_or(|until| until <= now);
        let behind = self.lines.iter().filter(|(party, _)| self.last.is_none_or(|last| **party > last));
        let mut parties = behind.chain(&self.lines);
        let party = *parties.find(|(_, line)| can_go(line))?.0;
        self.last = Some(party);
        self.lines.get_mut(&party)?.next.pop_front()
    }

    /// It has taken this long to look at one.
    pub(super) fn looked(&mut self, question: Question, is_answered: bool, took: Duration) {
        let line = self.lines.entry(question.party).or_default();
        if took > LONG {
            line.rests_until = Some(Instant::now() + REST * took);
        }
        if !is_answered {
            return line.seen.push(question);
        }
        let left = self.counts.get(&question.tgid).map_or(0, |count| count - 1);
        if left == 0 {
            self.counts.remove(&question.tgid);
        } else {
            self.counts.insert(question.tgid, left);
        }
    }

    /// What still waits comes again.
    pub(super) fn end_turn(&mut self, now: Instant) {
        self.lines.retain(|_, line| {
            line.next.extend(line.seen.drain(..));
            !line.next.is_empty() || line.rests_until.is_some_and(|until| until > now)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(uid: u32, tgid: u32, chain: u64) -> Question {
        let key = VerdictKey { chain, subject: 0 };
        Question { tgid, party: Party::User(uid), key, since: Instant::now() }
    }

    /// Looks at all that can be looked at; the processes in their order.
    fn turn(questions: &mut Questions, is_answered: bool) -> Vec<u32> {
        let mut seen = Vec::new();
        while let Some(question) = questions.take(Instant::now()) {
            seen.push(question.tgid);
            questions.looked(question, is_answered, Duration::ZERO);
        }
        questions.end_turn(Instant::now());
        seen
    }

    #[test]
    fn a_process_that_asks_and_asks_does_not_keep_others_waiting() {
        let mut questions = Questions::default();
        let count = 2 * OF_PROCESS_MAX as u64;
        let kept = (0..count).filter(|&chain| questions.add(question(1000, 1, chain))).count();
        assert_eq!(kept, OF_PROCESS_MAX);
        assert!(questions.add(question(1001, 2, 7)) && questions.add(question(1001, 3, 7)));
        let order = turn(&mut questions, false);
        assert_eq!((&order[..4], order.len()), (&[1, 2, 1, 3][..], OF_PROCESS_MAX + 2), "parties take turns");
        assert!(!questions.is_empty() && !questions.add(question(1000, 1, 0)), "they wait on");
        assert_eq!(turn(&mut questions, true).len(), OF_PROCESS_MAX + 2);
        assert!(questions.is_empty() && questions.lines.is_empty() && questions.add(question(1000, 1, 8)));
    }

    #[test]
    fn a_party_whose_decision_takes_long_rests() {
        let mut questions = Questions::default();
        for (uid, tgid) in [(1000, 1), (1000, 2), (1001, 3)] {
            questions.add(question(uid, tgid, 7));
        }
        let now = Instant::now();
        let slow = questions.take(now).unwrap();
        assert_eq!(slow.tgid, 1);
        questions.looked(slow, true, 2 * LONG);
        assert_eq!(turn(&mut questions, true), [3]);
        assert!(questions.take(now + 15 * LONG).is_none(), "it rests, with its other processes");
        assert_eq!(questions.take(now + Duration::from_mins(1)).map(|question| question.tgid), Some(2));
    }
}
