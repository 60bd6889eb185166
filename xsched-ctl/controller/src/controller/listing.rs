//! Answers to commands that show the controller's state.

use std::collections::BTreeMap;
use std::process;
use std::sync::atomic::Ordering;

use xsched_control_api::{
    answer::{self, Counts, List, Settings, State, Status, WAITS_FOR_MAX},
    device_address::device_name,
    parameters::Class,
};
use xsched_protocol::arbiter_page::{ClaimWord, Word, more_urgent};
use xsched_sched::ClaimId;
use xsched_symbols::now_ns;
use xsched_terminal::one_line;

use super::Controller;
use super::authority::Actor;
use super::claim::Claim;
use super::client::{Client, Said};
use super::meter::Meter;

/// The claims of a device.
#[derive(Clone, Debug, Default)]
struct Company {
    claims: usize,
    /// Bit L: a claim at level L has work.
    working_levels: u64,
    /// The claims with work at the most urgent of these levels, up to the limit.
    first: Vec<u32>,
}

impl Company {
    /// A claim at this level has work.
    fn works(&mut self, slot: u32, level: u64) {
        if self.working_levels == 0 || self.working_levels.trailing_zeros() > level as u32 {
            self.first.clear();
        }
        self.working_levels |= 1 << level;
        let is_first = u64::from(self.working_levels.trailing_zeros()) == level;
        if is_first && self.first.len() < WAITS_FOR_MAX {
            self.first.push(slot);
        }
    }
}

impl Controller {
    pub(crate) fn status(&self) -> Status {
        let page = self.arbiter.page();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: process::id(),
            uid: rustix::process::geteuid().as_raw(),
            state: self.state,
            policy: self.scheduler.policy().to_string(),
            settings: Settings::of(self.config.settings(), self.config.preemption_mode),
            keeper: self.keeper(),
            sight: self.calls.sight,
            uptime_ns: now_ns().saturating_sub(self.started_ns),
            counts: Counts {
                exhausted: page.load(Word::EXHAUSTED),
                refused: self.counts.refused + page.load(Word::REFUSED),
                answered_again: self.calls.answered_again.load(Ordering::Relaxed),
                ..self.counts
            },
        }
    }

    /// All processes. Unprivileged callers see no names of others' processes.
    pub(super) fn list(&self, actor: Actor) -> List {
        let company = self.company();
        let process = |client| self.process(client, actor, &company);
        let mut processes: Vec<_> = self.clients.values().map(process).collect();
        processes.sort_by_key(|process| process.pid);
        let now_ns = now_ns();
        let device = |(&key, meter): (&u64, &Meter)| answer::Device {
            device: device_name(key),
            busy: meter.busy(now_ns),
        };
        List { controller: self.status(), devices: self.meters.iter().map(device).collect(), processes }
    }

    /// The claims by device, computed once for all processes.
    fn company(&self) -> BTreeMap<u16, Company> {
        let page = self.arbiter.page();
        let mut devices: BTreeMap<u16, Company> = BTreeMap::new();
        for claim in self.claims.values() {
            let company = devices.entry(claim.device).or_default();
            company.claims += 1;
            let word = page.claim(claim.key.slot).word;
            if word.is_open() && word.is_ready() {
                company.works(claim.key.slot, word.level());
            }
        }
        devices
    }

    fn process(&self, client: &Client, actor: Actor, company: &BTreeMap<u16, Company>) -> answer::Process {
        let subject = &client.subject;
        let said = self.wishes.of(client);
        let (parameters, from) = client.parameters(&self.config, &said);
        let may_know = actor.may_see(client.actor());
        let claims = client.claims.iter().filter_map(|slot| self.claims.get(slot));
        answer::Process {
            pid: subject.pid,
            uid: subject.uid,
            user: subject.users.first().cloned().unwrap_or_else(|| subject.uid.to_string()),
            command: if may_know { subject.command.clone() } else { String::new() },
            cgroup: if may_know { subject.cgroup.clone() } else { String::new() },
            pod: subject.pod.as_ref().filter(|_| may_know).map(|pod| answer::Pod {
                namespace: one_line(&pod.namespace).into_owned(),
                name: one_line(&pod.pod).into_owned(),
                container: one_line(&pod.name).into_owned(),
            }),
            parameters,
            class: Class::of(parameters.priority).to_string(),
            from,
            reports: Self::reports(client),
            claims: claims
                .map(|claim| self.claim(claim, client, &said, may_know, &company[&claim.device]))
                .collect(),
        }
    }

    /// Whether a more urgent claim of its device has work. While the controller only observes, the ready masks are
    /// empty.
    fn has_more_urgent_work(&self, word: ClaimWord, company: &Company) -> bool {
        let working_levels = match self.state {
            State::Observing => company.working_levels,
            State::Active | State::Off => self.arbiter.page().load(Word::ready(word.device())),
        };
        working_levels & more_urgent(word.level()) != 0
    }

    fn claim(
        &self,
        claim: &Claim,
        client: &Client,
        said: &Said,
        may_know: bool,
        company: &Company,
    ) -> answer::Claim {
        let page = self.arbiter.page();
        let word = page.claim(claim.key.slot).word;
        let is_own = !claim.set.is_empty() || !claim.hint.is_empty();
        let is_suspended = self.has_more_urgent_work(word, company);
        // Levels change while they are read: then none goes before it.
        let goes_first = company.working_levels & more_urgent(word.level()) != 0;
        answer::Claim {
            slot: claim.key.slot,
            device: device_name(claim.device_key),
            parameters: is_own.then(|| client.parameters(&self.config, &claim.said(said)).0),
            stream_priority: claim.stream_priority,
            level: word.level(),
            ready: word.is_ready(),
            suspended: is_suspended,
            waits_for: if is_suspended && word.is_ready() && goes_first {
                company.first.clone()
            } else {
                Vec::new()
            },
            alone: company.claims == 1,
            device_share: claim.usage.device.share(now_ns()),
            device_ns: claim.usage.device.ns,
            origins: if may_know { self.origins(claim, client) } else { Vec::new() },
            launched: claim.usage.launched,
            deferred: claim.usage.deferred,
            suspended_ns: claim.usage.suspended_ns,
            latency_ns: self
                .scheduler
                .claim(ClaimId(claim.key.slot))
                .and_then(|state| Some(state.latency?.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claims_that_go_first_are_those_at_the_most_urgent_level() {
        let mut company = Company::default();
        for (slot, level) in [(7, 3), (8, 2), (9, 3), (10, 2), (11, 5)] {
            company.works(slot, level);
        }
        assert_eq!(company.first, [8, 10]);
        assert_eq!(company.working_levels, 0b10_1100);
        for slot in 0..20 {
            company.works(slot, 0);
        }
        assert_eq!(company.first.len(), WAITS_FOR_MAX);
    }
}
