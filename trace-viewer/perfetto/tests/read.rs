//! Reads the writer's traces: whole, cut and damaged.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::{io, sync::Arc};

use fastrand::Rng;
use xsched_perfetto::{
    Annotation, Clocks, CounterTrack, GpuStage, Instant, Limits, OwnedAnnotation, OwnedSlice, OwnedValue,
    Process, ProcessId, ReadError, Scope, Slice, Stack, StackFrame, Tail, ThreadId, TraceEvent, TraceReader,
    TraceWriter, Track, TrackSlice, Unit, Value, WriteError,
};

const CLOCKS: Clocks =
    Clocks { boottime_ns: 1_000, monotonic_ns: 900, realtime_ns: 1_700_000_000_000_000_000 };
const PROCESS: ProcessId = ProcessId { pid: 41, start_ns: 500 };
const THREAD: ThreadId = ThreadId { process: PROCESS, tid: 42 };
/// Limits that a trace of a few hundred slices exceeds many times.
const TINY: Limits = Limits { interned_bytes: 2_000, interned_count: 30, track_count: 4 };

fn read(trace: &[u8]) -> (Vec<TraceEvent>, Tail) {
    let mut reader = TraceReader::new(trace);
    let events = reader.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(reader.skipped(), 0);
    (events, reader.tail())
}

fn slices(events: &[TraceEvent]) -> Vec<&OwnedSlice> {
    events
        .iter()
        .filter_map(|event| if let TraceEvent::Slice(slice) = event { Some(slice) } else { None })
        .collect()
}

fn random_text(rng: &mut Rng) -> String {
    let len = if rng.u8(..) == 0 { rng.usize(..5_000) } else { rng.usize(..12) };
    // The writer replaces NUL, which has a test of its own.
    (0..len).map(|_| rng.char('\u{1}'..='\u{2fff}')).collect()
}

fn random_value(rng: &mut Rng) -> OwnedValue {
    match rng.u8(..6) {
        0 => OwnedValue::Str(random_text(rng).into()),
        1 => OwnedValue::U64(rng.u64(..) >> rng.u32(..64)),
        2 => OwnedValue::I64(rng.i64(..) >> rng.u32(..64)),
        3 => OwnedValue::F64(rng.f64()),
        4 => OwnedValue::Pointer(rng.u64(..)),
        _ => OwnedValue::Bool(rng.bool()),
    }
}

/// Slices of few threads with distinct begins, in no order; one in eight never ends.
fn random_slices(rng: &mut Rng) -> Vec<OwnedSlice> {
    let names: Vec<_> = (0..60).map(|_| random_text(rng)).collect();
    let mut slices: Vec<_> = (0..400_u64)
        .map(|number| {
            let process = ProcessId { pid: rng.u32(1..4), start_ns: rng.u64(..2) * 77 };
            let begin_ns = number * 1_000 + rng.u64(..1_000);
            let annotations = (0..rng.usize(..5))
                .map(|_| OwnedAnnotation {
                    name: rng.choice(&names).unwrap().as_str().into(),
                    value: random_value(rng),
                })
                .collect();
            OwnedSlice {
                scope: Scope::Thread(ThreadId { process, tid: rng.u32(1..4) }),
                begin_ns,
                end_ns: (rng.u8(..8) != 0).then(|| begin_ns + rng.u64(..100_000)),
                category: rng.choice(&names).unwrap().as_str().into(),
                name: rng.choice(&names).unwrap().as_str().into(),
                annotations,
                flows: vec![],
                ended_flows: vec![],
                stack: None,
            }
        })
        .collect();
    rng.shuffle(&mut slices);
    slices
}

fn write_slice<W: io::Write>(writer: &mut TraceWriter<W>, slice: &OwnedSlice) -> Result<(), WriteError> {
    let annotations: Vec<_> = slice
        .annotations
        .iter()
        .map(|annotation| Annotation {
            name: &annotation.name,
            value: match annotation.value {
                OwnedValue::Str(ref text) => Value::Str(text),
                OwnedValue::U64(number) => Value::U64(number),
                OwnedValue::I64(number) => Value::I64(number),
                OwnedValue::F64(number) => Value::F64(number),
                OwnedValue::Pointer(address) => Value::Pointer(address),
                OwnedValue::Bool(truth) => Value::Bool(truth),
                OwnedValue::Other => unreachable!("never generated"),
            },
        })
        .collect();
    let Scope::Thread(thread) = slice.scope else { unreachable!("only threads are generated") };
    writer.slice(&Slice {
        thread,
        begin_ns: slice.begin_ns,
        end_ns: slice.end_ns,
        category: &slice.category,
        name: &slice.name,
        annotations: &annotations,
    })
}

