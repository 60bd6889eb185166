//! Checks the hand-declared schema against Perfetto's complete one, in both directions.
//!
//! The complete schema takes a minute to build, so all tests that need it are in this file.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::io;

use perfetto_protos::{
    debug_annotation::{DebugAnnotation, debug_annotation::Value as FullValue},
    trace::Trace,
    trace_packet::{TracePacket, trace_packet::Data},
    track_descriptor::TrackDescriptor,
    track_event::{TrackEvent, track_event::Type},
};
use protobuf::Message;
use xsched_perfetto::{
    Annotation, Clocks, CounterTrack, GpuStage, Instant, Limits, OwnedSlice, OwnedValue, Process, ProcessId,
    Scope, Slice, Stack, StackFrame, ThreadId, TraceEvent, TraceReader, TraceWriter, Track, TrackSlice, Unit,
    Value,
};

const CLOCKS: Clocks =
    Clocks { boottime_ns: 1_000, monotonic_ns: 900, realtime_ns: 1_700_000_000_000_000_000 };
const PROCESS: ProcessId = ProcessId { pid: 41, start_ns: 500 };
const THREAD: ThreadId = ThreadId { process: PROCESS, tid: 42 };

/// A trace with every kind of packet that the writer can write.
fn write_everything<W: io::Write>(out: W) -> W {
    let mut writer = TraceWriter::new(out, CLOCKS).unwrap();
    writer.process(&Process { id: PROCESS, name: "python3", cmdline: &["python3", "-c", "1"] }).unwrap();
    writer.thread(THREAD, "worker").unwrap();
    let annotations = [
        Annotation::new("kernel", "saxpy"),
        Annotation::new("u64", u64::MAX),
        Annotation::new("i64", i64::MIN),
        Annotation::new("f64", 0.5),
        Annotation::new("pointer", Value::Pointer(0xdead)),
        Annotation::new("bool", true),
    ];
    let slice = Slice {
        thread: THREAD,
        begin_ns: 2_000,
        end_ns: Some(3_000),
        category: "hip",
        name: "hipLaunchKernel",
        annotations: &annotations,
    };
    writer.slice_with_flow(&slice, 7).unwrap();
    let scope = Scope::Process(PROCESS);
    let track = writer.track(&Track { parent: scope, name: "stream" }).unwrap();
    let execution = TrackSlice {
        track,
        begin_ns: 3_100,
        end_ns: Some(3_200),
        category: "gpu",
        name: "saxpy",
        annotations: &[],
        ended_flow: Some(7),
    };
    writer.track_slice(&execution).unwrap();
    let bytes = writer.counter_track(&CounterTrack { scope, name: "memory", unit: Unit::Bytes }).unwrap();
    writer.counter(bytes, 4_000, -7).unwrap();
    writer
        .instant(&Instant { scope, ts_ns: 4_500, category: "hip", name: "mark", annotations: &[] })
        .unwrap();
    writer.gap(5_000, 17, "ring buffer full", &[]).unwrap();
    let frame =
        |function: &str, library: &str| StackFrame { function: function.into(), library: library.into() };
    let stack: Stack = [frame("gemm", "librocblas.so"), frame("main", "python3")].into();
    writer.slice_with_stack(&Slice { begin_ns: 6_000, end_ns: Some(6_050), ..slice }, &stack, None).unwrap();
    let stage = GpuStage {
        gpu: 1,
        gpu_name: "GPU 1",
        queue: "stream",
        pid: 41,
        begin_ns: 6_100,
        end_ns: 6_300,
        name: "saxpy",
        annotations: &annotations[..2],
        ended_flow: Some(8),
    };
    writer.gpu_stage(&stage).unwrap();
    writer.finish().unwrap()
}

/// Checks field numbers, types, flags and order at once, with Perfetto's text format of a whole trace. Fields that this
/// version of the schema does not know are shown as numbers: 14 and 15, `TrackDescriptor.description` and
/// `.sibling_merge_behavior`, and 56, `TrackEvent.callstack_iid`.
#[test]
fn a_trace_in_perfettos_text_format() {
    let trace = Trace::parse_from_bytes(&write_everything(Vec::new())).unwrap();
    let text = protobuf::text_format::print_to_string_pretty(&trace);
    let expected = include_str!("decode/everything.textproto");
    assert_eq!(text, expected, "the trace is now:\n{text}");
}

/// Records each write.
#[derive(Default)]
struct Writes(Vec<Vec<u8>>);

impl io::Write for Writes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_write_consists_of_whole_packets() {
    let writes = write_everything(Writes::default()).0;
    assert!(writes.len() > 5);
    for write in &writes {
        let packets = Trace::parse_from_bytes(write).unwrap().packet;
        assert!(!packets.is_empty());
        let begins =
            packets.iter().filter(|packet| packet.track_event().type_() == Type::TYPE_SLICE_BEGIN).count();
        let ends =
            packets.iter().filter(|packet| packet.track_event().type_() == Type::TYPE_SLICE_END).count();
        assert_eq!(begins, ends, "begin and end of a slice are one write");
    }
}

