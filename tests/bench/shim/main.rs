//! Calling HIP with the shim preloaded and without: time per call on a simulated runtime that does next to nothing.
//!
//! Each round starts this program twice more, as a process that makes the calls (`caller`) and prints what they took;
//! one of the two has the shim preloaded. A process whose calls went elsewhere is an error.

mod caller;

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    path::Path,
    process::{Command, ExitCode},
};

use xsched_tests::{
    artifacts::{hip_sim, shim},
    bench::{Paired, Row, alternate},
};

const BENCH: &str = "shim";
const ROUNDS: usize = 21;

/// The argument that makes this program the process that calls.
const CALLER: &str = "--caller";

fn main() -> ExitCode {
    let is_caller = env::args().nth(1).is_some_and(|argument| argument == CALLER);
    match if is_caller { caller::run() } else { compare() } {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-shim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> Result<(), Box<dyn Error>> {
    let (shim, runtime) = (shim(), hip_sim(6).join("libamdhip64.so.6"));
    let rounds = alternate(ROUNDS, || measure(None, &runtime), || measure(Some(&shim), &shim))?;
    for function in caller::FUNCTIONS {
        let pairs: Vec<_> =
            rounds.iter().map(|(without, with)| (without[function], with[function])).collect();
        let pair = Paired::new(&pairs);
        Row::compared(BENCH, function, "ns", &pair).print()?;
        Row::single(BENCH, format!("{function}: added"), "ns", &pair.difference).print()?;
    }
    Ok(())
}

/// Nanoseconds per call by function, of a process whose calls are expected to enter `entered` first.
fn measure(preload: Option<&Path>, entered: &Path) -> Result<BTreeMap<String, f64>, Box<dyn Error>> {
    let mut caller = Command::new(env::current_exe()?);
    caller.arg(CALLER).env("HIP_SIM_NULL", "1").env_remove("LD_PRELOAD");
    if let Some(library) = preload {
        caller.env("LD_PRELOAD", library);
    }
    let output = caller.output()?;
    if !output.status.success() {
        return Err(format!("caller: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    let mut times = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let (function, rest) = line.split_once('\t').ok_or("caller: a line without fields")?;
        let (time_ns, library) = rest.split_once('\t').ok_or("caller: a line without a library")?;
        if Path::new(library).canonicalize()? != entered.canonicalize()? {
            return Err(format!("{function} entered {library}, not {}", entered.display()).into());
        }
        times.insert(function.to_owned(), time_ns.parse()?);
    }
    Ok(times)
}