#[test]
fn slices_round_trip() {
    let seed = fastrand::u64(..);
    println!("seed {seed:#x}");
    let mut rng = Rng::with_seed(seed);
    for limits in [Limits::default(), TINY] {
        let mut written = random_slices(&mut rng);
        let mut writer = TraceWriter::with_limits(Vec::new(), CLOCKS, limits).unwrap();
        for slice in &written {
            write_slice(&mut writer, slice).unwrap();
            if rng.u8(..20) == 0 {
                writer.gap(slice.begin_ns, 3, "test", &[]).unwrap();
            }
        }
        let (events, tail) = read(&writer.finish().unwrap());
        assert_eq!(tail, Tail::Whole);
        let mut back: Vec<_> = slices(&events).into_iter().cloned().collect();
        // Unfinished slices come last when reading.
        written.sort_by_key(|slice| slice.begin_ns);
        back.sort_by_key(|slice| slice.begin_ns);
        assert_eq!(back, written);
    }
}

/// A trace with one event of each kind.
fn small_trace() -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), CLOCKS).unwrap();
    writer.process(&Process { id: PROCESS, name: "python3", cmdline: &["python3", "train.py"] }).unwrap();
    writer.thread(THREAD, "worker").unwrap();
    let annotations = [Annotation::new("kernel", "saxpy"), Annotation::new("grid_x", 64_u32)];
    let call = Slice {
        thread: THREAD,
        begin_ns: 2_000,
        end_ns: Some(3_000),
        category: "hip",
        name: "hipLaunchKernel",
        annotations: &annotations,
    };
    writer.slice(&call).unwrap();
    writer
        .slice(&Slice {
            begin_ns: 3_500,
            end_ns: None,
            name: "hipDeviceSynchronize",
            annotations: &[],
            ..call
        })
        .unwrap();
    let depth = CounterTrack { scope: Scope::Process(PROCESS), name: "depth", unit: Unit::Count };
    let depth = writer.counter_track(&depth).unwrap();
    writer.counter(depth, 4_000, -7).unwrap();
    let instant = Instant {
        scope: Scope::Thread(THREAD),
        ts_ns: 4_100,
        category: "note",
        name: "mark",
        annotations: &[],
    };
    writer.instant(&instant).unwrap();
    writer.gap(5_000, 17, "ring buffer full", &[]).unwrap();
    writer.clock_snapshot(CLOCKS).unwrap();
    writer.finish().unwrap()
}

#[test]
fn events_of_each_kind_round_trip() {
    let annotation = |name: &str, value| OwnedAnnotation { name: name.into(), value };
    let text = |text: &str| OwnedValue::Str(text.into());
    let lost =
        |ts_ns, value| TraceEvent::Counter { scope: Scope::Global, name: "lost events".into(), ts_ns, value };
    let expected = [
        TraceEvent::Clocks(CLOCKS),
        lost(1_000, 0),
        TraceEvent::Process {
            id: PROCESS,
            name: Some("python3".into()),
            cmdline: vec!["python3".into(), "train.py".into()],
        },
        TraceEvent::Thread { id: THREAD, name: Some("worker".into()) },
        TraceEvent::Slice(OwnedSlice {
            scope: Scope::Thread(THREAD),
            begin_ns: 2_000,
            end_ns: Some(3_000),
            category: "hip".into(),
            name: "hipLaunchKernel".into(),
            annotations: vec![annotation("kernel", text("saxpy")), annotation("grid_x", OwnedValue::U64(64))],
            flows: vec![],
            ended_flows: vec![],
            stack: None,
        }),
        TraceEvent::Counter { scope: Scope::Process(PROCESS), name: "depth".into(), ts_ns: 4_000, value: -7 },
        TraceEvent::Instant {
            scope: Scope::Thread(THREAD),
            ts_ns: 4_100,
            category: "note".into(),
            name: "mark".into(),
            annotations: vec![],
        },
        TraceEvent::Instant {
            scope: Scope::Global,
            ts_ns: 5_000,
            category: "loss".into(),
            name: "events lost".into(),
            annotations: vec![
                annotation("lost", OwnedValue::U64(17)),
                annotation("cause", text("ring buffer full")),
            ],
        },
        lost(5_000, 17),
        TraceEvent::Clocks(CLOCKS),
        TraceEvent::Slice(OwnedSlice {
            scope: Scope::Thread(THREAD),
            begin_ns: 3_500,
            end_ns: None,
            category: "hip".into(),
            name: "hipDeviceSynchronize".into(),
            annotations: vec![],
            flows: vec![],
            ended_flows: vec![],
            stack: None,
        }),
    ];
    assert_eq!(read(&small_trace()), (expected.to_vec(), Tail::Whole));
}

