//! A process that requests verdicts, and those that it got.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use xsched_abi::{ChainEnd, PROBES};
use xsched_chains::Chain;
use xsched_control_api::peer::Party;
use xsched_protocol::{
    probe::Runtime,
    verdict::{Decided, Subject, VerdictKey},
    wire::SchedulingDomain,
};
use xsched_rules::{Call, Caller, Decision, Frame, Rulebook, Rules};
use xsched_symbols::{FileId, now_ns};

use super::kernel_names::KernelNames;
use super::numbered::Numbered;
use super::questions::processor_time;
use super::{ClientKey, Newcomer};

/// Most kernels that a process may number.
const KERNELS_MAX: usize = 1 << 16;

/// Most libraries of a process that may declare what their calls are.
const DOMAINS_MAX: usize = 64;

/// Number of a process's verdicts at which old ones are forgotten.
const ANSWERS_MAX: usize = 1 << 16;

/// One process.
pub(super) struct Client {
    pub(super) key: ClientKey,
    pub(super) pid: u32,
    party: Party,
    /// The file of its shim.
    pub(super) shim: FileId,
    /// The runtime that the shim is for.
    pub(super) runtime: Runtime,
    /// When it joined.
    pub(super) since_ns: u64,
    caller: Caller,
    /// Rules that its user has given it.
    settings: Option<Rules>,
    pub(super) book: Rulebook,
    kernels: HashMap<u32, Arc<str>>,
    pub(super) answers: HashMap<VerdictKey, Answer>,
    /// The log has warned of too many libraries that declare their calls.
    is_talkative: bool,
}

/// The verdict on calls with one chain and one subject.
pub(super) struct Answer {
    pub(super) chain: Arc<Chain>,
    pub(super) decision: Decision,
    /// The form that the programs got.
    told: Decided,
}

/// What has become of a process's verdicts.
#[derive(Debug)]
pub(super) struct Reconsidered {
    /// Those that the programs must get. These include unchanged decisions that now come from a rule of another name or belong to
    /// another library.
    pub(super) changed: Vec<(VerdictKey, Decided)>,
    /// Those that are to be asked for again.
    pub(super) forgotten: Vec<VerdictKey>,
}

impl Client {
    pub(super) fn new(newcomer: Newcomer, rules: &Arc<Rules>) -> Self {
        let Newcomer { key, pid, party, shim, runtime, caller, .. } = newcomer;
        let book = Rulebook::new(Arc::clone(rules), &caller);
        Self {
            key,
            pid,
            party,
            shim,
            runtime,
            since_ns: now_ns(),
            caller,
            settings: None,
            book,
            kernels: HashMap::new(),
            answers: HashMap::new(),
            is_talkative: false,
        }
    }

    /// Whether a request must wait until a kernel's name is known.
    pub(super) fn wants_name_of_kernel(&self, subject: Subject) -> bool {
        subject.kernel().is_some_and(|kernel| !self.kernels.contains_key(&kernel))
    }

    /// Decides about calls with a chain; returns the verdict for the programs.
    pub(super) fn answer(&mut self, key: VerdictKey, chain: Arc<Chain>, numbered: &mut Numbered) -> Decided {
        let decision = self.decide(&chain, Subject(key.subject));
        let told = numbered.decided(self.party, self.book.rules(), &chain, decision);
        self.answers.insert(key, Answer { chain, decision, told });
        told
    }

    /// Whether there are so many verdicts that they should be forgotten.
    pub(super) fn is_full(&self) -> bool {
        self.answers.len() >= ANSWERS_MAX
    }

    fn decide(&self, chain: &Chain, subject: Subject) -> Decision {
        let frames: Vec<_> = frames(chain).collect();
        self.book.decide(Call {
            chain: &frames,
            is_whole: chain.end == ChainEnd::Complete,
            api: api(subject),
            kernel: subject.kernel().and_then(|kernel| self.kernel(kernel)),
        })
    }

