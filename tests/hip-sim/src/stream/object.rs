//! What a stream is: an in-order queue, its order with the null stream, and its state in a capture.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::abi::hipStreamAttrValue;
use crate::capture::Capture;
use crate::engine::{Command, Completion, Queue, clock};
use crate::handles::Handles;
use crate::runtime::table;
use crate::{config, devices};

table! {
    /// All streams but the null streams.
    pub(crate) listed: Handles<Stream> = Handles::default()
}

table! {
    /// The null streams, by the ordinals of their devices.
    null_streams: Vec<Arc<Stream>> = devices::all().iter().enumerate().map(null_stream).collect()
}

fn null_stream((ordinal, device): (usize, &devices::Device)) -> Arc<Stream> {
    let queue = Queue::new(ordinal as u32, Arc::clone(&device.engine), 0);
    Arc::new(Stream::new(queue, ordinal, Ordering::Legacy, 0, 0))
}

/// The null stream of an existing device: handles 0 and 1 while the device is current.
pub(crate) fn legacy(device: usize) -> &'static Arc<Stream> {
    &null_streams()[device]
}

/// A queue on an existing device. The first numbers are the null streams'.
pub(crate) fn new_queue(device: usize, priority: i32) -> Queue {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = devices::all().len() as u32 + COUNT.fetch_add(1, Relaxed);
    Queue::new(number, Arc::clone(&devices::all()[device].engine), priority)
}

/// Submits to a queue. In null mode there are no queues, and the command runs at once, in the caller.
pub(crate) fn submit_to(queue: &Queue, command: Command) -> Arc<Completion> {
    if config::get().null {
        if let Some(run) = command.run {
            run();
        }
        return Arc::new(Completion::finished_at(clock::now_ns()));
    }
    queue.submit(command)
}

/// Blocks until all work submitted to a device so far is finished, on every stream.
pub(crate) fn wait_for_device(device: usize) {
    let streams = listed().all();
    let of_device = streams.iter().filter(|stream| stream.device == device).chain(null_streams().get(device));
    for completion in of_device.filter_map(|stream| stream.queue.unfinished()).collect::<Vec<_>>() {
        completion.wait();
    }
}

/// The same for every device.
pub(crate) fn wait_for_all() {
    (0..devices::all().len()).for_each(wait_for_device);
}

/// The next stream's number.
fn next_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Relaxed) + 1
}

/// How a stream's commands are ordered with the null stream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordering {
    /// The null stream itself.
    Legacy,
    /// Waits for the null stream, and the null stream waits for it.
    Blocking,
    /// Not ordered with the null stream.
    NonBlocking,
}

/// A stream; it lives until its handle is destroyed and its last command is finished.
pub(crate) struct Stream {
    queue: Queue,
    device: usize,
    ordering: Ordering,
    pub(super) flags: u32,
    pub(super) priority: i32,
    pub(super) id: u64,
    pub(super) extras: Mutex<Extras>,
    /// Its state in a capture; nearly always none.
    pub(crate) capture: Mutex<Option<Capture>>,
    /// Held while several commands are appended without commands of other threads in between.
    submission: Mutex<()>,
}

/// The exclusive right to append to a stream: commands submitted with one guard are contiguous.
pub(crate) struct SubmissionGuard<'a> {
    stream: &'a Stream,
    _guard: MutexGuard<'a, ()>,
}

impl SubmissionGuard<'_> {
    /// See [`Stream::submit`].
    pub(crate) fn submit(&self, mut command: Command) -> Arc<Completion> {
        if !config::get().null {
            command.waits.extend(self.stream.implicit_waits());
        }
        submit_to(&self.stream.queue, command)
    }

    /// Ordinal of the stream's device.
    pub(crate) fn device(&self) -> usize {
        self.stream.device
    }
}

impl Stream {
    pub(crate) fn new(queue: Queue, device: usize, ordering: Ordering, flags: u32, priority: i32) -> Self {
        Self {
            queue,
            device,
            ordering,
            flags,
            priority,
            id: next_id(),
            extras: Mutex::default(),
            capture: Mutex::default(),
            submission: Mutex::default(),
        }
    }

    /// Blocks while another thread appends.
    pub(crate) fn lock_submission(&self) -> SubmissionGuard<'_> {
        SubmissionGuard { stream: self, _guard: self.submission.lock().expect("no holder panics") }
    }

    /// Ordinal of its device.
    pub(crate) fn device(&self) -> usize {
        self.device
    }

    pub(crate) fn ordering(&self) -> Ordering {
        self.ordering
    }

    /// Blocks until all work submitted so far is finished; for the null stream that includes blocking
    /// streams.
    pub(crate) fn synchronize(&self) {
        for completion in self.outstanding() {
            completion.wait();
        }
    }

    pub(super) fn outstanding(&self) -> Vec<Arc<Completion>> {
        let mut all: Vec<_> = self.queue.unfinished().into_iter().collect();
        if self.ordering == Ordering::Legacy {
            all.extend(self.implicit_waits());
        }
        all
    }

    /// Appends a command, with the null stream's rule: its commands wait for those of all blocking streams, and theirs wait for its
    /// own. In null mode the command runs at once, in the caller.
    pub(crate) fn submit(&self, command: Command) -> Arc<Completion> {
        self.lock_submission().submit(command)
    }

    /// Completions that the next command must wait for, in addition to its own predecessors.
    fn implicit_waits(&self) -> Vec<Arc<Completion>> {
        match self.ordering {
            Ordering::NonBlocking => Vec::new(),
            Ordering::Blocking => legacy(self.device).queue.unfinished().into_iter().collect(),
            Ordering::Legacy => {
                let is_blocking =
                    |other: &Arc<Self>| other.ordering == Ordering::Blocking && other.device == self.device;
                let blocking = listed().all().into_iter().filter(is_blocking);
                blocking.filter_map(|other| other.queue.unfinished()).collect()
            }
        }
    }
}

/// What is stored for the application to read back.
#[derive(Default)]
pub(super) struct Extras {
    /// One bit for each compute unit; empty means all of them.
    pub(super) mask: Vec<u32>,
    pub(super) attributes: BTreeMap<u32, hipStreamAttrValue>,
}
