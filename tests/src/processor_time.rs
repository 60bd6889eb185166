//! Processor time of processes, in user space and in system calls, from
//! [proc_pid_stat(5)](https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html). The kernel tells it in ticks of 10 ms.

use std::fs;
use std::io;
use std::time::Duration;

/// That of a process so far.
///
/// # Errors
///
/// If there is no such process.
pub fn of(pid: u32) -> io::Result<Duration> {
    sum(pid, 14)
}

/// That of its children which have ended and were waited for.
///
/// # Errors
///
/// If there is no such process.
pub fn of_ended_children(pid: u32) -> io::Result<Duration> {
    sum(pid, 16)
}

/// The sum of two neighbouring fields of `/proc/PID/stat`, which count from 1.
fn sum(pid: u32, first: usize) -> io::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path)?;
    // The name, in parentheses, may contain any characters. Field 3 is behind it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks = fields.skip(first - 3).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>();
    let ticks = ticks.map_err(|error| io::Error::other(format!("{path}: {error}")))?;
    Ok(Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Instant;

    use super::*;

    #[test]
    fn work_counts_for_the_process_and_then_for_its_parent() {
        let pid = std::process::id();
        let (own, of_children) = (of(pid).unwrap(), of_ended_children(pid).unwrap());
        let began = Instant::now();
        while of(pid).unwrap() == own {
            assert!(began.elapsed() < Duration::from_mins(1), "no time passes");
        }
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        assert!(Command::new("sh").args(["-c", busy]).status().unwrap().success());
        assert!(of_ended_children(pid).unwrap() > of_children);
    }
}
