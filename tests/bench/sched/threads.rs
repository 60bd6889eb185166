//! Processor time of the shim's own threads in a client: the cost of following the device.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::result::Result;

/// Prefix of the names of the shim's threads.
const NAME: &str = "xsched-";

/// Processor time of the shim's threads in a process so far.
pub(crate) fn processor_time(pid: u32) -> Result<Duration> {
    let mut time = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path();
        // A thread may end meanwhile.
        let (Ok(name), Ok(account)) =
            (fs::read_to_string(path.join("comm")), fs::read_to_string(path.join("schedstat")))
        else {
            continue;
        };
        let ran_ns = account.split(' ').next().and_then(|text| text.parse().ok());
        if let (true, Some(ran_ns)) = (name.starts_with(NAME), ran_ns) {
            time += Duration::from_nanos(ran_ns);
        }
    }
    Ok(time)
}

/// Percentage of a processor that they use in this time.
pub(crate) fn percent_during(pid: u32, span: Duration) -> Result<f64> {
    let (before, began) = (processor_time(pid)?, Instant::now());
    std::thread::sleep(span);
    let time = processor_time(pid)?.saturating_sub(before);
    Ok(100.0 * time.as_secs_f64() / began.elapsed().as_secs_f64())
}
