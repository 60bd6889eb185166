//! Writes a trace, packet by packet, in bounded memory.
//!
//! # Order and clock
//!
//! Calls are reported when they return, by several CPUs. So the slice of an inner call arrives before that of
//! the outer one, and begin times go back. Perfetto sorts by time when it loads a trace, and keeps the written
//! order among equal times. Therefore
//!
//! * times are absolute `CLOCK_BOOTTIME` nanoseconds. An incremental clock (4 bytes less for each packet) cannot
//!   go back. A clock that is rebased at each snapshot cannot express a time before that, such as the begin of a
//!   long call.
//! * slices of one thread that begin at the same nanosecond are moved apart (`nesting`).
//! * a slice's end repeats its category and name. The loader does not need them: it would close the slice that
//!   was opened last. With them it counts slices that overlap without nesting as errors; without them such
//!   slices would exchange their ends unnoticed.
//!
//! # Writes
//!
//! A packet is encoded into a reused buffer and handed on with one `write_all`, begin and end of a slice
//! together. If the process is killed, the file has at most a cut tail, and it still loads. If a write fails,
//! part of a packet may be in the file, and any data after it would make the whole file unreadable. So the
//! writer refuses to continue ([`WriteError::Broken`]).
//!
//! # Memory
//!
//! The writer remembers interned texts, the set of described tracks, and a few slices of each thread, all up to
//! [`Limits`]. Writing a slice with a known thread and known texts does not allocate.

mod nesting;
mod packets;
mod wire;

use std::{collections::HashSet, io};

use foldhash::fast::RandomState;

use self::{nesting::Nesting, packets::PacketBuffer};
use crate::{
    annotation::Annotation,
    clocks::Clocks,
    identity::{CounterId, ProcessId, Scope, ThreadId, TrackId},
    intern::{Interner, Limits},
    schema::{
        CounterDescriptor, CounterUnit, EventType, ProcessDescriptor, SiblingMerge, ThreadDescriptor,
        TrackDescriptor,
    },
    stack::Stack,
    text,
};

/// Name of the global counter that every trace has: the number of events lost so far, 0 at the beginning.
pub const LOST_EVENTS: &str = "lost events";

/// Why writing a trace failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The underlying writer failed.
    #[error("write a packet of the trace at byte {offset}: {source}")]
    Io {
        /// Bytes that were written before this packet.
        offset: u64,
        /// The error of the underlying writer.
        source: io::Error,
    },
    /// An earlier write failed and may have left part of a packet; nothing may follow it.
    #[error("continue a trace after a failed write")]
    Broken,
}

/// A process to be shown.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// The process.
    pub id: ProcessId,
    /// `argv[0]` or the `comm`. Perfetto shows the first name that a trace gives for a [`ProcessId`].
    pub name: &'a str,
    /// The command line; shown as the description of the process's track. May be empty.
    pub cmdline: &'a [&'a str],
}

/// A call, or any other event with a duration, on a thread.
///
/// If an earlier written slice of the same thread begins at the same time, the begin is written one nanosecond
/// earlier, so that this slice encloses the earlier one.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// The thread. The writer describes its track if that was not done yet.
    pub thread: ThreadId,
    /// When it began, `CLOCK_BOOTTIME` nanoseconds.
    pub begin_ns: u64,
    /// When it ended, on the same clock; `None` if it had not ended at the end of the trace. An end before the
    /// begin counts as equal to the begin.
    pub end_ns: Option<u64>,
    /// For filtering, e.g. `hip`. Interned.
    pub category: &'a str,
    /// The text on the slice. Interned.
    pub name: &'a str,
    /// Its annotations.
    pub annotations: &'a [Annotation<'a>],
}

/// A track that is neither a thread's nor a process's.
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    /// The parent below which it is shown.
    pub parent: Scope,
    /// Its name, unique below its parent.
    pub name: &'a str,
}

/// An event with a duration, on a [`Track`]. Slices of one track nest or follow each other.
#[derive(Clone, Copy, Debug)]
pub struct TrackSlice<'a> {
    /// The track.
    pub track: TrackId,
    /// See [`Slice::begin_ns`].
    pub begin_ns: u64,
    /// See [`Slice::end_ns`].
    pub end_ns: Option<u64>,
    /// For filtering, e.g. `gpu`. Interned.
    pub category: &'a str,
    /// The text on the slice. Interned.
    pub name: &'a str,
    /// Its annotations.
    pub annotations: &'a [Annotation<'a>],
    /// The flow that ends here; it begins at a slice that [`TraceWriter::slice_with_flow`] wrote.
    pub ended_flow: Option<u64>,
}

