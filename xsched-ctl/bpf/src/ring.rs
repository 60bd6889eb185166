//! Records from the ring buffer.

use std::os::fd::{AsRawFd, RawFd};

use aya::Ebpf;
use aya::maps::{MapData, RingBuf};
use xsched_abi::{Call, DeviceOpened, Ioctl, LoaderStop, Opened, RecordKind, Snapshot, Stack};
use xsched_protocol::verdict::Wanted;
use zerocopy::FromBytes as _;

use crate::BpfError;

/// A program's record.
#[derive(Debug)]
pub enum Record {
    /// A call has returned.
    Call {
        /// The call.
        call: Call,
        /// The name that it passed, if the probe reads one.
        text: Box<[u8]>,
    },
    /// A process opens a file that may be a runtime.
    Opened(Box<Opened>),
    /// A process is stopped in its loader.
    LoaderStop(LoaderStop),
    /// A call to the driver has returned.
    Ioctl(Box<Ioctl>),
    /// A process opens one of the driver's devices.
    DeviceOpened(DeviceOpened),
    /// A chain to which later calls refer by its id.
    Stack {
        /// Its header.
        stack: Stack,
        /// Its addresses, innermost first.
        addresses: Box<[u64]>,
    },
    /// A stack that a program could not walk.
    Snapshot {
        /// Its registers.
        snapshot: Box<Snapshot>,
        /// The words of the stack that it has: see [`Snapshot::word`].
        words: Box<[u64]>,
    },
    /// A verdict is requested.
    Wanted(Wanted),
}

impl Record {
    /// When it was written, or when what it reports ended.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Call { call, .. } => call.end_ns,
            Self::Opened(opened) => opened.time_ns,
            Self::LoaderStop(stop) => stop.time_ns,
            Self::Stack { stack, .. } => stack.time_ns,
            Self::Snapshot { snapshot, .. } => snapshot.time_ns,
            Self::Ioctl(ioctl) => ioctl.end_ns,
            Self::DeviceOpened(opened) => opened.time_ns,
            // It has no time, and belongs behind the chain that it refers to.
            Self::Wanted(_) => u64::MAX,
        }
    }

    /// When the call returned; none for other records.
    pub fn returned_ns(&self) -> Option<u64> {
        match self {
            Self::Call { call, .. } => Some(call.end_ns),
            _ => None,
        }
    }
}

/// The reading end of the ring buffer. Its descriptor becomes readable when a program requests attention.
pub struct Ring(RingBuf<MapData>);

impl Ring {
    /// Takes the ring buffer for most records.
    pub fn events(programs: &mut Ebpf) -> Result<Self, BpfError> {
        Self::take(programs, "EVENTS")
    }

    /// Takes the ring buffer of snapshots.
    pub fn snapshots(programs: &mut Ebpf) -> Result<Self, BpfError> {
        Self::take(programs, "SNAPSHOTS")
    }

    fn take(programs: &mut Ebpf, name: &'static str) -> Result<Self, BpfError> {
        let map = programs.take_map(name).expect("build.rs compiles all maps into the object");
        RingBuf::try_from(map).map(Self).map_err(|cause| BpfError::Map { map: name, cause })
    }

    /// Moves at most `max` records into `records`.
    pub fn drain(&mut self, records: &mut Vec<Record>, max: usize) -> Drained {
        let mut drained = Drained::default();
        for _ in 0..max {
            let Some(item) = self.0.next() else { return drained };
            match parse(&item) {
                Some(record) => records.push(record),
                None => drained.unreadable += 1,
            }
        }
        Drained { has_more: true, ..drained }
    }
}

/// The result of a read besides the records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drained {
    /// Records of unknown format.
    pub unreadable: u64,
    /// It stopped at `max` records, so there may be more.
    pub has_more: bool,
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn parse(bytes: &[u8]) -> Option<Record> {
    let (kind, _) = u32::read_from_prefix(bytes).ok()?;
    if kind == RecordKind::Call as u32 {
        let (call, rest) = Call::read_from_prefix(bytes).ok()?;
        let text = rest.get(..call.text_len as usize)?.into();
        Some(Record::Call { call, text })
    } else if kind == RecordKind::Opened as u32 {
        Opened::read_from_prefix(bytes).ok().map(|(opened, _)| Record::Opened(Box::new(opened)))
    } else if kind == RecordKind::LoaderStop as u32 {
        LoaderStop::read_from_prefix(bytes).ok().map(|(stop, _)| Record::LoaderStop(stop))
    } else if kind == RecordKind::Stack as u32 {
        let (stack, rest) = Stack::read_from_prefix(bytes).ok()?;
        let addresses = <[u64]>::ref_from_prefix_with_elems(rest, stack.count as usize).ok()?.0.into();
        Some(Record::Stack { stack, addresses })
    } else if kind == RecordKind::Snapshot as u32 {
        let (snapshot, rest) = Snapshot::read_from_prefix(bytes).ok()?;
        let words = <[u64]>::ref_from_prefix_with_elems(rest, snapshot.word_count as usize).ok()?.0.into();
        Some(Record::Snapshot { snapshot: Box::new(snapshot), words })
    } else if kind == RecordKind::Ioctl as u32 {
        Ioctl::read_from_prefix(bytes).ok().map(|(ioctl, _)| Record::Ioctl(Box::new(ioctl)))
    } else if kind == RecordKind::Wanted as u32 {
        Wanted::read_from_prefix(bytes).ok().map(|(wanted, _)| Record::Wanted(wanted))
    } else if kind == RecordKind::DeviceOpened as u32 {
        DeviceOpened::read_from_prefix(bytes).ok().map(|(opened, _)| Record::DeviceOpened(opened))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::*;

    #[test]
    fn text_beyond_the_record_is_refused() {
        let mut call = Call::new_zeroed();
        call.kind = RecordKind::Call as u32;
        call.text_len = 4;
        let mut bytes = call.as_bytes().to_vec();
        bytes.extend(b"abc");
        assert!(parse(&bytes).is_none());
        bytes.push(b'd');
        assert!(matches!(parse(&bytes), Some(Record::Call { text, .. }) if &*text == b"abcd"));
    }

    #[test]
    fn unknown_and_short_records_are_refused() {
        assert!(parse(&[]).is_none());
        assert!(parse(&99u32.to_ne_bytes()).is_none());
        assert!(parse(&(RecordKind::LoaderStop as u32).to_ne_bytes()).is_none());
    }
}
