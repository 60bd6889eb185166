//! The measurements of a run: from the reports of the two programs and the simulated device's log.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

/// Minimum number of requests for a p99.
const REQUESTS_MIN: usize = 20;

/// One run. Times are nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// When each request of the service was due, and when it was done.
    requests: Vec<(u64, u64)>,
    /// When each kernel started and ended on the device.
    service: Vec<(u64, u64)>,
    batch: Vec<(u64, u64)>,
}

/// The report of `sched_client` at its end.
#[derive(Deserialize)]
struct Said {
    /// Kernels that did not run once and in order.
    wrong: u64,
    /// When each was due, launched and done.
    requests: Vec<[u64; 3]>,
}

/// A client's process id and report.
fn said(path: &Path) -> Result<(u64, Said)> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    let parse = || {
        let (first, second) = text.split_once('\n')?;
        Some((first.strip_prefix("ready ")?.parse().ok()?, serde_json::from_str(second).ok()?))
    };
    let (pid, said): (_, Said) =
        parse().with_context(|| format!("{} is no report of a client", path.display()))?;
    ensure!(said.wrong == 0, "{} kernels were lost, repeated or reordered", said.wrong);
    Ok((pid, said))
}

impl Observed {
    /// From the files `service`, `batch` and `executions` in a folder.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let (service_pid, service_said) = said(&folder.join("service"))?;
        let (batch_pid, _) = said(&folder.join("batch"))?;
        let log = folder.join("executions");
        let text = fs::read_to_string(&log).with_context(|| format!("failed to read {}", log.display()))?;
        let mut observed = Self { requests: Vec::new(), service: Vec::new(), batch: Vec::new() };
        observed.requests.extend(service_said.requests.iter().map(|&[wanted, _, done]| (wanted, done)));
        for line in text.lines() {
            // start end submitted pid device queue stream kernel
            let numbers: Vec<u64> = line.split(' ').map_while(|field| field.parse().ok()).collect();
            let &[start, end, _, pid, ..] = &numbers[..] else {
                bail!("no line of an execution log: `{line}`")
            };
            if pid == service_pid {
                observed.service.push((start, end));
            } else if pid == batch_pid {
                observed.batch.push((start, end));
            }
        }
        ensure!(!observed.service.is_empty() && !observed.batch.is_empty(), "a program has launched nothing");
        observed.batch.sort_unstable();
        Ok(observed)
    }
}

/// One column of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figures {
    /// From when a request was due until it was done, in ascending order.
    latencies_ms: Vec<f64>,
    /// Kernels of the batch job that started during a request, on average.
    pub(super) between: f64,
    /// Kernels of the batch job that ended in a second.
    pub(super) batch_rate: f64,
    /// How long one of them took, on average.
    pub(super) batch_kernel_ms: f64,
    /// Time that the service's kernels took, over all time.
    pub(super) service_share: f64,
}

impl Figures {
    /// Of a run of each alone.
    pub(super) fn alone(observed: &Observed) -> Result<Self> {
        Self::of(observed, &observed.requests, span(&observed.batch))
    }

    /// Of the time in which both ran.
    pub(super) fn beside(observed: &Observed) -> Result<Self> {
        let (batch, service) = (span(&observed.batch), span(&observed.requests));
        let both = (batch.0.max(service.0), batch.1.min(service.1));
        let inside = |&&(wanted, done): &&(u64, u64)| both.0 <= wanted && done <= both.1;
        let requests: Vec<_> = observed.requests.iter().filter(inside).copied().collect();
        Self::of(observed, &requests, both)
    }

    fn of(observed: &Observed, requests: &[(u64, u64)], (from, to): (u64, u64)) -> Result<Self> {
        ensure!(
            requests.len() >= REQUESTS_MIN,
            "only {} requests of the service count, fewer than {REQUESTS_MIN}: this machine is too busy",
            requests.len()
        );
        let mut latencies_ms: Vec<_> =
            requests.iter().map(|(wanted, done)| (done - wanted) as f64 / 1e6).collect();
        latencies_ms.sort_by(f64::total_cmp);
        let started = |&(wanted, done): &(u64, u64)| {
            let before = |time| observed.batch.partition_point(|&(start, _)| start < time);
            before(done) - before(wanted)
        };
        let ended: Vec<_> = observed.batch.iter().filter(|(_, end)| (from..=to).contains(end)).collect();
        let nanoseconds = (to - from) as f64;
        let device_ns = ended.iter().map(|(start, end)| end - start).sum::<u64>() as f64;
        let of_service = observed.service.iter().filter(|(start, _)| (from..to).contains(start));
        Ok(Self {
            latencies_ms,
            between: requests.iter().map(started).sum::<usize>() as f64 / requests.len() as f64,
            batch_rate: ended.len() as f64 / nanoseconds * 1e9,
            batch_kernel_ms: device_ns / ended.len().max(1) as f64 / 1e6,
            service_share: of_service.map(|(start, end)| end - start).sum::<u64>() as f64 / nanoseconds,
        })
    }

    /// Figures with these values, kernels of 2 ms and a service that needs 3 % of the device.
    #[cfg(test)]
    pub(super) fn given(latencies_ms: Vec<f64>, between: f64, batch_rate: f64) -> Self {
        Self { latencies_ms, between, batch_rate, batch_kernel_ms: 2.0, service_share: 0.03 }
    }

    /// Number of requests that count.
    pub(super) fn requests(&self) -> usize {
        self.latencies_ms.len()
    }

    /// The latency that this percentage of the requests does not exceed.
    pub(super) fn latency_ms(&self, percent: usize) -> f64 {
        self.latencies_ms[(self.latencies_ms.len() * percent).div_ceil(100).max(1) - 1]
    }
}

/// From the first begin to the last end.
fn span(times: &[(u64, u64)]) -> (u64, u64) {
    let begin = times.iter().map(|&(begin, _)| begin).min().unwrap_or(0);
    (begin, times.iter().map(|&(_, end)| end).max().unwrap_or(begin))
}

#[cfg(test)]
mod tests;
