//! Writing a timeline into memory: time and bytes for one slice as the tracer writes it for a launch.
//!
//! Memory, so that no disk is measured; the writer, its encoder and its tables are the real ones.

use std::{convert::Infallible, error::Error, hint::black_box, time::Instant};

use xsched_perfetto::{Annotation, Clocks, ProcessId, Slice, ThreadId, TraceWriter, Value};
use xsched_tests::bench::{Row, Samples, repeated};

const BENCH: &str = "export";
const ROUNDS: usize = 15;
const SLICES_PER_ROUND: u64 = 100_000;

/// The work of a busy process: few threads, kernels and libraries, every slice different.
const THREADS: u32 = 4;
const KERNELS: [&str; 3] =
    ["gemm_f16_128x128", "void vector_add<float>(float*, float const*, int)", "softmax"];
const LIBRARIES: [&str; 3] = ["librocblas.so.4", "libMIOpen.so.1", "app"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut trace = Vec::new();
    let mut bytes_per_slice = 0.0;
    let Ok(time_ns) = repeated(ROUNDS, || {
        trace.clear();
        let started = Instant::now();
        write(&mut trace);
        let elapsed_ns = started.elapsed().as_secs_f64() * 1e9;
        bytes_per_slice = black_box(&trace).len() as f64 / SLICES_PER_ROUND as f64;
        Ok::<_, Infallible>(elapsed_ns / SLICES_PER_ROUND as f64)
    });
    Row::single(BENCH, "time per slice", "ns", &time_ns).print()?;
    Row::single(BENCH, "slices a second", "1/s", &time_ns.map(|ns| 1e9 / ns)).print()?;
    // The same in every round: the trace is a function of its contents.
    Row::single(BENCH, "bytes per slice", "B", &Samples::new(vec![bytes_per_slice])).print()?;
    Ok(())
}

/// One launch every 10 us, each 5 us long, round robin over the threads.
fn write(out: &mut Vec<u8>) {
    let process = ProcessId { pid: 4711, start_ns: 1_000_000_000 };
    let clocks = Clocks { boottime_ns: 2_000_000_000, monotonic_ns: 2_000_000_000, realtime_ns: 0 };
    let mut writer = TraceWriter::new(out, clocks).expect(MEMORY);
    for launch in 0..SLICES_PER_ROUND {
        let begin_ns = clocks.boottime_ns + launch * 10_000;
        let kernel = KERNELS[launch as usize % KERNELS.len()];
        writer
            .slice(&Slice {
                thread: ThreadId { process, tid: 4711 + launch as u32 % THREADS },
                begin_ns,
                end_ns: Some(begin_ns + 5_000),
                category: "hip",
                name: "hipLaunchKernel",
                annotations: &[
                    Annotation::new("library", LIBRARIES[launch as usize % LIBRARIES.len()]),
                    Annotation::new("kernel", kernel),
                    Annotation::new("stream", Value::Pointer(0x7f00_dead_0000 + launch % 8 * 64)),
                    Annotation::new("grid", launch % 512),
                    Annotation::new("block", 256_u64),
                    Annotation::new("result", 0_i64),
                ],
            })
            .expect(MEMORY);
    }
    writer.flush().expect(MEMORY);
}

const MEMORY: &str = "memory takes every byte";