    /// Decides about everything again, within this time: what it has not come to is forgotten. The rules, chains and names are the
    /// process's own, and so is the time that a decision takes.
    pub(super) fn reconsider(&mut self, numbered: &mut Numbered, within: Duration) -> Reconsidered {
        let until = processor_time() + within;
        let (mut changed, mut forgotten) = (Vec::new(), Vec::new());
        for (key, mut answer) in std::mem::take(&mut self.answers) {
            if processor_time() >= until {
                forgotten.push(key);
                continue;
            }
            answer.decision = self.decide(&answer.chain, Subject(key.subject));
            let decided = numbered.decided(self.party, self.book.rules(), &answer.chain, answer.decision);
            if std::mem::replace(&mut answer.told, decided) != decided {
                changed.push((key, decided));
            }
            self.answers.insert(key, answer);
        }
        Reconsidered { changed, forgotten }
    }

    /// What it uses up counts for this.
    pub(super) fn party(&self) -> Party {
        self.party
    }

    /// The process's attributes for rules have changed.
    pub(super) fn set_caller(&mut self, caller: Caller, rules: &Arc<Rules>) {
        self.caller = caller;
        self.set_rules(rules);
    }

    /// The process's user has rules for it.
    pub(super) fn set_settings(&mut self, settings: Rules, rules: &Arc<Rules>) {
        self.settings = Some(settings);
        self.set_rules(rules);
    }

    /// The rules were replaced.
    pub(super) fn set_rules(&mut self, rules: &Arc<Rules>) {
        let rules = match &self.settings {
            Some(settings) => Arc::new(rules.as_ref().clone().with_settings(settings)),
            None => Arc::clone(rules),
        };
        let mut book = Rulebook::new(rules, &self.caller);
        for domain in self.book.domains() {
            book.set_domain(&domain.library, Some(domain.action));
        }
        self.book = book;
    }

    /// A library has declared what its calls are.
    pub(super) fn set_domain(&mut self, library: &str, domain: SchedulingDomain) {
        use xsched_protocol::verdict::Action;
        let action = match domain {
            SchedulingDomain::Auto => None,
            SchedulingDomain::System => Some(Action::NeverSuspend),
            SchedulingDomain::Application => Some(Action::Schedule),
        };
        if action.is_some() && self.book.domains().len() >= DOMAINS_MAX {
            if !std::mem::replace(&mut self.is_talkative, true) {
                tracing::warn!("process {}: too many libraries declare what their calls are", self.pid);
            }
            return;
        }
        self.book.set_domain(library, action);
    }

    /// The process has numbered a kernel.
    pub(super) fn set_kernel(&mut self, id: u32, name: &str, names: &mut KernelNames) {
        if self.kernels.len() < KERNELS_MAX
            && let Some(name) = names.keep(self.party, self.pid, name)
            && let Some(before) = self.kernels.insert(id, name)
        {
            names.release(self.party, &before);
        }
    }

    /// Gives back what it has of this, at its end.
    pub(super) fn release_kernels(&mut self, names: &mut KernelNames) {
        self.kernels.drain().for_each(|(_, name)| names.release(self.party, &name));
    }

    /// The name of a kernel that the process has numbered.
    pub(super) fn kernel(&self, id: u32) -> Option<&str> {
        self.kernels.get(&id).map(|name| &**name)
    }
}

/// The functions of a chain, innermost first.
pub(super) fn frames(chain: &Chain) -> impl Iterator<Item = Frame<'_>> {
    chain.frames.iter().map(|frame| Frame { library: &frame.library, function: frame.name.as_deref() })
}