/// The writer may be killed at any moment. The file is then a prefix, and the reader reports that it was cut.
#[test]
fn a_trace_cut_anywhere_is_a_prefix() {
    let trace = small_trace();
    let (whole, _) = read(&trace);
    let mut packet_end = 0;
    for len in 0..=trace.len() {
        let (events, tail) = read(&trace[..len]);
        let (finished, unfinished): (Vec<_>, Vec<_>) = events
            .iter()
            .partition(|event| !matches!(event, TraceEvent::Slice(slice) if slice.end_ns.is_none()));
        assert!(whole.iter().zip(&finished).all(|(whole, cut)| whole == *cut), "cut at {len}");
        assert!(unfinished.len() <= 1, "cut at {len}: {unfinished:?}");
        match tail {
            Tail::Whole => packet_end = len as u64,
            Tail::Cut { offset, kept_bytes } => {
                assert_eq!((offset, offset + kept_bytes), (packet_end, len as u64));
            }
        }
    }
    assert_eq!(packet_end, trace.len() as u64);
}

#[test]
fn errors_name_the_offset_of_the_damage() {
    let trace = small_trace();
    let mut damaged = trace.clone();
    damaged.extend([0; 100]);
    let error = TraceReader::new(&*damaged).find_map(Result::err).unwrap();
    assert!(
        matches!(error, ReadError::NotAPacket { offset, found: 0 } if offset == trace.len() as u64),
        "{error}"
    );

    let elf = b"\x7fELF\x02\x01\x01\0";
    let error = TraceReader::new(&elf[..]).find_map(Result::err).unwrap();
    assert_eq!(error.to_string(), "find a packet at byte 0: it begins with 0x7f instead of 0x0a");

    for length in [&[0xff; 11][..], &[0xff, 0xff, 0xff, 0xff, 0x0f]] {
        let claim = [&[0x0a], length].concat();
        let error = TraceReader::new(&*claim).find_map(Result::err).unwrap();
        assert!(matches!(error, ReadError::Length { offset: 0 }), "{error}");
    }

    // A packet with a first field that announces five bytes and has one.
    let error = TraceReader::new(&[0x0a, 3, 0x5a, 5, 0][..]).find_map(Result::err).unwrap();
    assert!(matches!(error, ReadError::Malformed { offset: 0, .. }), "{error}");
}

/// Text may begin with any character; a newline is equal to the key of a packet.
#[test]
fn damage_never_panics() {
    let seed = fastrand::u64(..);
    println!("seed {seed:#x}");
    let mut rng = Rng::with_seed(seed);
    let trace = small_trace();
    for _ in 0..2_000 {
        let mut damaged = trace.clone();
        for _ in 0..rng.usize(1..4) {
            damaged[rng.usize(..trace.len())] = rng.u8(..);
        }
        // An error, a cut tail and other events are all acceptable.
        let events = TraceReader::new(&*damaged).count();
        assert!(events <= trace.len());
    }
}

#[test]
fn nul_bytes_are_replaced_and_long_texts_are_cut() {
    let long = "k".repeat(xsched_perfetto::TEXT_LEN_MAX + 1);
    let mut writer = TraceWriter::new(Vec::new(), CLOCKS).unwrap();
    let annotations = [Annotation::new("kernel", long.as_str())];
    let slice = Slice {
        thread: THREAD,
        begin_ns: 1,
        end_ns: Some(2),
        category: "hip",
        name: "a\0b",
        annotations: &annotations,
    };
    writer.slice(&slice).unwrap();
    let (events, _) = read(&writer.finish().unwrap());
    let slice = slices(&events)[0];
    assert_eq!(&*slice.name, "a\u{fffd}b");
    let cut: Arc<str> = format!("{}…", &long[1..]).into();
    assert_eq!(slice.annotations[0].value, OwnedValue::Str(cut));
}

