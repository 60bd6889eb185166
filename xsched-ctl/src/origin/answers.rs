//! What was decided about a process's calls, for people.

use std::collections::BTreeMap;

use xsched_abi::Counter;
use xsched_abi::verdict::{Subject, VerdictKey};
use xsched_rules::{Decider, Rules, Source, action_name};

use super::client::{Answer, Client, api, frames};
use super::numbered::origin;
use crate::bpf::Losses;
use crate::control::answer::{By, Explained, Place};

/// Most call sites in one answer.
const SITES_MAX: usize = 4096;

/// Everything that was decided for a process, calls with the same names taken together.
pub(super) fn explain(client: &Client, losses: &Losses) -> Explained {
    let mut sites: BTreeMap<_, u64> = BTreeMap::new();
    for (key, answer) in &client.answers {
        *sites.entry(site(client, *key, answer)).or_default() += 1;
    }
    let left_out = sites.len().saturating_sub(SITES_MAX) as u64;
    let losses = losses.iter().filter(|(cause, count)| *count > 0 && cause_matters(*cause));
    Explained {
        pid: client.pid,
        file: None,
        profile: client.book.rules().profile().name().to_owned(),
        sites: sites.into_iter().take(SITES_MAX).map(|(site, chains)| Place { chains, ..site }).collect(),
        left_out,
        losses: losses.map(|(cause, count)| (cause.name().to_owned(), count)).collect(),
    }
}

/// Losses through which calls were given the default.
fn cause_matters(cause: Counter) -> bool {
    matches!(
        cause,
        Counter::RingFull | Counter::WalksBusy | Counter::StackRingFull | Counter::SnapshotRingFull
    )
}

fn site(client: &Client, key: VerdictKey, answer: &Answer) -> Place {
    let subject = Subject(key.subject);
    let rules = client.book.rules();
    let function = |frame: xsched_rules::Frame<'_>| match frame.function {
        Some(function) => format!("{}:{function}", frame.library),
        None => frame.library.to_owned(),
    };
    Place {
        api: api(subject).unwrap_or("unknown").to_owned(),
        kernel: subject.kernel().and_then(|kernel| client.kernel(kernel)).map(str::to_owned),
        origin: origin(rules, &answer.chain),
        chain: frames(&answer.chain).map(function).collect(),
        whole: answer.chain.end == xsched_abi::ChainEnd::Complete,
        action: action_name(answer.decision.action).to_owned(),
        level: answer.decision.level,
        by: by(rules, answer.decision.by),
        kept_by_call_site: answer.decision.is_by_caller,
        chains: 0,
    }
}

fn by(rules: &Rules, decider: Decider) -> By {
    match decider {
        Decider::Nobody => By::Nobody,
        Decider::Domain => By::Domain,
        Decider::Rule(number) => {
            let rule = &rules.rules()[number as usize];
            By::Rule {
                number: number + 1,
                name: rule.name.clone(),
                set: match rule.source {
                    Source::File => None,
                    Source::Settings => Some("settings".to_owned()),
                    Source::BuiltIn(profile) => Some(profile.name().to_owned()),
                },
                line: rule.line,
            }
        }
    }
}
