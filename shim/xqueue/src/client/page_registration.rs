//! A claim's registration with the arbiter: its queue in the page.

use std::sync::Arc;

use xsched_protocol::arbiter_page::{ClaimWord, Report, Word};
use xsched_sched::Nanos;

use crate::client::link::{Link, Slot};
use crate::clock::MachineClock;
use crate::gate_page::GatePage;
use crate::registration::{AdmissionState, Registration};

#[derive(Debug)]
pub(super) struct PageRegistration {
    pub(super) link: Arc<Link>,
    pub(super) slot: Slot,
    pub(super) gate: Option<Arc<GatePage>>,
    pub(super) clock: MachineClock,
}

impl PageRegistration {
    fn report(&self, report: Report) {
        self.link.report(report, self.slot.index, self.slot.generation.into(), self.slot.keeper);
    }
}

impl Registration for PageRegistration {
    fn state(&self) -> AdmissionState {
        self.link.state_of(self.slot)
    }

    fn name(&self) -> Option<u64> {
        Some(self.slot.name())
    }

    fn report_ready(&self) {
        self.report(Report::Ready);
    }

    fn report_idle(&self) {
        self.report(Report::Idle);
    }

    fn levels(&self) -> (u8, u64) {
        let Some(word) = self.link.word(self.slot) else { return (0, 0) };
        (word.level() as u8, self.link.page.load(Word::ready(word.device())))
    }

    fn is_ready(&self) -> bool {
        self.link.word(self.slot).is_some_and(ClaimWord::is_ready)
    }

    fn lease(&self) -> Nanos {
        Nanos(self.link.page.load(Word::LEASE))
    }

    fn linger(&self) -> Nanos {
        Nanos(self.link.page.load(Word::LINGER))
    }

    fn gate_page(&self) -> Option<&Arc<GatePage>> {
        self.gate.as_ref()
    }

    fn is_in_force(&self) -> bool {
        self.link.is_in_force()
    }

    fn request_gate_check(&self) {
        self.report(Report::Gate);
    }

    fn age_of(&self, page_ns: u64) -> Nanos {
        Nanos(self.clock.now_ns().saturating_sub(page_ns))
    }
}