/// A packet may only refer to texts that were defined after the last `SEQ_INCREMENTAL_STATE_CLEARED`.
#[test]
fn interned_texts_are_always_defined_before_use() {
    let limits = Limits { interned_bytes: 200, interned_count: 10, track_count: 2 };
    let mut writer = TraceWriter::with_limits(Vec::new(), CLOCKS, limits).unwrap();
    for number in 0..500_u64 {
        let kernel = format!("kernel {}", number % 40);
        writer
            .slice(&Slice {
                thread: ThreadId { process: PROCESS, tid: (number % 5) as u32 },
                begin_ns: 10 * number,
                end_ns: Some(10 * number + 5),
                category: "hip",
                name: "hipLaunchKernel",
                annotations: &[Annotation::new("kernel", kernel.as_str())],
            })
            .unwrap();
        if number % 100 == 99 {
            writer.gap(10 * number, 1, "test", &[]).unwrap();
        }
    }
    let trace = Trace::parse_from_bytes(&writer.finish().unwrap()).unwrap();

    let (mut names, mut values) = (Vec::new(), Vec::new());
    let (mut cleared, mut dropped, mut kernels) = (0, 0, Vec::new());
    for packet in &trace.packet {
        if packet.sequence_flags() & 1 != 0 {
            cleared += 1;
            names.clear();
            values.clear();
            assert_eq!(packet.trace_packet_defaults.timestamp_clock_id(), 6, "defaults are repeated");
        }
        if packet.previous_packet_dropped() {
            dropped += 1;
            assert_eq!(packet.sequence_flags(), 3, "a loss clears the state in the same packet");
        }
        assert_eq!(packet.sequence_flags() & 2, 2);
        names
            .extend(packet.interned_data.event_names.iter().map(|name| (name.iid(), name.name().to_owned())));
        values.extend(packet.interned_data.debug_annotation_string_values.iter().cloned());
        assert!(names.len() + values.len() <= 10 + 4, "limits pass by one packet at most");
        let event = packet.track_event();
        if event.has_name_iid() {
            assert!(names.iter().any(|(iid, _)| *iid == event.name_iid()), "{packet}");
        }
        for annotation in
            event.debug_annotations.iter().filter(|annotation| annotation.has_string_value_iid())
        {
            let value = values.iter().find(|value| value.iid() == annotation.string_value_iid());
            kernels.push(String::from_utf8(value.expect("defined").str().to_vec()).unwrap());
        }
    }
    kernels.retain(|text| text != "test");
    assert_eq!(kernels, (0..500).map(|number| format!("kernel {}", number % 40)).collect::<Vec<_>>());
    assert!(cleared > 20, "{cleared}");
    assert_eq!(dropped, 5);
}

/// Features that other producers use and this writer does not: inline texts, several sequences, other kinds of packets.
#[test]
fn traces_of_other_producers_are_read() {
    let mut track = TrackDescriptor::new();
    track.set_uuid(7);
    track.thread.mut_or_insert_default().set_pid(41);
    track.thread.mut_or_insert_default().set_tid(42);
    let mut described = TracePacket::new();
    described.set_track_descriptor(track);

    let mut annotation = DebugAnnotation::new();
    annotation.set_name("note".into());
    annotation.value = Some(FullValue::StringValue("inline".into()));
    let event = |event_type, ts_ns| {
        let mut event = TrackEvent::new();
        event.set_track_uuid(7);
        event.set_type(event_type);
        let mut packet = TracePacket::new();
        packet.set_timestamp(ts_ns);
        packet.set_trusted_packet_sequence_id(9);
        packet.data = Some(Data::TrackEvent(event));
        packet
    };
    let mut begin = event(Type::TYPE_SLICE_BEGIN, 100);
    begin.mut_track_event().set_name("outer".into());
    begin.mut_track_event().categories.push("other".into());
    begin.mut_track_event().debug_annotations.push(annotation);
    let end = event(Type::TYPE_SLICE_END, 200);
    let unmatched_end = end.clone();
    let mut on_another_clock = event(Type::TYPE_INSTANT, 300);
    on_another_clock.set_timestamp_clock_id(64);
    let mut needs_lost_state = event(Type::TYPE_INSTANT, 400);
    needs_lost_state.set_sequence_flags(2);
    let mut another_kind = TracePacket::new();
    another_kind.mut_trace_uuid().set_msb(1);

    let mut trace = Trace::new();
    trace.packet =
        vec![another_kind, described, begin, end, unmatched_end, on_another_clock, needs_lost_state];
    let bytes = trace.write_to_bytes().unwrap();
    let mut reader = TraceReader::new(&*bytes);
    let events: Vec<_> = reader.by_ref().collect::<Result<_, _>>().unwrap();

    let id = ThreadId { process: ProcessId { pid: 41, start_ns: 0 }, tid: 42 };
    let slice = OwnedSlice {
        scope: Scope::Thread(id),
        begin_ns: 100,
        end_ns: Some(200),
        category: "other".into(),
        name: "outer".into(),
        annotations: vec![xsched_perfetto::OwnedAnnotation {
            name: "note".into(),
            value: OwnedValue::Str("inline".into()),
        }],
        flows: vec![],
        ended_flows: vec![],
        stack: None,
    };
    assert_eq!(events, [TraceEvent::Thread { id, name: None }, TraceEvent::Slice(slice)]);
    assert_eq!(reader.skipped(), 3, "the unmatched end, the other clock, the lost state");
}
