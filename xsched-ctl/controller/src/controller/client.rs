//! A process with the shim, and its scheduling parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tokio::sync::Notify;
use xsched_arbiter::Owner;
use xsched_control_api::{
    answer::From,
    parameters::{PRIORITY_MAX, PRIORITY_MIN, Parameters, SHARE_MAX, WEIGHT_MAX, Wish},
    peer::Peer,
};
use xsched_protocol::probe::Runtime;
use xsched_protocol::wire::{Hello, Hints, OpenClaim};
use xsched_sched::{Nanos, Slo};
use xsched_symbols::FileId;

use super::authority::Actor;
use super::recording::RecordingId;
use super::tokens::{Granted, TokenKey};
use crate::config::Config;
use crate::subject::Subject;

/// How its reports arrive.
#[derive(Clone, Copy, Debug)]
pub(super) enum Link {
    /// It was given this token, and has not shown it yet.
    Awaited(u64),
    /// A BPF program sees its reports, or the controller writes them on its behalf.
    Known(Owner),
}

/// One process, beside one runtime: a process that uses two has a shim for each, and is two of these.
#[derive(Debug)]
pub(super) struct Client {
    /// The process.
    pub(super) subject: Subject,
    /// The runtime that its shim is for.
    pub(super) runtime: Runtime,
    /// The same process by a descriptor that shows its end.
    pub(super) peer: Peer,
    /// How its reports arrive.
    pub(super) link: Link,
    /// The file of its shim, if BPF programs can see its reports.
    pub(super) shim: Option<FileId>,
    /// The devices, by index, of whose changes the last epoll instance that it was given tells it.
    pub(super) hears: BTreeSet<u16>,
    /// Its own hints.
    pub(super) hint: Wish,
    /// The token that `run` has given it.
    pub(super) token: Option<TokenKey>,
    /// What `set` has set for it.
    pub(super) set: Wish,
    /// The slots of its claims.
    pub(super) claims: BTreeSet<u32>,
    /// Names of the libraries that it has numbered itself.
    pub(super) origins: BTreeMap<u32, String>,
    /// The recording that it writes events for.
    pub(super) recording: Option<RecordingId>,
    /// Notified when the process connects again.
    pub(super) replaced: Rc<Notify>,
}

/// What others have set for a process, in order of precedence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    /// `set` for the claim, the process or its cgroup.
    pub(super) set: Wish,
    /// `run`.
    pub(super) run: Granted,
    /// The process's own hints for the claim.
    pub(super) hint: Wish,
}

impl Client {
    /// The process as one that makes requests.
    pub(super) fn actor(&self) -> Actor {
        Actor::of(&self.peer)
    }

    /// Whether it has not shown its token yet.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self.link, Link::Awaited(_))
    }

    /// Its scheduling parameters. In order of precedence: `set`, `run`, the process's own hints, the annotations of its pod, the
    /// rules. The ceiling limits hints and annotations, and `run` unless a privileged user ran it.
    pub(super) fn parameters(&self, config: &Config, said: &Said) -> (Parameters, From) {
        let base = config.parameters(&self.subject);
        let ceiling = config.ceiling(&self.subject);
        let hint = ceiling.limit(said.hint.or(self.hint).completed(base), base);
        let Granted { wish, is_privileged } = said.run;
        let wish = wish.completed(base);
        let run = if is_privileged { wish } else { ceiling.limit(wish, base) };
        let asked = self.subject.pod.as_ref().map(|pod| pod.asked.wish).unwrap_or_default();
        let asked = ceiling.limit(asked.completed(base), base);
        let parameters = said.set.or(run).or(hint).or(asked).applied_to(base);
        let sources = [(said.set, From::Set), (run, From::Run), (hint, From::Hint), (asked, From::Pod)];
        let of_priority = sources.iter().find(|(wish, _)| wish.priority.is_some());
        let of_anything = sources.iter().find(|(wish, _)| !wish.is_empty());
        let from = match (of_priority, of_anything) {
            (Some(&(_, from)), _) => from,
            _ if base != Parameters::default() => From::Rule,
            (None, Some(&(_, from))) => from,
            (None, None) => From::Default,
        };
        (parameters, from)
    }
}

/// A process's hints, clamped to valid ranges, because a process may send any number.
pub(super) fn hints(said: &Hints) -> Wish {
    let weight = said.weight.clamp(1, WEIGHT_MAX);
    let &Hints { hints, priority, utilization, deadline_ns, .. } = said;
    Wish {
        weight: (hints & Hello::WEIGHT != 0).then_some(weight),
        ..wish_of(hints, priority, utilization, deadline_ns)
    }
}

