//! Names of generated code, from the files that language runtimes write for perf: `/tmp/perf-PID.map`
//! ([format](https://github.com/torvalds/linux/blob/v6.12/tools/perf/Documentation/jit-interface.txt)).
//!
//! CPython writes one with `-X perf` or `PYTHONPERFSUPPORT=1`
//! ([howto](https://docs.python.org/3/howto/perf_profiling.html)), Node.js with `--perf-basic-prof`, and others
//! likewise. A line is `START SIZE NAME`, both numbers in hexadecimal. Of two lines for one address the later one
//! counts.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xsched_symbols::process_folder;

/// Most bytes of a file that are read, and most functions that are kept of one: any process may write any file.
const BYTES_MAX: u64 = 16 << 20;
const FUNCTIONS_MAX: usize = 1 << 17;

/// What a function takes here besides its name, and most bytes of all files together. Above that, what is known of the files that were
/// not read for longest goes.
const FUNCTION_BYTES: usize = 100;
const ALL_BYTES_MAX: usize = 128 << 20;

/// Shortest time between two readings of one file; and a file is read for a twentieth of the time at most.
const REREAD: Duration = Duration::from_secs(1);
const REST: u32 = 20;

#[derive(Default)]
pub(crate) struct PerfMaps(HashMap<u32, PerfMap>);

struct PerfMap {
    read: Instant,
    took: Duration,
    bytes: u64,
    functions: Functions,
    /// What these take in memory.
    memory: usize,
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
        if known.is_some_and(|map| map.read.elapsed() < map.rest()) {
            return None;
        }
        let began = Instant::now();
        let bytes = path(pid).and_then(|path| fs::metadata(path).ok()).map_or(0, |metadata| metadata.len());
        let functions = match self.0.remove(&pid) {
            Some(map) if map.bytes == bytes => map.functions,
            _ => read(pid).unwrap_or_default(),
        };
        let name = find(&functions, address);
        self.insert(pid, PerfMap::new(bytes, functions, began.elapsed()));
        name
    }

    fn insert(&mut self, pid: u32, map: PerfMap) {
        let mut memory = map.memory + self.0.values().map(|map| map.memory).sum::<usize>();
        while memory > ALL_BYTES_MAX
            && let Some(oldest) = self.0.iter().min_by_key(|(_, map)| map.read).map(|(&pid, _)| pid)
        {
            memory -= self.0.remove(&oldest).map_or(0, |map| map.memory);
        }
        self.0.insert(pid, map);
    }

    /// A process has ended or runs another program.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.0.remove(&pid);
    }
}

impl PerfMap {
    fn new(bytes: u64, functions: Functions, took: Duration) -> Self {
        let memory = functions.values().map(|(_, name)| name.len() + FUNCTION_BYTES).sum();
        Self { read: Instant::now(), took, bytes, functions, memory }
    }

    /// How long its file is not looked at after it was.
    fn rest(&self) -> Duration {
        REREAD.max(REST * self.took)
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
    Some(functions(BufReader::new(file.take(BYTES_MAX))))
}

fn functions(file: impl BufRead) -> Functions {
    let lines = file.split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| parse(&String::from_utf8_lossy(&line))).take(FUNCTIONS_MAX).collect()
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
    use std::fmt::Write as _;

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
    fn processes_that_write_any_number_of_functions_fill_no_memory() {
        let mut text = String::new();
        for start in 0..2 * FUNCTIONS_MAX {
            writeln!(text, "{start:x} 1 f").unwrap();
        }
        let functions = functions(text.as_bytes());
        assert_eq!(functions.len(), FUNCTIONS_MAX);
        let long = BTreeMap::from([(1, (2, "f".repeat(BYTES_MAX as usize).into()))]);
        let mut maps = PerfMaps::default();
        for pid in 0..20 {
            let functions = if pid % 2 == 0 { &functions } else { &long };
            maps.insert(pid, PerfMap::new(1, functions.clone(), Duration::from_secs(1)));
        }
        let memory: usize = maps.0.values().map(|map| map.memory).sum();
        assert!((ALL_BYTES_MAX / 2..=ALL_BYTES_MAX).contains(&memory), "{memory}");
        assert!(maps.0.contains_key(&19) && !maps.0.contains_key(&0));
        assert_eq!(maps.0[&19].rest(), Duration::from_secs(20), "one that takes long to read");
    }

    #[test]
    fn a_process_without_a_file_has_no_names() {
        let mut maps = PerfMaps::default();
        assert_eq!([maps.name(std::process::id(), 1), maps.name(u32::MAX, 1)], [None, None]);
    }
}
