use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
use xsched_protocol::events::{Reader, Record};
use xsched_protocol::verdict::Judgement;

use super::*;

/// A controller's ring, and its reader.
pub(crate) struct Recorder {
    writer: EventWriter,
    pub(crate) fd: OwnedFd,
    reader: Reader,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        let fd = memory();
        ftruncate(&fd, RING_SIZE as u64).unwrap();
        fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        // As the controller does it; any mapping serves.
        let unprepared = EventWriter::map(&fd, MachineClock::of_this_thread());
        assert!(matches!(unprepared, Err(EventWriterError::Version)));
        prepare(&fd);
        let writer = EventWriter::map(&fd, MachineClock::of_this_thread()).unwrap();
        let reader = Reader::new(writer.memory()).unwrap();
        Self { writer, fd, reader }
    }

    pub(crate) fn writer(&self) -> EventWriter {
        EventWriter::map(&self.fd, MachineClock::of_this_thread()).unwrap()
    }

    /// What was written since the last time.
    pub(crate) fn records(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        self.reader.read(self.writer.memory(), |record| records.push(record)).unwrap();
        records
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        self.records().iter().map(|record| Event::of(record).unwrap()).collect()
    }
}

fn memory() -> OwnedFd {
    memfd_create("events", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap()
}

fn prepare(fd: &OwnedFd) {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: at an address of the kernel's choice, with the file's size, and never taken back.
    let memory = unsafe {
        let at = mmap(ptr::null_mut(), RING_SIZE, access, MapFlags::SHARED, fd, 0).unwrap();
        &*at.cast::<RingMemory>()
    };
    Ring::prepare(memory);
}

#[test]
fn events_are_read_as_they_were_written() {
    let mut recorder = Recorder::new();
    let mut writer = recorder.writer();
    let event = Event::Waits { queue: 3, position: 4, judgement: Judgement::NONE };
    writer.write(Nanos(1_000), &event);
    let records = recorder.records();
    assert_eq!(Event::of(&records[0]), Some(event));
    assert_eq!(records[0].thread, rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
    assert_eq!(records[0].time_ns, writer.time_ns(Nanos(1_000)));
}

#[test]
fn memory_that_could_become_shorter_is_refused() {
    let fd = memory();
    ftruncate(&fd, RING_SIZE as u64).unwrap();
    assert!(matches!(EventWriter::map(&fd, MachineClock::of_this_thread()), Err(EventWriterError::Unsealed)));
    let short = memory();
    ftruncate(&short, 4096).unwrap();
    fcntl_add_seals(&short, SealFlags::SHRINK).unwrap();
    assert!(matches!(
        EventWriter::map(&short, MachineClock::of_this_thread()),
        Err(EventWriterError::Unsealed)
    ));
    assert!(EventWriter::map(File::open("/dev/null").unwrap(), MachineClock::of_this_thread()).is_err());
}
