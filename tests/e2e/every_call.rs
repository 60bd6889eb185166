//! Every HIP call of a program is in the timeline with its arguments, however the program calls it.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, hip_sim};
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{run, xsched_ctl};

/// Calls through `ctypes`. Each is checked for success, so that a missing call is the tracer's fault.
const PRELUDE: &str = r"
import ctypes as c
hip = c.CDLL('LIBRARY')
def must(name, *words):
    status = getattr(hip, name)(*words)
    assert status == 0, (name, status)
def new(name, *words):
    handle = c.c_void_p()
    must(name, c.byref(handle), *words)
    return handle
z = c.c_size_t
";

fn traced(trace: &Path, script: &str) {
    let library = hip_sim(7).join("libamdhip64.so.7");
    let script = PRELUDE.replace("LIBRARY", library.to_str().unwrap()) + script;
    let outcome = run(xsched_ctl(["trace", "-o"]).arg(trace).arg("--").args(["python3", "-c", &script]));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("calls lost"), "{}", outcome.stderr);
}

/// A call with its arguments in the order of the table: `width=64 height=4`.
#[derive(Debug, Deserialize)]
struct Row {
    name: String,
    arguments: Option<String>,
}

/// All calls, in order of time, each as `name argument=value ..` without addresses.
fn lines(trace: &Path) -> Vec<String> {
    let mut sql = Sql::open(trace).unwrap();
    sql.assert_clean();
    let rows: Vec<Row> = sql
        .query_as(
            "select s.name, (
                select group_concat(substr(key, 7) || '=' || display_value, ' ') from args a
                where a.arg_set_id = s.arg_set_id and key glob 'debug.*'
                and substr(key, 7) in ('bytes', 'width', 'height', 'depth', 'value', 'kind', 'stream', 'flags',
                    'priority', 'device', 'dst_device', 'src_device', 'name', 'nodes', 'kernels')
             ) as arguments
             from slice s where category glob 'hip.*' order by ts",
        )
        .unwrap();
    rows.into_iter()
        .map(|row| {
            let arguments = row.arguments.unwrap_or_default();
            let shown: Vec<_> = arguments.split(' ').filter(|word| !word.contains("=0x")).collect();
            format!("{} {}", row.name, shown.join(" ")).trim_end().to_owned()
        })
        .collect()
}

#[needs(ROOT)]
fn copies_and_fills_of_every_shape_have_their_extents() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    traced(
        &trace,
        r"
class Pitched(c.Structure): _fields_ = [(n, z) for n in ('ptr', 'pitch', 'xsize', 'ysize')]
class Extent(c.Structure): _fields_ = [(n, z) for n in ('width', 'height', 'depth')]
class Box(c.Structure):
    _fields_ = [('src_array', z), ('src_pos', Extent), ('src', Pitched), ('dst_array', z), ('dst_pos', Extent),
                ('dst', Pitched), ('extent', Extent), ('kind', c.c_int)]
class Driver2D(c.Structure):
    _fields_ = [(n, z) for n in ('sx', 'sy', 'st', 'sh', 'sd', 'sa', 'sp', 'dx', 'dy', 'dt', 'dh', 'dd', 'da', 'dp',
                'width', 'height')]
a, b = new('hipMalloc', z(1 << 16)), new('hipMalloc', z(1 << 16))
must('hipMemset2D', a, z(256), 7, z(100), z(5))
must('hipMemset3D', Pitched(a.value, 256, 256, 8), 9, Extent(120, 6, 3))
must('hipMemsetD2D32', a, z(256), 1, z(32), z(4))
must('hipMemcpy2D', b, z(256), a, z(256), z(96), z(8), 3)
must('hipMemcpy2DAsync', b, z(256), a, z(256), z(48), z(2), 3, None)
box = Box(src=Pitched(a.value, 256, 256, 8), dst=Pitched(b.value, 256, 256, 8), extent=Extent(64, 5, 2), kind=3)
must('hipMemcpy3D', c.byref(box))
must('hipMemcpy3DAsync', c.byref(box), None)
flat = Driver2D(st=2, sd=a.value, sp=256, dt=2, dd=b.value, dp=256, width=40, height=9)
must('hipMemcpyParam2D', c.byref(flat))
must('hipMemcpyPeer', b, 0, a, 0, z(4096))
must('hipMemcpy_spt', b, a, z(123), 3)
must('hipDeviceSynchronize')
must('hipFree', a)
",
    );
    let lines = lines(&trace);
    let expected = [
        "hipMalloc bytes=65536",
        "hipMalloc bytes=65536",
        "hipMemset2D value=7 width=100 height=5",
        "hipMemset3D value=9 width=120 height=6 depth=3",
        "hipMemsetD2D32 value=1 width=32 height=4",
        "hipMemcpy2D width=96 height=8 kind=device to device",
        "hipMemcpy2DAsync width=48 height=2 kind=device to device stream=null",
        "hipMemcpy3D width=64 height=5 depth=2 kind=device to device",
        "hipMemcpy3DAsync width=64 height=5 depth=2 kind=device to device stream=null",
        "hipMemcpyParam2D width=40 height=9",
        "hipMemcpyPeer dst_device=0 src_device=0 bytes=4096",
        "hipMemcpy_spt bytes=123 kind=device to device",
        "hipDeviceSynchronize",
        "hipFree",
    ];
    assert_eq!(lines, expected);
}

