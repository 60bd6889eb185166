//! Calling HIP with the shim preloaded and without: time per call on a simulated runtime that does next to nothing.
//!
//! Each round starts this program twice more, as a process that makes the calls (`caller`) and prints what they took;
//! one of the two has the shim, which comes in by each of its ways in turn. A process whose calls went elsewhere is an error.

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
    bench::{Goal, Paired, Row, alternate},
};

const BENCH: &str = "shim";
const ROUNDS: usize = 21;

/// What a call may cost more with the shim, nothing being scheduled.
const ADDED_NS_MAX: f64 = 30.0;

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

/// How the shim comes into the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Not at all.
    Absent,
    /// Preloaded, with a runtime that hands out no tables.
    Symbols,
    /// Preloaded, and handed the runtime's tables.
    Tables,
    /// Named to the runtime, and handed its tables.
    TablesAlone,
}

impl Way {
    /// What the rows call it.
    fn name(self) -> &'static str {
        match self {
            Self::Absent => "without the shim",
            Self::Symbols => "symbols",
            Self::Tables => "tables",
            Self::TablesAlone => "tables alone",
        }
    }
}

fn compare() -> Result<(), Box<dyn Error>> {
    for way in [Way::Symbols, Way::Tables, Way::TablesAlone] {
        let rounds = alternate(ROUNDS, || measure(Way::Absent), || measure(way))?;
        for function in caller::FUNCTIONS {
            let pairs: Vec<_> =
                rounds.iter().map(|(without, with)| (without[function], with[function])).collect();
            let pair = Paired::new(&pairs);
            let metric = format!("{function}: {}", way.name());
            Row::compared(BENCH, &metric, "ns", &pair).print()?;
            Row::single(BENCH, format!("{metric}: added"), "ns", &pair.difference)
                .with_goal(Goal::ValueAtMost(ADDED_NS_MAX))
                .print()?;
        }
    }
    Ok(())
}

/// Nanoseconds per call by function, of a process whose calls are expected to enter the right library first.
fn measure(way: Way) -> Result<BTreeMap<String, f64>, Box<dyn Error>> {
    let (shim, runtime) = (shim(), hip_sim(6).join("libamdhip64.so.6"));
    let mut caller = Command::new(env::current_exe()?);
    caller.arg(CALLER).env("HIP_SIM_NULL", "1");
    for variable in ["LD_PRELOAD", "ROCPROFILER_REGISTER_LIBRARY", "ROCPROFILER_REGISTER_ENABLED"] {
        caller.env_remove(variable);
    }
    match way {
        Way::Absent => &mut caller,
        Way::Symbols => caller.env("LD_PRELOAD", &shim).env("ROCPROFILER_REGISTER_ENABLED", "0"),
        Way::Tables => caller.env("LD_PRELOAD", &shim),
        Way::TablesAlone => caller.env("ROCPROFILER_REGISTER_LIBRARY", &shim),
    };
    let entered = if matches!(way, Way::Symbols | Way::Tables) { &shim } else { &runtime };
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
