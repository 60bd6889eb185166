//! Listens to what the kernel reports of every process: mappings, names, forks, execs, exits.
//!
//! perf's side-band records, from a counter that counts nothing, one for each CPU with a ring buffer of its own.
//! Reading the rings and the records is `perf-event2`'s part; this module says what to report, brings the CPUs'
//! reports into the order of their times, and counts what the kernel had to drop.

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

/// Bytes of one CPU's ring: some 1,500 mappings, which is fifty programs starting at once.
const RING_BYTES: usize = 256 << 10;
/// Bytes of all rings together, which are locked in memory, and the least that a ring gets all the same.
const RINGS_BYTES_MAX: usize = 32 << 20;
const RING_BYTES_MIN: usize = 64 << 10;
/// Size of `struct perf_event_header`: type, misc, size of the whole record.
const HEADER_BYTES: usize = 8;
/// `PERF_RECORD_MISC_COMM_EXEC` of `linux/perf_event.h`: the name changed because of an exec.
const MISC_COMM_EXEC: u16 = 1 << 13;

/// Why listening failed.
#[derive(Debug, thiserror::Error)]
pub enum SidebandError {
    /// Watching every process needs CAP_PERFMON, or `kernel.perf_event_paranoid` of 0 or less.
    #[error("watch processes: not permitted (needs CAP_PERFMON or root)")]
    NotPermitted,
    /// The kernel refused for another reason.
    #[error("watch processes on CPU {cpu}: {source}")]
    Open {
        /// The CPU.
        cpu: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// The list of CPUs cannot be read.
    #[error("read the list of CPUs: {0}")]
    Cpus(io::Error),
    /// Waiting for several rings at once cannot be set up.
    #[error("set up waiting: {0}")]
    Wait(io::Error),
}

/// One thing that happened to a process.
#[derive(Clone, Debug)]
pub struct Event {
    /// When, in boot-time nanoseconds.
    pub time_ns: u64,
    /// The process. For a fork the new one; 0 for `Lost`.
    pub pid: u32,
    /// The thread. For a new thread that one.
    pub tid: u32,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum EventKind {
    /// Executable memory was mapped, or memory became executable.
    Mapped(Arc<Mapping>),
    /// A thread gave itself another name.
    Renamed {
        /// The new name.
        name: String,
    },
    /// The process runs another program.
    Executed {
        /// The short name of the program.
        name: String,
    },
    /// A process or, if `parent` is the process itself, a thread was made.
    Forked {
        /// The process that made it.
        parent: u32,
        /// The thread that made it.
        parent_tid: u32,
    },
    /// A thread ended.
    Exited,
    /// The kernel had no room for this many events.
    Lost {
        /// How many.
        count: u64,
    },
}

/// The stream of events of all processes.
#[derive(Debug)]
pub struct Sideband {
    rings: Vec<Ring>,
    ready: OwnedFd,
    /// Events that were read but not given out yet, see `drain`.
    pending: Vec<Event>,
    lost: u64,
    unreadable: u64,
}

struct Ring {
    sampler: Sampler,
    bytes: usize,
}

impl Sideband {
    /// Begins to listen on every CPU that is online. CPUs that come online later are not heard.
    pub fn open() -> Result<Self, SidebandError> {
        let cpus = online_cpus()?;
        let share = RINGS_BYTES_MAX / cpus.len().max(1);
        Self::on_cpus(cpus, share.clamp(RING_BYTES_MIN, RING_BYTES))
    }

    /// The same with rings of a given size, rounded up to a power of two of pages.
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
                // It went offline since the list was read.
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

    /// Gives out the events that happened before this call, in the order of their times. Call it after reading the
    /// records that are to be looked up, so that everything before them is known.
    ///
    /// The rings are read one after the other, so those read late may hold consequences of what was written to
    /// one read early. Events younger than the call therefore wait for the next, and the kernel wakes again for
    /// them. One exception is left: an event whose time was taken before the call and which is still being
    /// written comes late; `Processes` can take that.
    pub fn drain(&mut self, each: impl FnMut(Event)) {
        let called_ns = now_ns();
        let waited = self.pending.len();
        for ring in &mut self.rings {
            self.unreadable += ring.read(&mut self.pending);
        }
        for event in &self.pending[waited..] {
            if let EventKind::Lost { count } = event.kind {
                self.lost += count;
            }
        }
        // Stable: each CPU's own order stays.
        self.pending.sort_by_key(|event| event.time_ns);
        let before = self.pending.partition_point(|event| event.time_ns <= called_ns);
        self.pending.drain(..before).for_each(each);
    }