/// Work that ran on a queue of a GPU, as Perfetto's typed event instead of a [`TrackSlice`]. Other tools recognise the type
/// and draw the event below the GPU. The readers of this crate return it as a slice of the track with the queue's name,
/// below the track with the GPU's name.
#[derive(Clone, Copy, Debug)]
pub struct GpuStage<'a> {
    /// The GPU's number.
    pub gpu: u32,
    /// The GPU's name.
    pub gpu_name: &'a str,
    /// The queue's name.
    pub queue: &'a str,
    /// The process that the work belongs to.
    pub pid: u32,
    /// When it began, `CLOCK_BOOTTIME` nanoseconds.
    pub begin_ns: u64,
    /// When it ended, on the same clock.
    pub end_ns: u64,
    /// The text on the slice. Interned.
    pub name: &'a str,
    /// Its annotations; their values are written as text.
    pub annotations: &'a [Annotation<'a>],
    /// The flow that ends here, written as the event's number. Perfetto draws no arrow for it.
    pub ended_flow: Option<u64>,
}

/// An event without a duration.
#[derive(Clone, Copy, Debug)]
pub struct Instant<'a> {
    /// The track.
    pub scope: Scope,
    /// The time, `CLOCK_BOOTTIME` nanoseconds.
    pub ts_ns: u64,
    /// For filtering. Interned.
    pub category: &'a str,
    /// The text on the instant. Interned.
    pub name: &'a str,
    /// Its annotations.
    pub annotations: &'a [Annotation<'a>],
}

/// A counter to be shown.
#[derive(Clone, Copy, Debug)]
pub struct CounterTrack<'a> {
    /// Where the counter is shown.
    pub scope: Scope,
    /// Its name, unique in its scope.
    pub name: &'a str,
    /// The unit of its samples.
    pub unit: Unit,
}

/// The unit of a counter's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Ns,
}

/// Writes one trace into `W`.
///
/// `W` should buffer (`BufWriter<File>`, which passes on whole packets). [`TraceWriter::flush`] passes on all
/// buffered packets, so that other processes can read them.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    packets: PacketBuffer,
    described: HashSet<u64, RandomState>,
    nesting: Nesting,
    limits: Limits,
    lost: u64,
    lost_counter: CounterId,
    bytes_written: u64,
    broken: bool,
}

impl<W: io::Write> TraceWriter<W> {
    /// Begins a trace with the clocks and the counter [`LOST_EVENTS`] at 0, so that the trace shows that nothing
    /// was lost.
    pub fn new(out: W, clocks: Clocks) -> Result<Self, WriteError> {
        Self::with_limits(out, clocks, Limits::default())
    }

    /// [`TraceWriter::new`] with other limits than the default ones.
    pub fn with_limits(out: W, clocks: Clocks, limits: Limits) -> Result<Self, WriteError> {
        let mut writer = Self {
            out,
            packets: PacketBuffer::new(Interner::new(limits)),
            described: HashSet::default(),
            nesting: Nesting::new(limits.track_count),
            limits,
            lost: 0,
            lost_counter: CounterId::new(Scope::Global, LOST_EVENTS),
            bytes_written: 0,
            broken: false,
        };
        writer.begin(clocks)?;
        Ok(writer)
    }

    /// Restarts the trace: packets from here on refer to no earlier ones, so that each part is a complete trace. The caller
    /// must describe names of processes and threads, and counters, again.
    pub fn restart(&mut self, clocks: Clocks) -> Result<(), WriteError> {
        self.packets.restart();
        self.described.clear();
        self.begin(clocks)
    }

    fn begin(&mut self, clocks: Clocks) -> Result<(), WriteError> {
        self.packets.clock_snapshot(clocks.to_snapshot());
        self.packets.describe(TrackDescriptor {
            uuid: Some(Scope::Global.uuid()),
            name: Some("trace".to_owned()),
            ..Default::default()
        });
        self.described.insert(Scope::Global.uuid());
        self.counter_track(&CounterTrack { scope: Scope::Global, name: LOST_EVENTS, unit: Unit::Count })?;
        self.sample_lost(clocks.boottime_ns)
    }

    /// Writes another snapshot of the clocks. One is needed every few seconds, because the clocks drift apart.
    pub fn clock_snapshot(&mut self, clocks: Clocks) -> Result<(), WriteError> {
        self.packets.clock_snapshot(clocks.to_snapshot());
        self.commit()
    }

    /// Describes a process. May be called again with more information.
    pub fn process(&mut self, process: &Process<'_>) -> Result<(), WriteError> {
        self.describe_process(process.id, Some(process.name), process.cmdline);
        self.commit()
    }

    /// Names a thread. May be called again if the thread is renamed: the last name is shown.
    pub fn thread(&mut self, thread: ThreadId, name: &str) -> Result<(), WriteError> {
        self.ensure_process(thread.process);
        self.describe_thread(thread, Some(name));
        self.commit()
    }

