//! Programs after a device fault: every call returns the fault's code, once the host has waited for the
//! fault.
//!
//! Until then return codes depend on time. Only one thread may exist, and it keeps no gate closed, so the
//! time of its wait is known. It continues for a while, like programs that check no codes.

use super::{Answer, Flaw, Order};
use crate::program::{Op, Stream};

/// A program's state with respect to a device fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Faulted {
    /// No fault so far.
    #[default]
    No,
    /// The faulting kernel was launched.
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

    /// Whether a step may follow a fault. Nothing may be created or freed, since the effect would be
    /// undetermined.
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

    /// Prior knowledge about the code of a step that was taken.
    pub(super) fn answer_after_fault(&mut self, op: &Op, answer: Answer) -> Answer {
        match self.faulted {
            Faulted::No => answer,
            Faulted::Launched => {
                if matches!(op, Op::SyncDevice) {
                    self.faulted = Faulted::Known;
                    return Answer::Code;
                }
                // The launching call returns before the kernel runs, but may already return the fault's code.
                Answer::Any
            }
            // A query may return the fault's code instead of not ready.
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
    fn codes_are_known_again_after_a_wait() {
        let null = Stream::Null;
        let ops = [Op::Fault(null), Op::QueryStream(null), Op::SyncDevice, Op::SyncStream(null)];
        let program = Program { steps: ops.into_iter().map(|op| Step(Thread(0), op)).collect() };
        let answers = crate::order::check(&program).unwrap().answers;
        assert_eq!(answers, [Answer::Any, Answer::Any, Answer::Code, Answer::Code]);
        assert!(program.has_fault());
    }

    #[test]
    fn nothing_is_created_after_a_fault() {
        let mut order = Order::new(1);
        let step = |op| Step(Thread(0), op);
        assert!(order.step(&step(Op::Fault(Stream::Null))).is_ok());
        let made = Op::MakeStream(0, crate::program::StreamKind::Blocking);
        assert_eq!(order.step(&step(made)), Err(Flaw::Open));
        let mut order = Order::new(2);
        assert_eq!(
            order.step(&step(Op::Fault(Stream::Null))),
            Err(Flaw::Open),
            "other threads may be making calls"
        );
    }
}
