//! The verdicts on a process's calls, for `rules explain`.

use std::collections::BTreeMap;

use xsched_abi::Counter;
use xsched_bpf::Losses;
use xsched_control_api::answer::{By, Explained, Place};
use xsched_protocol::verdict::{Subject, VerdictKey};
use xsched_rules::{Decider, Rules, Source, action_name};
use xsched_terminal::one_line;

use super::client::{Answer, Client, api, frames};
use super::numbered::origin;

/// Most call sites in one answer.
const SITES_MAX: usize = 4096;

/// All verdicts for a process; calls with the same names are combined.
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

/// Losses that cause calls to get the default.
fn cause_matters(cause: Counter) -> bool {
    matches!(
        cause,
        Counter::RingFull | Counter::WalksBusy | Counter::StackRingFull | Counter::SnapshotRingFull
    )
}

fn site(client: &Client, key: VerdictKey, answer: &Answer) -> Place {
    let subject = Subject(key.subject);
    let rules = client.book.rules();
    // Names of the process's files and kernels, made safe for terminals.
    let shown = |name: &str| one_line(name).into_owned();
    let function = |frame: xsched_rules::Frame<'_>| match frame.function {
        Some(function) => shown(&format!("{}:{function}", frame.library)),
        None => shown(frame.library),
    };
    Place {
        api: api(subject).unwrap_or("unknown").to_owned(),
        kernel: subject.kernel().and_then(|kernel| client.kernel(kernel)).map(shown),
        origin: shown(&origin(rules, &answer.chain)),
        chain: frames(&answer.chain).map(function).collect(),
        whole: answer.chain.end == xsched_abi::ChainEnd::Complete,
        action: action_name(answer.decision.action).to_owned(),
        level: answer.decision.mode,
        by: by(rules, answer.decision.by),
        kept_by_call_site: answer.decision.is_by_caller,
        chains: 0,
    }
}

fn by(rules: &Rules, decider: Decider) -> By {
    match decider {
        Decider::Default => By::Nobody,
        Decider::Domain => By::Domain,
        Decider::Rule(number) => {
            let rule = &rules.rules()[number as usize];
            By::Rule {
                number: number + 1,
                name: rule.name.as_deref().map(|name| one_line(name).into_owned()),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::watch;
    use xsched_abi::ChainEnd;
    use xsched_chains::{Chain, Label};

    use super::super::Newcomer;
    use super::super::numbered::Numbered;
    use super::super::rule_names::RuleNames;
    use super::*;

    #[test]
    fn file_names_of_a_process_cannot_control_the_terminal() {
        let newcomer = Newcomer::made_up();
        let mut client = Client::new(newcomer, &Arc::default());
        let frame =
            xsched_chains::Frame { library: "lib\x1b[2J.so".into(), name: Some("f\ng".into()), address: 0 };
        let chain = Arc::new(Chain::new(vec![frame], ChainEnd::Complete, None, Label::Name));
        let mut numbered = Numbered::new(watch::channel(Vec::new()).0, RuleNames::new());
        client.answer(VerdictKey { chain: 1, subject: 0 }, chain, &mut numbered);
        let site = &explain(&client, &Losses::default()).sites[0];
        assert_eq!(
            (site.origin.as_str(), site.chain[0].as_str()),
            (r"lib\u{1b}[2J.so", r"lib\u{1b}[2J.so:f\ng")
        );
    }
}
