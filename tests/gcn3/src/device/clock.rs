//! The device's clock, and how long kernels last by it.

use std::env;
use std::fs::File;
use std::io::Write as _;
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
    /// Where kernels are listed.
    list: Option<File>,
}

/// A kernel that was executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executed<'a> {
    /// Where its process's page tables begin.
    pub(crate) process: u64,
    /// When its packet came to the head of its queue.
    pub(crate) arrived: u64,
    /// When it could begin: later, if it has waited for something.
    pub(crate) ready: u64,
    /// Instructions of its waves.
    pub(crate) waves: &'a [u64],
}

impl Clock {
    /// As the environment says: `FAKEGPU_SLOWER`, `FAKEGPU_TIME` with the number of SIMDs and their clock rate in MHz, and
    /// `FAKEGPU_LIST`, a file to which a line for each kernel is added: its process, when it came to the head of its queue, began and
    /// ended in nanoseconds, and its instructions.
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
        let list = env::var_os("FAKEGPU_LIST").filter(|_| simds.is_some());
        let list = list.map(|path| File::options().create(true).append(true).open(path)).transpose();
        let list = list.map_err(|error| format!("FAKEGPU_LIST: {error}"))?;
        Ok(Self { begin, slower, simds, late: AtomicU64::new(0), list })
    }

    /// Nanoseconds since the device began.
    pub(crate) fn now(&self) -> u64 {
        let elapsed = self.begin.elapsed().unwrap_or_default();
        (elapsed.as_nanos() / u128::from(self.slower)) as u64
    }

    /// Books the waves of a kernel that was executed. When it ends, by this clock.
    pub(crate) fn end(&self, kernel: Executed<'_>) -> Result<u64, String> {
        let Executed { process, arrived, ready, waves } = kernel;
        let Some(simds) = &self.simds else { return Ok(ready) };
        let (begin, end) = simds.lock().unwrap_or_else(PoisonError::into_inner).occupy(ready, waves);
        if end < self.now() {
            self.late.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(mut list) = self.list.as_ref() {
            let line = format!("{process:x} {arrived} {begin} {end} {}\n", waves.iter().sum::<u64>());
            list.write_all(line.as_bytes()).map_err(|error| format!("the list of kernels: {error}"))?;
        }
        Ok(end)
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
