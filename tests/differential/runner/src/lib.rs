//! A HIP client that runs random programs and prints their outcomes.
//!
//! ```text
//! differential-6 seeds FIRST COUNT    one line per seed: the seed, its outcome's digest, the number of impossible codes
//! differential-6 show SEED            the program of a seed, as text
//! differential-6 replay FILE          the outcome of a program, as text
//! differential-6 repeat FILE COUNT    one line per run of a program: as for a seed, with the run's number
//! ```
//!
//! DIFFERENTIAL_REPERTOIRE=rocm-5.2, rocm-6.4 or rocm-7.2 limits programs to what that release has.
//!
//! A static library with a `main`, which clang links with kernels and runtime like any HIP program. So calls
//! bind to versioned symbols, and code objects are registered before `main`.

mod arguments;
mod boxes;
mod copy;
mod error;
mod graph;
mod hip;
mod mistake;
mod names;
mod newer;
mod process;
mod run;
mod step;
mod work;
mod world;

use std::io::{self, Write as _};
use std::{env, fs};

use core::ffi::{c_char, c_int};

use xsched_differential::generate::generate_of;
use xsched_differential::observe::Outcome;
use xsched_differential::order::{self, Checked};
use xsched_differential::program::Program;
use xsched_differential::repertoire::Repertoire;

use crate::error::Error;
use crate::process::Process;

/// Called by the C library.
#[unsafe(no_mangle)]
extern "C" fn main(_: c_int, _: *const *const c_char) -> c_int {
    let words: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let result =
        match words[..] {
            ["seeds", first, count] => seeds(first, count),
            ["replay", file] => replay(file),
            ["repeat", file, count] => repeat(file, count),
            ["show", seed] => show(seed),
            _ => Err("usage: differential-N seeds FIRST COUNT | show SEED | replay FILE | repeat FILE COUNT"
                .into()),
        };
    if let Err(error) = result {
        eprintln!("differential: {error}");
        return 2;
    }
    0
}

/// What programs may use.
fn repertoire() -> Result<Repertoire, Error> {
    let Ok(name) = env::var("DIFFERENTIAL_REPERTOIRE") else { return Ok(Repertoire::All) };
    Repertoire::named(&name).ok_or_else(|| format!("no repertoire `{name}`").into())
}

fn seeds(first: &str, count: &str) -> Result<(), Error> {
    let (first, count): (u64, u64) = (first.parse()?, count.parse()?);
    let repertoire = repertoire()?;
    let process = Process::start(repertoire)?;
    for seed in first..first + count {
        let program = generate_of(seed, repertoire);
        let checked =
            order::check(&program).map_err(|(at, flaw)| format!("seed {seed}: step {at}: {flaw}"))?;
        say(seed, &run::run(&process, &program, &checked))?;
    }
    Ok(())
}

fn show(seed: &str) -> Result<(), Error> {
    write!(io::stdout(), "{}", generate_of(seed.parse()?, repertoire()?))?;
    Ok(())
}

fn replay(file: &str) -> Result<(), Error> {
    let (program, checked) = read(file)?;
    let outcome = run::run(&Process::start(repertoire()?)?, &program, &checked);
    write!(io::stdout(), "{outcome}")?;
    Ok(())
}

fn repeat(file: &str, count: &str) -> Result<(), Error> {
    let (program, checked) = read(file)?;
    let process = Process::start(repertoire()?)?;
    for number in 0..count.parse()? {
        say(number, &run::run(&process, &program, &checked))?;
    }
    Ok(())
}

/// Flushes at once, because the reader infers from a missing line which program hangs.
fn say(number: u64, outcome: &Outcome) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{number} {:016x} {}", outcome.digest(), outcome.impossible_codes.len())?;
    out.flush()
}

fn read(file: &str) -> Result<(Program, Checked), Error> {
    let text = fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let program = Program::parse(&text).map_err(|error| format!("{file}: {error}"))?;
    let checked = order::check(&program).map_err(|(at, flaw)| format!("{file}: step {at}: {flaw}"))?;
    Ok((program, checked))
}