    /// Writes a slice. Slices may come in any time order; those of one thread nest or follow each other.
    pub fn slice(&mut self, slice: &Slice<'_>) -> Result<(), WriteError> {
        self.write_slice(slice, &[], None)
    }

    /// Writes a slice at which the flow with this number begins. The slice at which it ends may be written later or earlier.
    /// A number must not be used for a second flow.
    pub fn slice_with_flow(&mut self, slice: &Slice<'_>, flow: u64) -> Result<(), WriteError> {
        self.write_slice(slice, &[flow], None)
    }

    /// Writes a slice with its call stack, and with the flow that begins at it if there is one. Each call stack is written
    /// once. Perfetto shows call stacks of slices from v53 on.
    pub fn slice_with_stack(
        &mut self,
        slice: &Slice<'_>,
        stack: &Stack,
        flow: Option<u64>,
    ) -> Result<(), WriteError> {
        self.write_slice(slice, flow.as_slice(), Some(stack))
    }

    fn write_slice(
        &mut self,
        slice: &Slice<'_>,
        flows: &[u64],
        stack: Option<&Stack>,
    ) -> Result<(), WriteError> {
        self.ensure_thread(slice.thread);
        let uuid = slice.thread.uuid();
        self.packets.begin_event(uuid, Some((slice.category, slice.name)), slice.annotations);
        self.packets.set_flows(flows, &[]);
        if let Some(stack) = stack {
            self.packets.set_stack(stack);
        }
        self.push_slice(uuid, slice.begin_ns, slice.end_ns)
    }

    /// Describes a track; the same parent and name always give the same identifier.
    pub fn track(&mut self, track: &Track<'_>) -> Result<TrackId, WriteError> {
        let id = TrackId::new(track.parent, track.name);
        self.ensure_scope(track.parent);
        self.remember(id.0);
        self.packets.describe(TrackDescriptor {
            uuid: Some(id.0),
            name: Some(text::clean(track.name)),
            parent_uuid: (track.parent != Scope::Global).then(|| track.parent.uuid()),
            sibling_merge_behavior: Some(SiblingMerge::None.into()),
            ..Default::default()
        });
        self.commit()?;
        Ok(id)
    }

    /// Writes a slice on a track that was described since the last restart.
    pub fn track_slice(&mut self, slice: &TrackSlice<'_>) -> Result<(), WriteError> {
        let uuid = slice.track.0;
        self.packets.begin_event(uuid, Some((slice.category, slice.name)), slice.annotations);
        self.packets.set_flows(&[], slice.ended_flow.as_slice());
        self.push_slice(uuid, slice.begin_ns, slice.end_ns)
    }

    /// Writes work that ran on a queue of a GPU.
    pub fn gpu_stage(&mut self, stage: &GpuStage<'_>) -> Result<(), WriteError> {
        self.packets.push_gpu_stage(stage);
        self.commit()
    }

    /// Writes begin and end of the slice that the buffer holds.
    fn push_slice(&mut self, uuid: u64, begin_ns: u64, end_ns: Option<u64>) -> Result<(), WriteError> {
        let end_ns = end_ns.map(|end_ns| end_ns.max(begin_ns));
        let begin_ns = self.nesting.adjusted_begin_ns(uuid, begin_ns, end_ns.unwrap_or(u64::MAX));
        self.packets.push_event(EventType::SliceBegin, begin_ns);
        if let Some(end_ns) = end_ns {
            self.packets.keep_name_only();
            self.packets.push_event(EventType::SliceEnd, end_ns);
        }
        self.commit()
    }

    /// Writes an instant.
    pub fn instant(&mut self, instant: &Instant<'_>) -> Result<(), WriteError> {
        self.ensure_scope(instant.scope);
        let uuid = instant.scope.uuid();
        self.packets.begin_event(uuid, Some((instant.category, instant.name)), instant.annotations);
        self.packets.push_event(EventType::Instant, instant.ts_ns);
        self.commit()
    }

    /// Describes a counter; the same scope and name always give the same identifier.
    pub fn counter_track(&mut self, track: &CounterTrack<'_>) -> Result<CounterId, WriteError> {
        let id = CounterId::new(track.scope, track.name);
        self.ensure_scope(track.scope);
        let unit = match track.unit {
            Unit::Count => CounterUnit::Count,
            Unit::Bytes => CounterUnit::SizeBytes,
            Unit::Ns => CounterUnit::TimeNs,
        };
        self.packets.describe(TrackDescriptor {
            uuid: Some(id.0),
            name: Some(text::clean(track.name)),
            // A counter below the trace's own track would be hidden in a group of that name.
            parent_uuid: (track.scope != Scope::Global).then(|| track.scope.uuid()),
            counter: Some(CounterDescriptor { unit: Some(unit.into()) }),
            ..Default::default()
        });
        self.commit()?;
        Ok(id)
    }