/// The name of the function that is called.
pub(super) fn api(subject: Subject) -> Option<&'static str> {
    PROBES.get(usize::from(subject.api())).map(|probe| probe.name)
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;
    use xsched_chains::Label;
    use xsched_protocol::verdict::{Action, Verdict};

    use super::super::rule_names::RuleNames;
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn rules(text: &str) -> Arc<Rules> {
        Arc::new(Rules::parse(text).unwrap())
    }

    fn chain(libraries: &[&str]) -> Arc<Chain> {
        let frame =
            |library: &&str| xsched_chains::Frame { library: (*library).into(), name: None, address: 0 };
        let frames = libraries.iter().map(frame).collect();
        Arc::new(Chain::new(frames, ChainEnd::Complete, None, Label::Name))
    }

    #[test]
    fn the_rules_of_the_new_cgroup_apply_to_a_moved_process() {
        let mut numbered = Numbered::new(watch::channel(Vec::new()).0, RuleNames::new());
        let rules = rules("[[rule]]\ncgroup = '/batch'\naction = 'passthrough'");
        let caller = |cgroup: &str| Caller { cgroups: vec![cgroup.to_owned()], ..Caller::default() };
        let mut client = Client::new(Newcomer { caller: caller("/online"), ..Newcomer::made_up() }, &rules);
        let key = VerdictKey { chain: 1, subject: 0 };
        let told = client.answer(key, chain(&["libapp.so"]), &mut numbered);
        assert_eq!(Verdict(told.verdict).action(), Some(Action::Schedule));
        client.set_caller(caller("/batch"), &rules);
        let changed = client.reconsider(&mut numbered, LONG).changed;
        let [(_, told)] = changed[..] else { panic!("{changed:?}") };
        assert_eq!(Verdict(told.verdict).action(), Some(Action::Passthrough));
    }

    #[test]
    fn verdicts_for_which_there_is_no_time_are_forgotten() {
        let mut numbered = Numbered::new(watch::channel(Vec::new()).0, RuleNames::new());
        let newcomer = Newcomer::made_up();
        let mut client = Client::new(newcomer, &Arc::default());
        for number in 0..100 {
            client.answer(VerdictKey { chain: number, subject: 0 }, chain(&["libapp.so"]), &mut numbered);
        }
        let Reconsidered { changed, forgotten } = client.reconsider(&mut numbered, Duration::ZERO);
        assert_eq!((changed.len(), forgotten.len(), client.answers.len()), (0, 100, 0));
    }

    #[test]
    fn verdicts_of_other_rules_are_sent_even_if_they_are_the_same() {
        let (names, libraries) = watch::channel(Vec::new());
        let rule_names = RuleNames::new();
        let called = rule_names.subscribe();
        let mut numbered = Numbered::new(names, rule_names);
        let rule = "name = 'first'\noutermost = 'libapp.so'\naction = 'passthrough'";
        let newcomer = Newcomer::made_up();
        let mut client = Client::new(newcomer, &rules(&format!("[[rule]]\n{rule}")));
        let key = VerdictKey { chain: 1, subject: 0 };
        let first = client.answer(key, chain(&["libwrapper.so", "libapp.so"]), &mut numbered);
        assert_eq!(client.reconsider(&mut numbered, LONG).changed, []);
        let library = |decided: Decided| libraries.borrow()[decided.origin as usize - 1].to_string();
        assert_eq!(library(first), "libwrapper.so");

        client.set_rules(&rules(&format!("origin.also_transparent = ['libwrapper*']\n[[rule]]\n{rule}")));
        let changed = client.reconsider(&mut numbered, LONG).changed;
        let [(_, second)] = changed[..] else { panic!("{changed:?}") };
        // The origin of a call with the same caller may be another library now, for which rules name kernels.
        let is_same = |one: u64, other: u64| (one ^ other) & !Verdict::FOR_ANY_KERNEL == 0;
        assert!(is_same(second.verdict, first.verdict), "{first:?} {second:?}");
        assert_eq!(library(second), "libapp.so");

        let rule = rule.replace("first", "second");
        client.set_rules(&rules(&format!("origin.also_transparent = ['libwrapper*']\n[[rule]]\n{rule}")));
        let changed = client.reconsider(&mut numbered, LONG).changed;
        assert!(matches!(changed[..], [(_, third)] if third.verdict != first.verdict), "{changed:?}");
        assert_eq!(*called.borrow(), ["first".into(), "second".into()]);
    }
}
