//! Reads the kernel's events of every process: mappings, names, forks, execs, exits.
//!
//! They are perf's side-band records (<https://man7.org/linux/man-pages/man2/perf_event_open.2.html>), from one dummy
//! counter with a ring buffer for each CPU. `perf-event2` reads the rings and the records. This module configures the
//! counters, sorts the events of all CPUs by time, and counts the events that the kernel dropped.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use perf_event::data::parse::Parser;
use perf_event::data::{Comm, Exit, Fork, Lost, Mmap2, RecordMetadata, Visitor};
use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use rustix::event::epoll;

use crate::mapping::{FileId, Mapping};
use crate::now_ns;

/// Bytes of one CPU's ring: about 1,500 mappings, those of fifty programs that start at once.
const RING_BYTES: usize = 256 << 10;
/// The most bytes of all rings together, which are locked in memory, and the fewest of one ring, which take precedence.
const RINGS_BYTES_MAX: usize = 32 << 20;
const RING_BYTES_MIN: usize = 64 << 10;
/// Size of `struct perf_event_header`: type, misc, size of the whole record.
const HEADER_BYTES: usize = 8;
/// `PERF_RECORD_MISC_COMM_EXEC` of `linux/perf_event.h`: the name changed because of an exec.
const MISC_COMM_EXEC: u16 = 1 << 13;

/// Why the side-band could not be opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum SidebandError {
    /// Watching every process needs CAP_PERFMON, or `kernel.perf_event_paranoid` of 0 or less.
    #[error("watch processes: not permitted (needs CAP_PERFMON or root)")]
    NotPermitted,
    #[error("watch processes on CPU {cpu}: {source}")]
    Open { cpu: usize, source: io::Error },
    #[error("read the list of CPUs: {0}")]
    Cpus(#[source] io::Error),
    #[error("set up waiting: {0}")]
    Wait(#[source] io::Error),
}

/// A side-band event of a process.
#[derive(Clone, Debug)]
pub struct PerfEvent {
    /// The time, in boot-time nanoseconds.
    pub time_ns: u64,
    /// The process. For a fork, the new process; 0 for `Lost`.
    pub pid: u32,
    /// The thread. For a fork, the new thread.
    pub tid: u32,
    /// The kind of the event, with its data.
    pub kind: PerfEventKind,
}

/// The kind of an event, with its data.
#[derive(Clone, Debug)]
pub enum PerfEventKind {
    /// Executable memory was mapped, or memory became executable.
    Mapped(Arc<Mapping>),
    /// A thread was renamed.
    Renamed {
        /// The new name.
        name: String,
    },
    /// The process executed another program.
    Executed {
        /// The short name of the program.
        name: String,
    },
    /// A process or, if `parent` is the process itself, a thread was created.
    Forked {
        /// The process that created it.
        parent: u32,
        /// The thread that created it.
        parent_tid: u32,
    },
    /// A thread ended.
    Exited,
    /// The kernel dropped events because the ring was full.
    Lost {
        /// The number of dropped events.
        count: u64,
    },
}

/// The stream of events of all processes.
#[derive(Debug)]
pub struct Sideband {
    rings: Vec<Ring>,
    ready: OwnedFd,
    /// Events that were read but not returned yet, see `drain`.
    pending: Vec<PerfEvent>,
    lost: u64,
    unreadable: u64,
}

struct Ring {
    sampler: Sampler,
    bytes: usize,
}

impl Sideband {
    /// Opens a counter on every CPU that is online. Events of CPUs that come online later are missed.
    pub fn open() -> Result<Self, SidebandError> {
        let cpus = online_cpus()?;
        let share = RINGS_BYTES_MAX / cpus.len().max(1);
        Self::on_cpus(cpus, share.clamp(RING_BYTES_MIN, RING_BYTES))
    }

    /// Like [`Self::open`], with rings of a given size, rounded up to a power of two of pages.
    pub fn with_ring_bytes(ring_bytes: usize) -> Result<Self, SidebandError> {
        Self::on_cpus(online_cpus()?, ring_bytes)
    }

    fn on_cpus(cpus: Vec<usize>, ring_bytes: usize) -> Result<Self, SidebandError> {
        let ready =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| SidebandError::Wait(error.into()))?;
        let mut rings = Vec::new();
        for cpu in cpus {
            match Ring::open(cpu, ring_bytes) {
                Ok(ring) => rings.push(ring),
                // The CPU went offline after the list was read.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(SidebandError::NotPermitted);
                }
                Err(source) => return Err(SidebandError::Open { cpu, source }),
            }
        }
        for ring in &rings {
            epoll::add(&ready, ring, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
                .map_err(|error| SidebandError::Wait(error.into()))?;
        }
        Ok(Self { rings, ready, pending: Vec::new(), lost: 0, unreadable: 0 })
    }

    /// Passes the events before this call to `each`, in time order. The caller calls this after reading the records
    /// that it will look up, so that all events before these are known.
    ///
    /// The rings are read one after the other, so a ring that is read late may have events that are consequences
    /// of events in a ring that was read early. Therefore events after the begin of the call are kept for the next
    /// call, and the kernel wakes the reader again for them. One case remains: an event with a time before the call
    /// that the kernel is still writing arrives late. `Processes` handles that.
    pub fn drain(&mut self, each: impl FnMut(PerfEvent)) {
        let called_ns = now_ns();
        let waited = self.pending.len();
        for ring in &mut self.rings {
            self.unreadable += ring.read(&mut self.pending);
        }
        for event in &self.pending[waited..] {
            if let PerfEventKind::Lost { count } = event.kind {
                self.lost += count;
            }
        }
        // The sort is stable, so the events of one CPU keep their order.
        self.pending.sort_by_key(|event| event.time_ns);
        let before = self.pending.partition_point(|event| event.time_ns <= called_ns);
        self.pending.drain(..before).for_each(each);
    }

    /// The number of events that the kernel dropped. It reports a loss with the next event on the same CPU.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The number of records that could not be parsed. 0 on any kernel with the documented format.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
}

