//! Requests for verdicts that wait for the chain of their call, or for the name of its kernel.

use std::collections::HashMap;
use std::time::Instant;

use xsched_protocol::verdict::VerdictKey;

/// Most of a process. Every number that it gives a kernel is another request, and each that waits is looked at again every 2 ms.
const OF_PROCESS_MAX: usize = 4096;

pub(super) struct Question {
    /// Its process, by id in the initial pid namespace.
    pub(super) tgid: u32,
    pub(super) key: VerdictKey,
    pub(super) since: Instant,
}

#[derive(Default)]
pub(super) struct Questions {
    waiting: Vec<Question>,
    /// By process.
    counts: HashMap<u32, usize>,
}

impl Questions {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// False if too many of its process wait: it is to be asked again.
    pub(super) fn add(&mut self, question: Question) -> bool {
        let count = self.counts.entry(question.tgid).or_default();
        if *count >= OF_PROCESS_MAX {
            return false;
        }
        *count += 1;
        self.waiting.push(question);
        true
    }

    /// Takes all.
    pub(super) fn take(&mut self) -> Vec<Question> {
        self.counts.clear();
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_asks_and_asks_does_not_keep_others_waiting() {
        let mut questions = Questions::default();
        let question =
            |tgid, chain| Question { tgid, key: VerdictKey { chain, subject: 0 }, since: Instant::now() };
        let kept = (0..2 * OF_PROCESS_MAX as u64).filter(|&chain| questions.add(question(1, chain))).count();
        assert_eq!(kept, OF_PROCESS_MAX);
        assert!(questions.add(question(2, 7)));
        assert_eq!(questions.take().len(), OF_PROCESS_MAX + 1);
        assert!(questions.is_empty() && questions.add(question(1, 8)));
    }
}
