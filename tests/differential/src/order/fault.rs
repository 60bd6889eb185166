//! After a fault of the device: every call returns its code, as soon as somebody has waited for it.
//!
//! Until then what calls return depends on time. Only one thread may be there, which holds nothing up: so it is known when
//! it has waited. It goes on for a while, as programs do that look at no codes.

use super::{Answer, Flaw, Order};
use crate::program::{Op, Stream};

/// Where a program with a fault is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Faulted {
    /// It has none, or not yet.
    #[default]
    No,
    /// Its kernel was launched.
    Launched,
    /// The host has waited for it.
    Known,
}

impl Order {
    pub(super) fn fault(&mut self, thread: usize, stream: Stream) -> Result<Answer, Flaw> {
        let is_quiet = self.captures.iter().all(Option::is_none) && self.gates.iter().all(Option::is_none);
        if self.thread_count > 1 || !is_quiet {
            return Err(Flaw::Open);
        }
        self.enqueue(thread, stream)?;
        self.faulted = Faulted::Launched;
        Ok(Answer::Code)
    }

    /// Whether a step may come after a fault: nothing is made or given back, since how far that goes is left open.
    pub(super) fn check_after_fault(&self, op: &Op) -> Result<(), Flaw> {
        let is_permitted = matches!(
            op,
            Op::Submit(..)
                | Op::Timed(..)
                | Op::Record(..)
                | Op::Wait(..)
                | Op::SyncStream(_)
                | Op::SyncEvent(_)
                | Op::SyncDevice
                | Op::QueryStream(_)
                | Op::QueryEvent(_)
                | Op::Elapsed(..)
                | Op::LaunchGraph(..)
                | Op::LastError
                | Op::PeekError
        );
        if self.faulted == Faulted::No || is_permitted { Ok(()) } else { Err(Flaw::Open) }
    }

    /// What is known of the code of a step that was taken.
    pub(super) fn answer_after_fault(&mut self, op: &Op, answer: Answer) -> Answer {
        match self.faulted {
            Faulted::No => answer,
            Faulted::Launched => {
                if matches!(op, Op::SyncDevice) {
                    self.faulted = Faulted::Known;
                    return Answer::Code;
                }
                // The call that launches it returns before it runs, and may still be told.
                Answer::Any
            }
            // What is not ready yet may be told as that.
            Faulted::Known => match answer {
                Answer::Code | Answer::Ready => Answer::Code,
                Answer::NotReady | Answer::ReadyOrNot | Answer::Any => Answer::Any,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Program, Step, Thread};

    #[test]
    fn codes_are_known_again_when_somebody_has_waited() {
        let null = Stream::Null;
        let ops = [Op::Fault(null), Op::QueryStream(null), Op::SyncDevice, Op::SyncStream(null)];
        let program = Program { steps: ops.into_iter().map(|op| Step(Thread(0), op)).collect() };
        let answers = crate::order::check(&program).unwrap().answers;
        assert_eq!(answers, [Answer::Any, Answer::Any, Answer::Code, Answer::Code]);
        assert!(program.has_fault());
    }

    #[test]
    fn nothing_is_made_after_a_fault() {
        let mut order = Order::new(1);
        let step = |op| Step(Thread(0), op);
        assert!(order.step(&step(Op::Fault(Stream::Null))).is_ok());
        let made = Op::MakeStream(0, crate::program::StreamKind::Blocking);
        assert_eq!(order.step(&step(made)), Err(Flaw::Open));
        let mut order = Order::new(2);
        assert_eq!(order.step(&step(Op::Fault(Stream::Null))), Err(Flaw::Open), "others may be at anything");
    }
}