#[test]
fn an_end_before_the_begin_counts_as_the_begin() {
    let mut writer = TraceWriter::new(Vec::new(), CLOCKS).unwrap();
    let slice =
        Slice { thread: THREAD, begin_ns: 9, end_ns: Some(3), category: "hip", name: "x", annotations: &[] };
    writer.slice(&slice).unwrap();
    let (events, _) = read(&writer.finish().unwrap());
    assert_eq!(slices(&events)[0].end_ns, Some(9));
}

/// Accepts a number of bytes and then fails, like a full disk.
struct Full {
    free: usize,
    taken: Vec<u8>,
}

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.free);
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.free -= taken;
        self.taken.extend(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// After a partial write no packet may follow, even when the disk has space again.
#[test]
fn a_full_disk_leaves_a_prefix() {
    let whole = TraceWriter::new(Vec::new(), CLOCKS).unwrap().bytes_written() as usize;
    let mut full = Full { free: whole + 40, taken: Vec::new() };
    let mut writer = TraceWriter::new(&mut full, CLOCKS).unwrap();
    let process = Process { id: PROCESS, name: "python3 with a name of more than forty bytes", cmdline: &[] };
    let error = writer.process(&process).unwrap_err();
    assert!(matches!(error, WriteError::Io { offset, .. } if offset == whole as u64), "{error}");
    assert!(matches!(writer.thread(THREAD, "worker"), Err(WriteError::Broken)));
    assert!(matches!(writer.flush(), Err(WriteError::Broken)));
    assert!(matches!(writer.finish(), Err(WriteError::Broken)));
    let (events, tail) = read(&full.taken);
    assert_eq!(events.len(), 2, "the clocks and the counter of lost events: {events:?}");
    assert_eq!(tail, Tail::Cut { offset: whole as u64, kept_bytes: 40 });
}

#[test]
fn packets_after_a_restart_are_a_complete_trace() {
    let mut writer = TraceWriter::new(Vec::new(), CLOCKS).unwrap();
    let slice = |begin_ns| OwnedSlice {
        scope: Scope::Thread(THREAD),
        begin_ns,
        end_ns: Some(begin_ns + 10),
        category: "hip".into(),
        name: "hipMemcpy".into(),
        annotations: vec![OwnedAnnotation { name: "kind".into(), value: OwnedValue::Str("peer".into()) }],
        flows: vec![],
        ended_flows: vec![],
        stack: None,
    };
    write_slice(&mut writer, &slice(2_000)).unwrap();
    writer.gap(2_500, 17, "ring buffer full", &[]).unwrap();
    let first = std::mem::take(writer.get_mut());
    writer.restart(Clocks { boottime_ns: 3_000, ..CLOCKS }).unwrap();
    write_slice(&mut writer, &slice(3_000)).unwrap();
    let second = writer.finish().unwrap();

    let (events, tail) = read(&second);
    assert_eq!((slices(&events), tail), (vec![&slice(3_000)], Tail::Whole));
    // The number of events lost before the restart is kept.
    let lost =
        TraceEvent::Counter { scope: Scope::Global, name: "lost events".into(), ts_ns: 3_000, value: 17 };
    assert!(events.contains(&lost), "{events:#?}");
    assert!(events.iter().any(|event| matches!(event, TraceEvent::Thread { id, .. } if *id == THREAD)));
    assert_eq!(slices(&read(&first).0), [&slice(2_000)]);
    assert_eq!(slices(&read(&[first, second].concat()).0), [&slice(2_000), &slice(3_000)]);
}

/// A launch on a thread, and its execution on a stream's track below the process.
#[test]
fn tracks_and_flows_round_trip() {
    let mut writer = TraceWriter::new(Vec::new(), CLOCKS).unwrap();
    let launch = Slice {
        thread: THREAD,
        begin_ns: 2_000,
        end_ns: Some(2_010),
        category: "hip.launch",
        name: "hipLaunchKernel",
        annotations: &[],
    };
    writer.slice_with_flow(&launch, 77).unwrap();
    let parent = Scope::Process(PROCESS);
    let track = writer.track(&Track { parent, name: "stream 1" }).unwrap();
    assert_eq!(writer.track(&Track { parent, name: "stream 1" }).unwrap(), track);
    assert_ne!(writer.track(&Track { parent, name: "stream 2" }).unwrap(), track);
    let execution = TrackSlice {
        track,
        begin_ns: 2_500,
        end_ns: Some(3_000),
        category: "gpu",
        name: "saxpy",
        annotations: &[Annotation::new("measured", true)],
        ended_flow: Some(77),
    };
    writer.track_slice(&execution).unwrap();
    let (events, _) = read(&writer.finish().unwrap());
    assert!(
        events.contains(&TraceEvent::Track { id: track, parent, name: "stream 1".into() }),
        "{events:#?}"
    );
    let slices = slices(&events);
    assert_eq!((slices[0].flows.as_slice(), slices[0].ended_flows.as_slice()), (&[77][..], &[][..]));
    assert_eq!((slices[1].flows.as_slice(), slices[1].ended_flows.as_slice()), (&[][..], &[77][..]));
    assert_eq!((slices[1].scope, slices[1].end_ns), (Scope::Track(track), Some(3_000)));
}

/// Few stacks, with limits so small that each is forgotten and written again many times.
#[test]
fn call_stacks_round_trip() {
    let frame =
        |function: &str, library: &str| StackFrame { function: function.into(), library: library.into() };
    let stacks: Vec<Stack> = (0..7)
        .map(|number| {
            let inner = (0..number).map(|depth| frame(&format!("f{depth}"), "libinner.so"));
            inner.chain([frame("main", "app"), frame("…", "")]).collect()
        })
        .collect();
    for limits in [Limits::default(), TINY] {
        let mut writer = TraceWriter::with_limits(Vec::new(), CLOCKS, limits).unwrap();
        for number in 0..200_u64 {
            let slice = Slice {
                thread: THREAD,
                begin_ns: 2_000 + number * 10,
                end_ns: Some(2_005 + number * 10),
                category: "hip",
                name: "hipLaunchKernel",
                annotations: &[],
            };
            let flow = number.is_multiple_of(2).then_some(number + 1);
            writer.slice_with_stack(&slice, &stacks[number as usize % 7], flow).unwrap();
        }
        let (events, _) = read(&writer.finish().unwrap());
        let slices = slices(&events);
        assert_eq!(slices.len(), 200);
        for (number, slice) in slices.iter().enumerate() {
            assert_eq!(slice.stack.as_ref(), Some(&stacks[number % 7]), "{number}");
            assert_eq!(slice.flows.len(), usize::from(number % 2 == 0));
        }
    }
}

/// A typed GPU event is read as a slice of the track with its queue's name.
#[test]
fn stages_of_gpus_are_read_back_as_slices() {
    let mut writer = TraceWriter::new(Vec::new(), CLOCKS).unwrap();
    let gpu = writer.track(&Track { parent: Scope::Global, name: "GPU 0" }).unwrap();
    let queue = writer.track(&Track { parent: Scope::Track(gpu), name: "stream 1" }).unwrap();
    let annotations = [Annotation::new("pid", 41_u32), Annotation::new("timing", "measured")];
    let stage = GpuStage {
        gpu: 0,
        gpu_name: "GPU 0",
        queue: "stream 1",
        pid: 41,
        begin_ns: 2_000,
        end_ns: 2_700,
        name: "saxpy",
        annotations: &annotations,
        ended_flow: Some(9),
    };
    writer.gpu_stage(&stage).unwrap();
    let (events, _) = read(&writer.finish().unwrap());
    let expected = OwnedSlice {
        scope: Scope::Track(queue),
        begin_ns: 2_000,
        end_ns: Some(2_700),
        category: "gpu".into(),
        name: "saxpy".into(),
        annotations: vec![
            OwnedAnnotation { name: "pid".into(), value: OwnedValue::U64(41) },
            OwnedAnnotation { name: "timing".into(), value: OwnedValue::Str("measured".into()) },
        ],
        flows: vec![],
        ended_flows: vec![9],
        stack: None,
    };
    assert_eq!(slices(&events), [&expected]);
}
