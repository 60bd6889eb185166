//! The device's clock, and how long kernels last by it.

use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use xsched_gcn3::Simds;

/// A clock that goes slower than the host's, so that an emulated processor seems as fast as a real one beside the device.
#[derive(Debug)]
pub(crate) struct Clock {
    begin: SystemTime,
    /// How many times slower.
    slower: u32,
    /// None: kernels last as long as it takes to execute them here.
    simds: Option<Mutex<Simds>>,
    /// Kernels that took longer to execute here than they should last.
    late: AtomicU64,
}

impl Clock {
    /// As the environment says: `FAKEGPU_SLOWER`, and `FAKEGPU_TIME` with the number of SIMDs and their clock rate in MHz.
    pub(crate) fn from_environment(begin: SystemTime) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u32>().map_err(|error| format!("{text}: {error}"));
        let slower = env::var("FAKEGPU_SLOWER").map_or(Ok(1), |text| number(&text))?.max(1);
        let simds = match env::var("FAKEGPU_TIME") {
            Ok(text) => {
                let (count, mhz) = text.split_once(' ').ok_or("FAKEGPU_TIME has two numbers")?;
                Some(Mutex::new(Simds::new(number(count)? as usize, u64::from(number(mhz)?))))
            }
            Err(_) => None,
        };
        Ok(Self { begin, slower, simds, late: AtomicU64::new(0) })
    }

    /// Nanoseconds since the device began.
    pub(crate) fn now(&self) -> u64 {
        let elapsed = self.begin.elapsed().unwrap_or_default();
        (elapsed.as_nanos() / u128::from(self.slower)) as u64
    }

    /// Books the waves of a kernel that began at a time and was executed. When it ends, by this clock.
    pub(crate) fn end(&self, began: u64, waves: &[u64]) -> u64 {
        let Some(simds) = &self.simds else { return began };
        let end = simds.lock().unwrap_or_else(PoisonError::into_inner).occupy(began, waves);
        if end < self.now() {
            self.late.fetch_add(1, Ordering::Relaxed);
        }
        end
    }

    /// For how long the host has to wait until a time, if it is not over.
    pub(crate) fn until(&self, at: u64) -> Option<Duration> {
        let left = at.saturating_sub(self.now());
        (left > 0).then(|| Duration::from_nanos(left) * self.slower)
    }

    /// What there is to say of kernels that took too long, if any did.
    pub(crate) fn complaint(&self) -> Option<String> {
        let late = self.late.load(Ordering::Relaxed);
        (late > 0).then(|| {
            format!(
                "{late} kernels took longer to execute than they should last: FAKEGPU_SLOWER is too small"
            )
        })
    }
}
