//! A claim's place with the arbiter: its queue in the page.

use std::sync::Arc;

use xsched_protocol::arbiter_page::{QueueWord, Report, Word};
use xsched_sched::Nanos;

use crate::client::link::{Link, Slot, page_time_ns};
use crate::queues::{GatePage, Seat, Standing};

#[derive(Debug)]
pub(super) struct PageSeat {
    pub(super) link: Arc<Link>,
    pub(super) slot: Slot,
    pub(super) gate: Option<Arc<GatePage>>,
}

impl PageSeat {
    fn report(&self, report: Report) {
        self.link.report(report, self.slot.index, self.slot.generation.into(), self.slot.keeper);
    }
}

impl Seat for PageSeat {
    fn standing(&self) -> Standing {
        self.link.standing(self.slot)
    }

    fn tell_ready(&self) {
        self.report(Report::Ready);
    }

    fn tell_idle(&self) {
        self.report(Report::Idle);
    }

    fn levels(&self) -> (u8, u64) {
        let Some(word) = self.link.word(self.slot) else { return (0, 0) };
        (word.level() as u8, self.link.page.load(Word::ready(word.device())))
    }

    fn is_ready(&self) -> bool {
        self.link.word(self.slot).is_some_and(QueueWord::is_ready)
    }

    fn lease(&self) -> Nanos {
        Nanos(self.link.page.load(Word::LEASE))
    }

    fn linger(&self) -> Nanos {
        Nanos(self.link.page.load(Word::LINGER))
    }

    fn gate_page(&self) -> Option<Arc<GatePage>> {
        self.gate.clone()
    }

    fn is_heeded(&self) -> bool {
        self.link.is_heeded()
    }

    fn ask_for_gate(&self) {
        self.report(Report::Gate);
    }

    fn ago(&self, page_ns: u64) -> Nanos {
        Nanos(page_time_ns().saturating_sub(page_ns))
    }
}
