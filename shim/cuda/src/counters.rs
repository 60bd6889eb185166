//! What the summary at exit counts. Calls that go straight to the driver are not counted: that would be most of their cost.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counted {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Counter {
            $($(#[$doc])* $variant,)*
        }

        const TEXTS: &[&str] = &[$($text,)*];
    };
}

counted! {
    /// Work that waited until its process could go on.
    Waited = "work that waited in place",
    /// Work that waited without its caller.
    Deferred = "calls that were deferred",
    /// Calls that had to see deferred ones made.
    Drained = "calls that waited for deferred ones",
    /// Deferred calls that the driver refused; another call returned the error.
    LateFailure = "deferred calls that the driver refused",
    /// Work on a stream that captures.
    Captured = "work in captures",
    /// Work on a stream whose context is not known.
    Unknown = "work on unknown streams",
    /// A question to the controller's programs about a call's chain.
    Asked = "verdicts by whole call chains",
    Unanswered = "questions about call chains without an answer",
    /// A gate that works: with the arbiter's page, or with a word of the shim's own.
    SharedGate = "gates in the arbiter's pages",
    OwnGate = "gates in memory of the shim's own",
    /// A page of the arbiter's that the driver did not take.
    RefusedPage = "pages that the driver refused",
    /// More contexts than a page has mappings.
    PageUsedUp = "contexts beyond those that a page has room for",
    /// A gate at which streams did not wait.
    FailedTrial = "gates that did not work",
    /// Settings or rules that could not be read.
    UnreadableRules = "settings or rules that could not be read",
    /// The queues had something happen that should not.
    Trouble = "troubles of the queues",
    /// The shim panicked.
    Panic = "panics",
}

static COUNTS: [AtomicU64; TEXTS.len()] = [const { AtomicU64::new(0) }; TEXTS.len()];

/// Counts one.
pub(crate) fn count(counter: Counter) {
    COUNTS[counter as usize].fetch_add(1, Ordering::Relaxed);
}

/// In a forked child, which counts its own.
pub(crate) fn reset() {
    for count in &COUNTS {
        count.store(0, Ordering::Relaxed);
    }
}

/// The summary: what has happened at all. `launched` is how many commands were launched beside other processes.
pub(crate) fn summary(launched: u64) -> String {
    let mut text = format!("xsched-cuda: process {}\n", std::process::id());
    let counted = TEXTS.iter().zip(&COUNTS).map(|(&name, count)| (name, count.load(Ordering::Relaxed)));
    for (name, count) in [("commands beside others", launched)].into_iter().chain(counted) {
        if count > 0 {
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {count:>10} {name}");
        }
    }
    text
}
