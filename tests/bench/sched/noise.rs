//! How late this machine wakes a thread with precise timers, such as the shim's: every figure that a client
//! sees contains this.
//!
//! Clients do not use precise timers, like the programs that they stand for: their sleep before a request is
//! not part of the figures.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use xsched_tests::bench::{Row, Samples, wake_in_time};

use crate::{result::Result, scenario::BENCH};

const PERIOD: Duration = Duration::from_millis(1);

/// Prints how late wake-ups are while nothing of this benchmark runs.
pub(crate) fn at_rest() -> Result<()> {
    let ((), late_us) = during(|| thread::sleep(Duration::from_secs(2)));
    print("machine before the first scenario", &late_us)
}

/// Does some work while another thread sleeps a millisecond at a time and records how late it wakes.
pub(crate) fn during<T>(work: impl FnOnce() -> T) -> (T, Vec<f64>) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            wake_in_time();
            let mut late_us = Vec::new();
            while !is_done.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::sleep(PERIOD);
                late_us.push(began.elapsed().saturating_sub(PERIOD).as_secs_f64() * 1e6);
            }
            late_us
        });
        let result = work();
        is_done.store(true, Ordering::Relaxed);
        (result, sleeper.join().expect("it only sleeps"))
    })
}

/// Prints two rows about the machine, beside those measured at the same time.
pub(crate) fn print(when: &str, late_us: &[f64]) -> Result<()> {
    if late_us.is_empty() {
        return Ok(());
    }
    let samples = Samples::new(late_us.to_vec());
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let value = Samples::new(vec![samples.quantile(quantile)]);
        Row::single(BENCH, format!("{when}: timer lateness {name}"), "us", &value).print()?;
    }
    Ok(())
}