    /// Writes a sample of a counter.
    pub fn counter(&mut self, counter: CounterId, ts_ns: u64, value: i64) -> Result<(), WriteError> {
        self.packets.begin_event(counter.0, None, &[]);
        self.packets.push_counter(ts_ns, value);
        self.commit()
    }

    /// Reports that `lost` events are missing before `ts_ns`, with the cause and other details. For programs, a
    /// packet with `previous_packet_dropped` clears the state of the sequence. For people, there are an instant
    /// `events lost` and the counter [`LOST_EVENTS`], which shows the sum.
    pub fn gap(
        &mut self,
        ts_ns: u64,
        lost: u64,
        cause: &str,
        details: &[Annotation<'_>],
    ) -> Result<(), WriteError> {
        self.packets.mark_loss();
        let annotations =
            [&[Annotation::new("lost", lost), Annotation::new("cause", cause)], details].concat();
        self.instant(&Instant {
            scope: Scope::Global,
            ts_ns,
            category: "loss",
            name: "events lost",
            annotations: &annotations,
        })?;
        self.lost = self.lost.saturating_add(lost);
        self.sample_lost(ts_ns)
    }

    fn sample_lost(&mut self, ts_ns: u64) -> Result<(), WriteError> {
        self.counter(self.lost_counter, ts_ns, i64::try_from(self.lost).unwrap_or(i64::MAX))
    }

    /// Passes on what the underlying writer buffers.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.ensure_intact()?;
        self.out.flush().map_err(|source| self.fail(source))
    }

    /// Flushes and gives back the underlying writer. A trace needs no closing packet.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.flush()?;
        Ok(self.out)
    }

    /// The underlying writer, for example to take the whole packets that a `Vec` has collected. Writing to it
    /// breaks the trace.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Bytes handed to the underlying writer so far.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Events reported as lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn ensure_scope(&mut self, scope: Scope) {
        match scope {
            Scope::Global | Scope::Track(_) => {}
            Scope::Process(process) => self.ensure_process(process),
            Scope::Thread(thread) => self.ensure_thread(thread),
        }
    }

    /// Describes a process, without a name, if it was not described yet.
    fn ensure_process(&mut self, process: ProcessId) {
        if !self.described.contains(&process.uuid()) {
            self.describe_process(process, None, &[]);
        }
    }

    fn ensure_thread(&mut self, thread: ThreadId) {
        if !self.described.contains(&thread.uuid()) {
            self.ensure_process(thread.process);
            self.describe_thread(thread, None);
        }
    }

    fn describe_process(&mut self, id: ProcessId, name: Option<&str>, cmdline: &[&str]) {
        self.remember(id.uuid());
        self.packets.describe_at(
            id.start_ns,
            TrackDescriptor {
                uuid: Some(id.uuid()),
                description: (!cmdline.is_empty()).then(|| text::clean(&cmdline.join(" "))),
                process: Some(ProcessDescriptor {
                    pid: Some(id.pid as i32),
                    cmdline: cmdline.iter().map(|argument| text::clean(argument)).collect(),
                    process_name: name.map(text::clean),
                    start_timestamp_ns: (id.start_ns > 0).then_some(id.start_ns as i64),
                }),
                ..Default::default()
            },
        );
    }

    fn describe_thread(&mut self, id: ThreadId, name: Option<&str>) {
        self.remember(id.uuid());
        self.packets.describe_at(
            id.process.start_ns,
            TrackDescriptor {
                uuid: Some(id.uuid()),
                parent_uuid: Some(id.process.uuid()),
                thread: Some(ThreadDescriptor {
                    pid: Some(id.process.pid as i32),
                    tid: Some(id.tid.into()),
                    thread_name: name.map(text::clean),
                }),
                ..Default::default()
            },
        );
    }

    /// Remembers a track as described. At the limit it forgets all tracks, so some are described again, which
    /// changes nothing for readers.
    fn remember(&mut self, uuid: u64) {
        if self.described.len() >= self.limits.track_count {
            self.described.clear();
        }
        self.described.insert(uuid);
    }

    /// Hands the buffered packets to the underlying writer.
    fn commit(&mut self) -> Result<(), WriteError> {
        self.ensure_intact()?;
        let encoded = self.packets.encoded();
        if let Err(source) = self.out.write_all(encoded) {
            return Err(self.fail(source));
        }
        self.bytes_written += encoded.len() as u64;
        self.packets.clear_encoded();
        Ok(())
    }

    fn ensure_intact(&self) -> Result<(), WriteError> {
        if self.broken { Err(WriteError::Broken) } else { Ok(()) }
    }

    fn fail(&mut self, source: io::Error) -> WriteError {
        self.broken = true;
        WriteError::Io { offset: self.bytes_written, source }
    }
}