/// Readable when there are events. The kernel signals that once for each wake-up: drain all events before waiting again.
impl AsFd for Sideband {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl AsRawFd for Sideband {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.ready.as_raw_fd()
    }
}

impl Ring {
    fn open(cpu: usize, ring_bytes: usize) -> io::Result<Self> {
        let mut builder = Builder::new(Software::DUMMY);
        // `mmap` covers executable mappings only; see `address_space` for why the others are not requested.
        builder.any_pid().one_cpu(cpu).mmap(true).mmap2(true).comm(true).comm_exec(true).task(true);
        builder.sample_id_all(true).sample(SampleFlag::TID | SampleFlag::TIME).clockid(Clock::BOOTTIME);
        // Wakes at the first byte: a runtime that was just mapped must be probed before its first call.
        builder.exclude_kernel(true).wakeup_watermark(1).enabled(true);
        Ok(Self { sampler: builder.build()?.sampled(ring_bytes)?, bytes: ring_bytes.next_power_of_two() })
    }

    /// Moves the available records to `batch`. Returns the number of records that could not be parsed.
    ///
    /// Stops after as many bytes as the ring has, because a machine that writes faster than this reads would keep it
    /// here for ever. Remaining records were written after the last wait began, so the next wait ends immediately.
    fn read(&mut self, batch: &mut Vec<PerfEvent>) -> u64 {
        let mut unreadable = 0;
        let config = self.sampler.config().clone();
        let mut bytes = Vec::new();
        let mut bytes_left = self.bytes.max(rustix::param::page_size());
        while bytes_left > 0
            && let Some(record) = self.sampler.next_record()
        {
            // Joins the record with its header again for the parser, which also returns time and flags. These are
            // part of the metadata, which `Record::parse_record` omits.
            let size = record.len() + HEADER_BYTES;
            bytes_left = bytes_left.saturating_sub(size);
            bytes.clear();
            bytes.extend_from_slice(&record.ty().to_ne_bytes());
            bytes.extend_from_slice(&record.misc().to_ne_bytes());
            bytes.extend_from_slice(&(size as u16).to_ne_bytes());
            record.data().iter().for_each(|part| bytes.extend_from_slice(part));
            match Parser::new(bytes.as_slice(), config.clone()).parse_record(ToEvent) {
                Ok(event) => batch.extend(event),
                Err(_) => unreadable += 1,
            }
        }
        unreadable
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: `Sampler` owns the descriptor and keeps it open for as long as it is borrowed here.
        unsafe { BorrowedFd::borrow_raw(self.sampler.as_raw_fd()) }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ring").field(&self.sampler.as_raw_fd()).finish()
    }
}