#[needs(ROOT)]
fn streams_events_and_host_functions_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    traced(
        &trace,
        r"
must('hipSetDevice', 0)
s, t = new('hipStreamCreate'), new('hipStreamCreateWithPriority', 1, -1)
e, f = new('hipEventCreateWithFlags', 0), new('hipEventCreate')
must('hipEventRecord', e, s)
must('hipStreamWaitEvent', t, e, 0)
called = c.CFUNCTYPE(None, c.c_void_p)(lambda argument: None)
must('hipLaunchHostFunc', t, called, None)
must('hipEventRecord', f, t)
must('hipEventSynchronize', f)
must('hipEventQuery', f)
must('hipStreamQuery', t)
ms = c.c_float()
must('hipEventElapsedTime', c.byref(ms), e, f)
p = new('hipMallocAsync', z(512), s)
must('hipFreeAsync', p, s)
must('hipStreamSynchronize', s)
must('hipStreamDestroy', s)
must('hipEventDestroy', e)
must('hipDeviceReset')
",
    );
    let expected = [
        "hipSetDevice device=0",
        "hipStreamCreate",
        "hipStreamCreateWithPriority flags=1 priority=-1",
        "hipEventCreateWithFlags flags=0",
        "hipEventCreate",
        "hipEventRecord",
        "hipStreamWaitEvent flags=0",
        "hipLaunchHostFunc",
        "hipEventRecord",
        "hipEventSynchronize",
        "hipEventQuery",
        "hipStreamQuery",
        "hipEventElapsedTime",
        "hipMallocAsync bytes=512",
        "hipFreeAsync",
        "hipStreamSynchronize",
        "hipStreamDestroy",
        "hipEventDestroy",
        "hipDeviceReset",
    ];
    assert_eq!(lines(&trace), expected);
}

#[needs(ROOT)]
fn functions_reached_by_hip_get_proc_address_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    traced(
        &trace,
        r"
def found(name, flags=0):
    address = c.c_void_p()
    must('hipGetProcAddress', name, c.byref(address), 600, c.c_uint64(flags), None)
    return c.CFUNCTYPE(c.c_int)(address.value)
synchronize = found(b'hipDeviceSynchronize')
for i in range(3): assert synchronize() == 0
",
    );
    let expected = [
        "hipGetProcAddress name=hipDeviceSynchronize",
        "hipDeviceSynchronize",
        "hipDeviceSynchronize",
        "hipDeviceSynchronize",
    ];
    assert_eq!(lines(&trace), expected);
}

#[needs(ROOT)]
fn graph_launches_show_how_many_kernels_they_start() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let module = app("obj").join("vector_add.co");
    let script = r"
m = new('hipModuleLoad', b'MODULE')
f = new('hipModuleGetFunction', m, b'vector_add')
s, t = new('hipStreamCreateWithFlags', 1), new('hipStreamCreateWithFlags', 1)
fork, join = new('hipEventCreate'), new('hipEventCreate')
p, size = new('hipMalloc', z(4096)), z(512)
memory = c.create_string_buffer(512)
# HIP_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, END
extra = (c.c_void_p * 5)(1, c.cast(memory, c.c_void_p), 2, c.cast(c.pointer(size), c.c_void_p), 3)
def launch(stream, count):
    for i in range(count): must('hipModuleLaunchKernel', f, 1, 1, 1, 64, 1, 1, 0, stream, None, extra)
def executable(graph):
    return new('hipGraphInstantiate', graph, None, None, z(0))
must('hipStreamBeginCapture', s, 0)
launch(s, 3)
must('hipEventRecord', fork, s)
must('hipStreamWaitEvent', t, fork, 0)
launch(t, 2)
must('hipMemsetAsync', p, 0, z(4096), t)
must('hipEventRecord', join, t)
must('hipStreamWaitEvent', s, join, 0)
captured = c.c_void_p()
must('hipStreamEndCapture', s, c.byref(captured))
nodes = z()
must('hipGraphGetNodes', captured, None, c.byref(nodes))
assert nodes.value == 6, nodes.value
must('hipGraphLaunch', executable(captured), s)
outer = new('hipGraphCreate', 0)
for i in range(2): new('hipGraphAddChildGraphNode', outer, None, z(0), captured)
new('hipGraphAddEmptyNode', outer, None, z(0))
must('hipGraphLaunch', executable(outer), s)
must('hipStreamSynchronize', s)
must('hipModuleUnload', m)
# It must not be called any more, and its name is unknown too.
assert hip.hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, s, None, extra) != 0
";
    traced(&trace, &script.replace("MODULE", module.to_str().unwrap()));
    let mut sql = Sql::open(&trace).unwrap();
    let graphs = sql
        .query(
            "select extract_arg(arg_set_id, 'debug.kernels') as kernels,
                extract_arg(arg_set_id, 'debug.nodes') as nodes
             from slice where name = 'hipGraphLaunch' order by ts",
        )
        .unwrap();
    let counts: Vec<_> = graphs.iter().map(|row| (row["kernels"].as_i64(), row["nodes"].as_i64())).collect();
    assert_eq!(counts, [(Some(5), Some(6)), (Some(10), Some(13))]);
    let kernels = sql
        .query(
            "select extract_arg(arg_set_id, 'debug.kernel') as kernel
             from slice where name = 'hipModuleLaunchKernel' order by ts",
        )
        .unwrap();
    let kernels: Vec<_> = kernels.iter().map(|row| row["kernel"].as_str().unwrap()).collect();
    assert_eq!(kernels.len(), 6);
    assert!(kernels[..5].iter().all(|kernel| *kernel == "vector_add"), "{kernels:?}");
    assert!(kernels[5].starts_with("0x"), "{kernels:?}");
}

fn main() -> ExitCode {
    xsched_harness::main()
}