/// The hints for a claim, in the same way.
pub(super) fn claim_hints(wanted: &OpenClaim) -> Wish {
    wish_of(wanted.hints, wanted.priority, wanted.utilization, wanted.deadline_ns)
}

fn wish_of(hints: u32, priority: i32, utilization: u32, deadline_ns: u64) -> Wish {
    let given = |hint: u32| hints & hint != 0;
    let priority = priority.clamp(i32::from(PRIORITY_MIN), i32::from(PRIORITY_MAX)) as i16;
    Wish {
        priority: given(Hello::PRIORITY).then_some(priority),
        share: given(Hello::UTILIZATION).then_some(utilization.clamp(1, u32::from(SHARE_MAX)) as u8),
        deadline: given(Hello::DEADLINE)
            .then(|| Nanos(deadline_ns).clamp(Slo::LATENCY_LEAST, Slo::LATENCY_MOST)),
        ..Wish::default()
    }
}

#[cfg(test)]
mod tests {

    use zerocopy::FromZeros as _;

    use super::*;
    use crate::users::Users;

    fn client(hint: Wish) -> Client {
        Client {
            subject: Subject::read(std::process::id(), 0, &Users::default()),
            runtime: Runtime::Hip,
            peer: Peer::unknown(0, 0),
            link: Link::Awaited(0),
            shim: None,
            hears: BTreeSet::new(),
            hint,
            token: None,
            set: Wish::default(),
            claims: BTreeSet::new(),
            origins: BTreeMap::new(),
            recording: None,
            replaced: Rc::default(),
        }
    }

    fn priority(priority: i16) -> Wish {
        Wish { priority: Some(priority), ..Wish::default() }
    }

    #[test]
    fn the_source_with_precedence_decides() {
        let config = Config::parse("[[rule]]\npriority = -10\nweight = 7").unwrap();
        let parameters = |hint, wish, set| {
            client(hint).parameters(
                &config,
                &Said { set, run: Granted { wish, is_privileged: true }, ..Said::default() },
            )
        };
        let none = Wish::default();
        let stands = |priority, from| (Parameters { priority, weight: 7, ..Parameters::default() }, from);
        assert_eq!(parameters(none, none, none), stands(-10, From::Rule));
        assert_eq!(parameters(priority(3), none, none), stands(3, From::Hint));
        assert_eq!(parameters(priority(3), priority(200), none), stands(200, From::Run));
        assert_eq!(parameters(priority(3), priority(200), priority(-1)), stands(-1, From::Set));
        let by_nobody =
            |wish| client(none).parameters(&Config::default(), &Said { set: wish, ..Said::default() }).1;
        assert_eq!(by_nobody(none), From::Default);
        assert_eq!(by_nobody(Wish { share: Some(30), ..none }), From::Set, "its share was set");
    }

    #[test]
    fn hints_go_as_far_as_the_ceiling() {
        let raised = client(priority(255)).parameters(&Config::default(), &Said::default());
        assert_eq!(raised.0.priority, 49);
        let config = Config::parse("[[ceiling]]\nclass = 'high'").unwrap();
        assert_eq!(client(priority(255)).parameters(&config, &Said::default()).0.priority, 149);
    }

    #[test]
    fn what_a_process_asks_of_a_claim_goes_before_what_it_asks_of_itself() {
        let (config, priority) =
            (Config::default(), |priority| Wish { priority: Some(priority), ..Wish::default() });
        let own = Said { hint: priority(-7), ..Said::default() };
        let by_process = client(priority(-7)).parameters(&config, &Said::default());
        assert_eq!(client(priority(-3)).parameters(&config, &own), by_process);
        let raised = Said { hint: priority(255), ..Said::default() };
        assert_eq!(client(priority(-3)).parameters(&config, &raised).0.priority, 49, "up to the ceiling");
    }

    #[test]
    fn hints_are_brought_into_bounds() {
        let none = Hints { priority: i32::MIN, utilization: u32::MAX, weight: 0, ..Hints::new_zeroed() };
        assert_eq!(hints(&none), Wish::default());
        let all = Hints { hints: u32::MAX, ..none };
        let wish = Wish {
            priority: Some(-255),
            weight: Some(1),
            share: Some(100),
            deadline: Some(Slo::LATENCY_LEAST),
            ..Wish::default()
        };
        assert_eq!(hints(&all), wish);
    }
}