    /// How many events the kernel had no room for. It tells of a loss with the next event on the same CPU.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How many records were there but made no sense. 0 on any kernel that keeps its own format.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
}

/// Readable when there are events. The kernel says so once for each wake-up: drain all before waiting again.
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
        // `mmap` covers executable mappings only; see `address_space` for why the others are not asked for.
        builder.any_pid().one_cpu(cpu).mmap(true).mmap2(true).comm(true).comm_exec(true).task(true);
        builder.sample_id_all(true).sample(SampleFlag::TID | SampleFlag::TIME).clockid(Clock::BOOTTIME);
        // Wake at the first byte: a runtime that was just mapped must be probed before its first call.
        builder.exclude_kernel(true).wakeup_watermark(1).enabled(true);
        Ok(Self { sampler: builder.build()?.sampled(ring_bytes)?, bytes: ring_bytes.next_power_of_two() })
    }

    /// Moves the records that are there into `batch`. Gives the number of those that made no sense.
    ///
    /// Stops after one ring's worth, lest a machine that writes faster than this reads keep it here for good. What
    /// is left was written after the last wait began, so the next wait ends at once.
    fn read(&mut self, batch: &mut Vec<Event>) -> u64 {
        let mut unreadable = 0;
        let config = self.sampler.config().clone();
        let mut bytes = Vec::new();
        let mut bytes_left = self.bytes.max(rustix::param::page_size());
        while bytes_left > 0
            && let Some(record) = self.sampler.next_record()
        {
            // Put together with its header again, for the parser that also gives the time and the flags: those
            // belong to the metadata, which `Record::parse_record` leaves out.
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

/// Translates the records that this crate asked for. Every other kind becomes None.
struct ToEvent;

impl<'a> Visitor<'a> for ToEvent {
    type Output = Option<Event>;

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
        event(&metadata, record.pid, record.tid, EventKind::Mapped(Arc::new(mapping)))
    }

    fn visit_comm(self, record: Comm<'a>, metadata: RecordMetadata) -> Self::Output {
        let name = String::from_utf8_lossy(until_nul(&record.comm)).into_owned();
        let kind = match metadata.misc() & MISC_COMM_EXEC {
            0 => EventKind::Renamed { name },
            _ => EventKind::Executed { name },
        };
        event(&metadata, record.pid, record.tid, kind)
    }

    fn visit_fork(self, record: Fork, metadata: RecordMetadata) -> Self::Output {
        let kind = EventKind::Forked { parent: record.ppid, parent_tid: record.ptid };
        event(&metadata, record.pid, record.tid, kind)
    }

    fn visit_exit(self, record: Exit, metadata: RecordMetadata) -> Self::Output {
        event(&metadata, record.pid, record.tid, EventKind::Exited)
    }

    fn visit_lost(self, record: Lost, metadata: RecordMetadata) -> Self::Output {
        event(&metadata, 0, 0, EventKind::Lost { count: record.lost })
    }
}

fn event(metadata: &RecordMetadata, pid: u32, tid: u32, kind: EventKind) -> Option<Event> {
    Some(Event { time_ns: metadata.sample_id().time()?, pid, tid, kind })
}

/// Names are padded to eight bytes; nothing says that the padding after the first NUL is NUL too.
fn until_nul(name: &[u8]) -> &[u8] {
    name.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn online_cpus() -> Result<Vec<usize>, SidebandError> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").map_err(SidebandError::Cpus)?;
    parse_cpus(&text).ok_or_else(|| SidebandError::Cpus(io::ErrorKind::InvalidData.into()))
}

/// Reads the kernel's way to write a set of CPUs: `0-3,8,10-11`.
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
    fn sets_of_cpus_as_the_kernel_writes_them() {
        assert_eq!(parse_cpus("0\n"), Some(vec![0]));
        assert_eq!(parse_cpus("0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse_cpus("\n"), None);
        assert_eq!(parse_cpus("0-x"), None);
    }

    #[test]
    fn padding_is_no_part_of_a_name() {
        assert_eq!(until_nul(b"/lib/a.so\0\0\0x"), b"/lib/a.so");
        assert_eq!(until_nul(b"abc"), b"abc");
        assert_eq!(until_nul(b""), b"");
    }
}
