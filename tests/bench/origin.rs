//! The origin of a call: the cost of asking the BPF programs, a few libraries deep and many, beside `dladdr`
//! of the return address.
//!
//! A known call site costs a look-up in the shim's own table. A process asks at each call that it cannot
//! decide by call site; measured is what such a call takes more than the same call without a question. The
//! chain was asked about before, like nearly all chains.

// A program that links the crate would have its exports, which the tests' own code has as well.
#[path = "../../shim/preload/src/hashing.rs"]
#[expect(unreachable_pub, reason = "public in its own crate")]
mod hashing;
#[path = "../../shim/preload/src/sites.rs"]
#[expect(unreachable_pub, reason = "public in its own crate")]
mod sites;

use std::error::Error;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use sites::{CACHE, Known, Site};
use xsched_protocol::verdict::{Action, Judgement, RuleId, Verdict};
use xsched_tests::artifacts;
use xsched_tests::bench::{Goal, Row, Samples, paired, repeated};
use xsched_tests::origin::{ChainLibrary, Client, Page, Question, Step, VerdictSource, ask_here};
use xsched_tests::serving::Serving;

const BENCH: &str = "origin";

/// Calls per sample, few enough that most samples are not interrupted, and samples.
const CALLS: u32 = 1_000;
const ROUNDS: usize = 201;

/// Number of known call sites, and look-ups per sample.
const SITES: u64 = 64;
const LOOK_UPS: u64 = 2_000_000;

/// Goal for a look-up, in nanoseconds.
const KNOWN_GOAL_NS: f64 = 5.0;

/// Goal for asking, in nanoseconds.
const GOAL_NS: f64 = 1_200.0;

/// Numbers of libraries in the chain.
const DEPTHS: [usize; 3] = [1, 3, 7];

/// Time limit of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The chain's libraries, outermost first.
const LIBRARIES: [&str; 7] = [
    "libtorch_hip.so",
    "libhipblas.so",
    "libhipblaslt.so",
    "libffi.so.8",
    "librccl.so.1",
    "libMIOpen.so.1",
    "librocblas.so",
];

fn main() -> Result<(), Box<dyn Error>> {
    let controller = Serving::start("")?;
    let client = Client::join(controller.folder(), true)?;
    let VerdictSource::Page(page) = client.verdict_source()? else {
        return Err("no programs decide here".into());
    };
    let levels: Result<Vec<_>, _> =
        LIBRARIES.iter().map(|name| ChainLibrary::open(&artifacts::app("origin_chain").join(name))).collect();
    let levels = levels?;
    let steps = |depth: usize| {
        let chain = levels[levels.len() - depth..].iter().map(|level| level.step(false));
        chain.chain([Step(ask_here)]).collect::<Vec<_>>()
    };
    for depth in DEPTHS {
        measure(&page, &steps(depth), depth)?;
    }
    // The probe stays attached; its program finds no page, and does nothing.
    drop(client);
    let begin = Instant::now();
    while page.ask_once(&steps(1), &mut Question::default()).is_some() {
        if begin.elapsed() > TIMEOUT {
            return Err("the controller does not notice that a process has left".into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    for depth in DEPTHS {
        let pair = paired(
            ROUNDS,
            || Ok(time_calls(&page, &silent(&steps(depth)))),
            || Ok::<_, Box<dyn Error>>(time_calls(&page, &steps(depth))),
        )?;
        Row::added(BENCH, format!("a trap without a question, {depth} libraries deep"), "ns", &pair)
            .print()?;
    }
    let known = repeated(ROUNDS, || -> Result<f64, Box<dyn Error>> { Ok(time_known_site()) })?;
    let goal = Goal::ValueAtMost(KNOWN_GOAL_NS);
    Row::single(BENCH, "a call site that is known", "ns", &known).with_goal(goal).print()?;
    let inside = levels[0].step(false).0 as *const libc::c_void;
    let dladdr = repeated(ROUNDS, || -> Result<f64, Box<dyn Error>> { Ok(time_dladdr(inside)) })?;
    Row::single(BENCH, "dladdr of a return address", "ns", &dladdr).print()?;
    Ok(())
}

/// One look-up, as the shim makes it.
fn time_known_site() -> f64 {
    let site = |number: u64| Site::new(0x7f00_1234_5678 + number * 133, 1, 211, 0);
    let sites: Vec<_> = (0..SITES).map(site).collect();
    for &site in &sites {
        let judgement = Judgement::new(Action::Schedule, 0, RuleId::NONE);
        CACHE.insert(site, Known { judgement, origin: 1 }, 7);
    }
    let begin = Instant::now();
    for number in 0..LOOK_UPS {
        let site = sites[(number % SITES) as usize];
        black_box(CACHE.find(black_box(site), black_box(7)));
    }
    begin.elapsed().as_nanos() as f64 / LOOK_UPS as f64
}

fn measure(page: &Page, steps: &[Step], depth: usize) -> Result<(), Box<dyn Error>> {
    let mut question = Question::default();
    let first = page.ask(steps, &mut question).ok_or("no answer")?;
    let name = format!("asked, {depth} libraries deep");
    Row::single(
        BENCH,
        format!("{name}, for the first time"),
        "us",
        &Samples::new(vec![first.took.as_micros() as f64]),
    )
    .print()?;
    let silent = silent(steps);
    let asked = || -> Result<f64, Box<dyn Error>> {
        let mut question = Question::default();
        let (mut begin, mut done) = (Instant::now(), 0);
        while done < CALLS {
            let slot = page.ask_once(steps, &mut question).ok_or("no answer")?;
            done += 1;
            if Verdict(slot.verdict).is_pending() {
                // The chain from here differs from that of the first question.
                thread::sleep(Duration::from_millis(1));
                (begin, done) = (Instant::now(), 0);
            }
        }
        Ok(begin.elapsed().as_nanos() as f64 / f64::from(CALLS))
    };
    let unasked = || Ok(time_calls(page, &silent));
    let pair = paired(ROUNDS, unasked, asked)?;
    Row::added(BENCH, name, "ns", &pair).with_goal(Goal::ValueAtMost(GOAL_NS)).print()?;
    Ok(())
}

/// The same chain without a question at its end.
fn silent(steps: &[Step]) -> Vec<Step> {
    let through = steps.split_last().map_or(&[][..], |(_, through)| through);
    through.iter().copied().chain([Step(nothing)]).collect()
}

/// Time of one call through these steps, whatever answers at its end.
fn time_calls(page: &Page, steps: &[Step]) -> f64 {
    let mut question = Question::default();
    let begin = Instant::now();
    for _ in 0..CALLS {
        let _ = black_box(page.ask_once(steps, black_box(&mut question)));
    }
    begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

extern "C" fn nothing(_next: *const Step, _question: *mut Question) -> u64 {
    0
}

fn time_dladdr(address: *const libc::c_void) -> f64 {
    let begin = Instant::now();
    for _ in 0..CALLS {
        // SAFETY: all-zero is a valid value of four pointers.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the function takes any address, and an out-parameter for its result.
        black_box(unsafe { libc::dladdr(black_box(address), &raw mut found) });
    }
    begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
}
