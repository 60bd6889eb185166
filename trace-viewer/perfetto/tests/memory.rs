//! The memory that writing and reading a long trace takes, measured at the allocator.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    io,
};

use xsched_perfetto::{
    Annotation, Clocks, Limits, ProcessId, Slice, ThreadId, TraceReader, TraceWriter, Value,
};

/// Counts the allocations of each thread by itself: those of the test harness are none of the test's.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn grow(bytes: usize) {
    CALLS.set(CALLS.get() + 1);
    LIVE_BYTES.set(LIVE_BYTES.get() + bytes as i64);
    PEAK_BYTES.set(PEAK_BYTES.get().max(LIVE_BYTES.get()));
}

// SAFETY: every call goes to `System` with unchanged arguments, and counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps `GlobalAlloc`'s promises about `layout`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get() - layout.size() as i64);
        // SAFETY: the caller keeps `GlobalAlloc`'s promises, and every block came from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CLOCKS: Clocks = Clocks { boottime_ns: 1, monotonic_ns: 1, realtime_ns: 1 };
const LIMITS: Limits = Limits { interned_bytes: 1 << 20, interned_count: 4_096, track_count: 1_024 };

fn slice<W: io::Write>(writer: &mut TraceWriter<W>, at: u64, tid: u32, kernel: &str) {
    let annotations = [
        Annotation::new("kernel", kernel),
        Annotation::new("stream", Value::Pointer(at)),
        Annotation::new("bytes", at),
    ];
    let process = ProcessId { pid: 100, start_ns: 1 };
    let slice = Slice {
        thread: ThreadId { process, tid },
        begin_ns: at,
        end_ns: Some(at + 5),
        category: "hip",
        name: "hipLaunchKernel",
        annotations: &annotations,
    };
    writer.slice(&slice).expect("the sink takes everything");
}

/// The peak of live bytes while `work` runs, beyond those that were live before.
fn peak_growth(work: impl FnOnce()) -> i64 {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    work();
    PEAK_BYTES.get() - before
}

#[test]
fn memory_is_bounded() {
    // The steady state of a tracer: known threads, known kernels.
    let mut writer = TraceWriter::with_limits(io::sink(), CLOCKS, LIMITS).unwrap();
    let kernels: Vec<_> = (0..100).map(|number| format!("kernel<{number}>{}", "x".repeat(1_000))).collect();
    let mut steady = |from: u64, count: u64| {
        for at in from..from + count {
            slice(&mut writer, at * 10, 100 + (at % 7) as u32, &kernels[(at % 100) as usize]);
        }
    };
    steady(0, 1_000);
    let before = CALLS.get();
    steady(1_000, 100_000);
    assert_eq!(CALLS.get() - before, 0, "allocations in 100,000 slices");

    // The worst case: each slice has a new thread and a new kernel.
    let growth = peak_growth(|| {
        let mut writer = TraceWriter::with_limits(io::sink(), CLOCKS, LIMITS).unwrap();
        for at in 0..100_000 {
            slice(&mut writer, at * 10, at as u32, &format!("kernel<{at}>"));
        }
        assert!(writer.bytes_written() > 10 << 20, "far more than may be kept");
    });
    // 1 MiB of text; 4,096 entries and 1,024 tracks at less than 100 and 400 bytes with their tables.
    assert!(growth < 2 << 20, "peak {growth} bytes");

    // Huge texts are cut to 16 KiB each, and the tables exceed their limit by one packet at most.
    let growth = peak_growth(|| {
        let mut writer = TraceWriter::with_limits(io::sink(), CLOCKS, LIMITS).unwrap();
        for at in 0..1_000 {
            slice(&mut writer, at * 10, 1, &format!("{at}{}", "x".repeat(100_000)));
        }
    });
    assert!(growth < 2 << 20, "peak {growth} bytes");

    // Reading back is bounded by the writer's limits.
    let mut writer = TraceWriter::with_limits(Vec::new(), CLOCKS, LIMITS).unwrap();
    for at in 0..100_000 {
        slice(&mut writer, at * 10, 1 + (at % 7) as u32, &format!("kernel<{at}>"));
    }
    let trace = writer.finish().unwrap();
    assert!(trace.len() > 8 << 20, "{}", trace.len());
    // Beside the slices: clocks, the counter of lost events, the process, seven threads.
    let growth = peak_growth(|| {
        assert_eq!(TraceReader::new(&*trace).flatten().count(), 100_000 + 10);
    });
    assert!(growth < 2 << 20, "peak {growth} bytes");
}
