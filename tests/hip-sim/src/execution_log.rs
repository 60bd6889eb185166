//! A log of the kernels that the device has run, with which tests and benchmarks judge schedulers.
//!
//! If `HIP_SIM_EXECUTION_LOG` names a file, every process appends a line for each of its kernels when the
//! kernel's start is known. It uses one write, so that all processes of a device may name the same file:
//!
//! ```text
//! start end submitted pid device queue stream kernel
//! ```
//!
//! Times are nanoseconds of `CLOCK_BOOTTIME`; the end is already known at the start. `queue` is the hardware
//! queue, numbered over all processes of the device. `stream` is the number of the stream in its process, in
//! the order of creation, which starts with the devices' null streams. Lines of one stream are in order; the
//! order of others can differ by thread delays. The log lacks copies and fills, and the kernels that a
//! process did not live to log: at most those in its hardware queues.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::OnceLock;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::config;
use crate::engine::{Span, clock};

/// Number of readings of the two clocks; the pair that was read closest together counts.
const CLOCK_READINGS: usize = 16;

struct Log {
    file: File,
    /// Offset from `CLOCK_MONOTONIC`. It changes only while the machine is suspended.
    boot_offset_ns: u64,
}

/// Whether kernels are logged.
pub(crate) fn is_enabled() -> bool {
    log().is_some()
}

/// Writes one kernel down: where it ran (device, hardware queue, stream), when, and since when it was wanted, on
/// `CLOCK_MONOTONIC`.
pub(crate) fn note(
    span: Span,
    submitted_ns: u64,
    (device, queue, stream): (usize, usize, u32),
    kernel: &str,
) {
    let Some(log) = log() else { return };
    let [start_ns, end_ns, submitted_ns] =
        [span.start_ns, span.end_ns, submitted_ns].map(|time_ns| time_ns + log.boot_offset_ns);
    let pid = std::process::id();
    let mut line = String::with_capacity(96 + kernel.len());
    writeln!(line, "{start_ns} {end_ns} {submitted_ns} {pid} {device} {queue} {stream} {kernel}")
        .expect("writing to a string cannot fail");
    // A full disk loses lines but does not disturb the application.
    let _ = (&log.file).write_all(line.as_bytes());
}

fn log() -> Option<&'static Log> {
    static LOG: OnceLock<Option<Log>> = OnceLock::new();
    LOG.get_or_init(|| {
        let path = config::get().execution_log.as_ref()?;
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file =
            opened.inspect_err(|error| eprintln!("hip-sim: no execution log: {}: {error}", path.display()));
        Some(Log { file: file.ok()?, boot_offset_ns: boot_offset_ns() })
    })
    .as_ref()
}

fn boot_offset_ns() -> u64 {
    let ns = |time: Timespec| time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned();
    let readings = (0..CLOCK_READINGS).map(|_| {
        let (before, boot, after) = (clock::now_ns(), ns(clock_gettime(ClockId::Boottime)), clock::now_ns());
        (after - before, boot.saturating_sub(before.midpoint(after)))
    });
    readings.min().map_or(0, |(_, offset_ns)| offset_ns)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::{env, fs, process};

    use super::*;
    use crate::engine::{Command, Device, Queue, Work};
    use crate::isolated;

    #[test]
    fn every_kernel_is_a_line_with_its_times_on_the_timeline() {
        const NAME: &str = "HIP_SIM_EXECUTION_LOG";
        let own = || env::temp_dir().join(format!("hip-sim-test-execution-log.{}", process::id()));
        let path = env::var_os(NAME).map_or_else(own, PathBuf::from);
        isolated::run(&[(NAME, path.to_str().unwrap())], || {
            let queue = Queue::new(7, Device::private(0), 0);
            let work = Work::Kernel { units: 1, duration_ns: 3000 };
            let spans = ["first", "second"].map(|name| {
                let command = Command { label: Some(name.into()), ..Command::on_device(work, || ()) };
                queue.submit(command).wait()
            });
            let text = fs::read_to_string(&path).unwrap();
            fs::remove_file(&path).unwrap();
            let lines: Vec<Vec<_>> = text.lines().map(|line| line.split(' ').collect()).collect();
            assert_eq!(lines.iter().map(|line| line[7]).collect::<Vec<_>>(), ["first", "second"]);
            let offset_ns = log().unwrap().boot_offset_ns;
            for (line, span) in lines.iter().zip(spans) {
                let [start_ns, end_ns, submitted_ns] =
                    [0, 1, 2].map(|field| line[field].parse::<u64>().unwrap());
                assert_eq!((start_ns - offset_ns, end_ns - offset_ns), (span.start_ns, span.end_ns));
                assert!(submitted_ns <= start_ns);
                assert_eq!(line[3..7], [process::id().to_string().as_str(), "0", "0", "7"]);
            }
        });
    }
}
