//! Times single calls with the processor's time stamp counter.

use std::{
    arch::x86_64::{_mm_lfence, _rdtsc},
    hint::spin_loop,
    time::{Duration, Instant},
};

use xsched_tests::bench::Samples;

/// How long the counter is compared with the system's clock.
const CALIBRATION: Duration = Duration::from_millis(20);

/// The counter, which must be invariant, and its rate.
pub(crate) struct Clock {
    ticks_per_ns: f64,
}

impl Clock {
    pub(crate) fn calibrated() -> Self {
        let (started, from) = (Instant::now(), ticks());
        while started.elapsed() < CALIBRATION {
            spin_loop();
        }
        let (to, elapsed) = (ticks(), started.elapsed());
        Self { ticks_per_ns: (to - from) as f64 / elapsed.as_nanos() as f64 }
    }

    /// Time of each of `calls` calls, including the timer's own; in nanoseconds. Calls begin at intervals of
    /// `apart`, or follow each other at once.
    pub(crate) fn each(&self, calls: usize, apart: Option<Duration>, mut call: impl FnMut()) -> Samples {
        // Written before, so that no page fault occurs in between.
        let mut taken = vec![1_u64; calls];
        let step = apart.map_or(0, |apart| (apart.as_nanos() as f64 * self.ticks_per_ns) as u64);
        let mut due = ticks();
        for taken in &mut taken {
            due += step;
            while step != 0 && ticks() < due {
                spin_loop();
            }
            let before = ticks();
            call();
            *taken = ticks() - before;
        }
        Samples::new(taken.into_iter().map(|ticks| ticks as f64 / self.ticks_per_ns).collect())
    }
}

/// The counter's value, after everything before it has been executed, and before anything behind it.
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has both instructions.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}
