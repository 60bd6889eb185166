//! Random call chains from a seed: each verdict is compared with the rules' decision on the chain.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use xsched_protocol::verdict::{RuleId, Subject, Verdict};
use xsched_rules::{Call, Caller, Frame, Rulebook, Rules};
use xsched_tests::origin::{ChainLibrary, Question, Step, ask_here};

use crate::Peer;

/// Number of libraries in a chain.
const DEPTH: usize = 7;

/// Number of different chains.
const CHAINS: usize = 96;

/// A chain, and the expected verdicts on its calls.
struct Chain {
    steps: Vec<Step>,
    /// By the whole chain.
    right: Verdict,
    /// By only the library that the call returns to, as `dladdr` of the return address gives it.
    by_return_address: Verdict,
}

/// Makes `count` calls. Returns how many verdicts were right, how many verdicts by return address would have been wrong, and
/// how many verdicts a process could have cached by call site.
pub(crate) fn run(peer: &Peer, count: u64, seed: u64) -> Result<String, Box<dyn Error>> {
    let mut random = seed | 1;
    let mut below = move |count: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % count
    };
    let book = Rulebook::new(Arc::new(Rules::default()), &Caller::default());
    let libraries: Vec<_> = peer.libraries().collect();
    let chains: Vec<_> = (0..CHAINS).map(|_| chain(&libraries, &book, &mut below)).collect();
    let page = peer.page()?;
    // The frames of some shapes depend on the address of the question.
    let mut questions = [Question::default(); 64];
    let api =
        xsched_abi::PROBES.iter().position(|probe| probe.name == "hipLaunchKernel").ok_or("no such probe")?;
    let (mut right, mut wrong_by_return_address, mut kept) = (0u64, 0u64, 0u64);
    let mut sites: HashMap<u64, Verdict> = HashMap::new();
    for _ in 0..count {
        let chain = &chains[below(CHAINS)];
        let question = &mut questions[below(64)];
        question.subject = Subject::new(api as u16, None).0;
        let answer = page.ask(&chain.steps, question).ok_or("no answer")?;
        // The controller numbers rules in the order of their use.
        let verdict = answer.verdict().by(RuleId::default());
        right += u64::from(verdict == chain.right);
        if verdict != chain.right && right + 5 > count {
            eprintln!("{verdict:?} instead of {:?}", chain.right);
        }
        wrong_by_return_address += u64::from(chain.by_return_address.action() != chain.right.action());
        match sites.get(&answer.caller) {
            Some(site) if *site != verdict => return Err("a verdict cached by call site is wrong".into()),
            Some(_) => kept += 1,
            None if verdict.is_decided_by_caller() => drop(sites.insert(answer.caller, verdict)),
            None => {}
        }
    }
    Ok(format!(
        "{count} calls, {right} right, {wrong_by_return_address} wrong by return address, {kept} kept"
    ))
}

fn chain(libraries: &[&ChainLibrary], book: &Rulebook, below: &mut impl FnMut(usize) -> usize) -> Chain {
    let mut frames = Vec::new();
    let mut steps = Vec::new();
    for _ in 0..DEPTH {
        let (library, finds) = (libraries[below(libraries.len())], below(4) == 0);
        steps.push(library.step(finds));
        frames.insert(0, Frame { library: &library.name, function: Some(ChainLibrary::function(finds)) });
    }
    steps.push(Step(ask_here));
    // The caller of the outermost library.
    frames.push(Frame { library: "origin-peer", function: None });
    let decide = |chain: &[Frame<'_>]| {
        book.decide(Call { chain, is_whole: true, api: Some("hipLaunchKernel"), kernel: None }).verdict()
    };
    Chain { right: decide(&frames), by_return_address: decide(&frames[..1]), steps }
}
