//! Names of generated code, from the files that language runtimes write for perf: `/tmp/perf-PID.map`
//! ([format](https://github.com/torvalds/linux/blob/v6.12/tools/perf/Documentation/jit-interface.txt)).
//!
//! CPython writes one with `-X perf` or `PYTHONPERFSUPPORT=1`
//! ([howto](https://docs.python.org/3/howto/perf_profiling.html)), Node.js with `--perf-basic-prof`, and others
//! likewise. A line is `START SIZE NAME`, both numbers in hexadecimal. Of two lines for one address the later one
//! counts.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xsched_symbols::process_folder;

/// Most bytes of a file that are read.
const BYTES_MAX: u64 = 64 << 20;

/// Shortest time between two readings of one file.
const REREAD: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct PerfMaps(HashMap<u32, PerfMap>);

struct PerfMap {
    read: Instant,
    bytes: u64,
    functions: Functions,
}

/// By start address: the end address and the name.
type Functions = BTreeMap<u64, (u64, Arc<str>)>;

impl PerfMaps {
    /// The name of the function around an address, if its runtime has written it.
    pub(crate) fn name(&mut self, pid: u32, address: u64) -> Option<Arc<str>> {
        let known = self.0.get(&pid);
        if let Some(name) = known.and_then(|map| find(&map.functions, address)) {
            return Some(name);
        }
        if known.is_some_and(|map| map.read.elapsed() < REREAD) {
            return None;
        }
        let bytes = path(pid).and_then(|path| fs::metadata(path).ok()).map_or(0, |metadata| metadata.len());
        let functions = match self.0.remove(&pid) {
            Some(map) if map.bytes == bytes => map.functions,
            _ => read(pid).unwrap_or_default(),
        };
        let name = find(&functions, address);
        self.0.insert(pid, PerfMap { read: Instant::now(), bytes, functions });
        name
    }

    /// A process has ended or runs another program.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.0.remove(&pid);
    }
}

/// The process's file, as the process sees it. A process in a container has another id there.
fn path(pid: u32) -> Option<PathBuf> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?;
    Some(process_folder(pid).join(format!("root/tmp/perf-{inner}.map")))
}

fn read(pid: u32) -> Option<Functions> {
    // Any user may create the file: it must not be a link to an unrelated file or a FIFO that blocks.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path(pid)?).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let lines = BufReader::new(file.take(BYTES_MAX)).split(b'\n').map_while(Result::ok);
    Some(lines.filter_map(|line| parse(&String::from_utf8_lossy(&line))).collect())
}

fn parse(line: &str) -> Option<(u64, (u64, Arc<str>))> {
    let mut fields = line.splitn(3, ' ');
    let mut number = || u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok();
    let (start, size) = (number()?, number()?);
    let name = fields.next()?.trim_end();
    Some((start, (start.checked_add(size)?, name.into())))
}

fn find(functions: &Functions, address: u64) -> Option<Arc<str>> {
    let (_, (end, name)) = functions.range(..=address).next_back()?;
    (address < *end).then(|| Arc::clone(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_addresses_sizes_and_names_with_blanks() {
        let functions: Functions =
            ["7f00 10 py::step:/app/train step.py", "0x7f10 8 other\n", "x 1 y", "1", ""]
                .into_iter()
                .filter_map(parse)
                .collect();
        assert_eq!(functions.len(), 2);
        assert_eq!(find(&functions, 0x7f0f).as_deref(), Some("py::step:/app/train step.py"));
        assert_eq!(find(&functions, 0x7f17).as_deref(), Some("other"));
        assert_eq!([find(&functions, 0x7f18), find(&functions, 0x7eff)], [None, None]);
    }

    #[test]
    fn a_process_without_a_file_has_no_names() {
        let mut maps = PerfMaps::default();
        assert_eq!([maps.name(std::process::id(), 1), maps.name(u32::MAX, 1)], [None, None]);
    }
}
