//! The call chains of `tests/apps/deep_chain`: those that its witness, the compiler's own unwinder, prints, and those in a recording.

use std::{collections::BTreeMap, path::Path};

use crate::call_stacks::{CallStacksError, call_stacks};

/// Chains, outermost frame last, each with its number of calls.
pub type Chains = BTreeMap<Vec<u64>, u64>;

/// The chains of all calls of `deep_chain` in a trace, without the innermost frame: it calls the witness from another address. Then the
/// number of calls with incomplete chains.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn traced_chains(trace: &Path) -> Result<(Chains, u64), CallStacksError> {
    let (chains, incomplete) = chains_of(trace, "hipStreamSynchronize")?;
    let mut callers = Chains::new();
    for (chain, calls) in chains {
        *callers.entry(chain.get(1..).unwrap_or_default().to_vec()).or_default() += calls;
    }
    Ok((callers, incomplete))
}

/// The chains of all calls of a function in a trace that was recorded with `--chain-frames address`, and the number of calls
/// with incomplete chains.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn chains_of(trace: &Path, function: &str) -> Result<(Chains, u64), CallStacksError> {
    let (mut chains, mut incomplete) = (Chains::new(), 0);
    for (frames, calls) in call_stacks(trace, function)? {
        let address = |text: &String| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        // What a chain lacks is a frame called `…`.
        match frames.iter().map(address).collect::<Option<Vec<_>>>().filter(|chain| !chain.is_empty()) {
            Some(chain) => *chains.entry(chain).or_default() += calls,
            None => incomplete += calls,
        }
    }
    Ok((chains, incomplete))
}

/// The chains that the witness printed; lines of another kind are passed over.
#[must_use]
pub fn witnessed_chains(stdout: &str) -> Chains {
    let mut chains = Chains::new();
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("chain ")?.split_once(' '));
    for (calls, frames) in lines {
        // Its chains end with a zero where the outermost frame has no caller.
        let frames = frames.split(' ').filter_map(|word| u64::from_str_radix(word, 16).ok());
        let frames = frames.filter(|&frame| frame != 0);
        *chains.entry(frames.collect()).or_default() += calls.parse::<u64>().unwrap_or(0);
    }
    chains
}

/// Calls whose chains are the same on both sides.
#[must_use]
pub fn common(traced: &Chains, witnessed: &Chains) -> u64 {
    witnessed.iter().map(|(chain, calls)| calls.min(traced.get(chain).unwrap_or(&0))).sum()
}