/// Converts the records that this crate requests. Every other kind becomes None.
struct ToEvent;

impl<'a> Visitor<'a> for ToEvent {
    type Output = Option<PerfEvent>;

    fn visit_unimplemented(self, _: RecordMetadata) -> Self::Output {
        None
    }

    fn visit_mmap2(self, record: Mmap2<'a>, metadata: RecordMetadata) -> Self::Output {
        let file = match (record.maj(), record.min(), record.ino()) {
            (Some(device_major), Some(device_minor), Some(inode)) if inode != 0 => {
                Some(FileId { device_major, device_minor, inode, generation: record.ino_generation() })
            }
            _ => None,
        };
        let end = record.addr.checked_add(record.len)?;
        let mapping = Mapping::new(record.addr, end, record.pgoff, file, until_nul(&record.filename));
        event(&metadata, record.pid, record.tid, PerfEventKind::Mapped(Arc::new(mapping)))
    }

    fn visit_comm(self, record: Comm<'a>, metadata: RecordMetadata) -> Self::Output {
        let name = String::from_utf8_lossy(until_nul(&record.comm)).into_owned();
        let kind = match metadata.misc() & MISC_COMM_EXEC {
            0 => PerfEventKind::Renamed { name },
            _ => PerfEventKind::Executed { name },
        };
        event(&metadata, record.pid, record.tid, kind)
    }

    fn visit_fork(self, record: Fork, metadata: RecordMetadata) -> Self::Output {
        let kind = PerfEventKind::Forked { parent: record.ppid, parent_tid: record.ptid };
        event(&metadata, record.pid, record.tid, kind)
    }

    fn visit_exit(self, record: Exit, metadata: RecordMetadata) -> Self::Output {
        event(&metadata, record.pid, record.tid, PerfEventKind::Exited)
    }

    fn visit_lost(self, record: Lost, metadata: RecordMetadata) -> Self::Output {
        event(&metadata, 0, 0, PerfEventKind::Lost { count: record.lost })
    }
}

fn event(metadata: &RecordMetadata, pid: u32, tid: u32, kind: PerfEventKind) -> Option<PerfEvent> {
    Some(PerfEvent { time_ns: metadata.sample_id().time()?, pid, tid, kind })
}

/// Names are padded to eight bytes. The padding after the first NUL is not documented to be NUL, too.
fn until_nul(name: &[u8]) -> &[u8] {
    name.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn online_cpus() -> Result<Vec<usize>, SidebandError> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").map_err(SidebandError::Cpus)?;
    parse_cpus(&text).ok_or_else(|| SidebandError::Cpus(io::ErrorKind::InvalidData.into()))
}

/// Parses the kernel's format of a set of CPUs: `0-3,8,10-11`.
fn parse_cpus(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_sets_are_parsed() {
        assert_eq!(parse_cpus("0\n"), Some(vec![0]));
        assert_eq!(parse_cpus("0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse_cpus("\n"), None);
        assert_eq!(parse_cpus("0-x"), None);
    }

    #[test]
    fn padding_is_not_part_of_a_name() {
        assert_eq!(until_nul(b"/lib/a.so\0\0\0x"), b"/lib/a.so");
        assert_eq!(until_nul(b"abc"), b"abc");
        assert_eq!(until_nul(b""), b"");
    }
}
