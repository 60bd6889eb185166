//! Calls reach the runtime as they were made, and are counted.

use crate::fixture::{Run, Workshop, function_names, same_with_and_without, shim};

/// Functions that the shim calls instead of jumping to them (they get what their signature says, and nothing behind it), and
/// those that name their stream in a structure, which must be there.
const OBSERVED: [&str; 36] = [
    "hipLaunchKernelExC",
    "hipDrvLaunchKernelEx",
    "hipGetProcAddress",
    "hipGetProcAddress_spt",
    "hipGetDriverEntryPoint",
    "hipGetDriverEntryPoint_spt",
    "__hipRegisterFatBinary",
    "__hipRegisterFunction",
    "hipCtxCreate",
    "hipCtxPushCurrent",
    "hipCtxSetCurrent",
    "hipSetDevice",
    "hipExtStreamCreateWithCUMask",
    "hipStreamCreate",
    "hipStreamCreateWithFlags",
    "hipStreamCreateWithPriority",
    "hipModuleLoad",
    "hipModuleLoadData",
    "hipModuleLoadDataEx",
    "hipModuleLoadFatBinary",
    "hipModuleGetFunction",
    "hipGetFuncBySymbol",
    "hipLibraryLoadData",
    "hipLibraryLoadFromFile",
    "hipLibraryGetKernel",
    "hipLibraryEnumerateKernels",
    "hipKernelGetFunction",
    "hipStreamBeginCapture",
    "hipStreamBeginCapture_spt",
    "hipStreamBeginCaptureToGraph",
    "hipStreamEndCapture",
    "hipStreamEndCapture_spt",
    "hipGraphInstantiate",
    "hipGraphInstantiateWithFlags",
    "hipGraphInstantiateWithParams",
    "hipIpcOpenEventHandle",
];

#[test]
fn every_function_finds_registers_and_stack_as_its_caller_left_them() {
    let workshop = Workshop::new();
    let names: Vec<_> = function_names().into_iter().filter(|name| !OBSERVED.contains(name)).collect();
    let lines: Vec<_> =
        names.iter().enumerate().map(|(n, name)| format!("RAW({name}, {})\n", n + 1)).collect();
    std::fs::write(workshop.path("names"), lines.concat()).unwrap();
    let names_file = format!("-DNAMES=\"{}\"", workshop.path("names").display());
    let runtime = workshop.compile(
        "libamdhip64.so.6",
        &["raw_runtime.S"],
        &["-shared", "-nostdlib", "-Wl,-soname,libamdhip64.so.6", &names_file],
    );
    let client = workshop.compile(
        "client",
        &["raw_client.c"],
        &[
            "-Wl,--no-as-needed,--export-dynamic",
            &runtime.display().to_string(),
            "-Wl,-rpath,$ORIGIN",
            "-ldl",
        ],
    );

    let said = same_with_and_without(&client, &names);
    assert_eq!(said.stdout, format!("{} functions, 0 failures\n", names.len()));
    let disabled = Run::preloaded(&client).args(&names).env("XSCHED_DISABLE", "1").finish();
    assert_eq!(disabled, said, "disabled");
}

#[test]
fn structures_by_value_arrive_as_a_c_compiler_passes_them() {
    let workshop = Workshop::new();
    let said = same_with_and_without(workshop.client(), &["arguments"]);
    assert_eq!(said.status, Some(0));
    assert!(said.stdout.contains("A hipIpcOpenMemHandle"), "the runtime was reached: {}", said.stdout);
}

#[test]
fn hooks_read_the_stream_wherever_the_abi_put_it() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let log = workshop.path("log");
    Run::preloaded(client).args(["arguments"]).env("XSCHED_LOG", &log).finish();

    let summary = std::fs::read_to_string(log).unwrap();
    let (_, work) = summary.split_once("work on streams\n").unwrap();
    let (work, _) = work.split_once("  passed on").unwrap();
    let work: Vec<_> = work.lines().map(str::trim).collect();
    // Three rounds: hipLaunchKernel and hipExtLaunchKernel on a created stream, hipModuleLaunchKernel on
    // handle 2 and hipLaunchKernel_spt on null, hipLaunchKernel on null, hipMemset3DAsync on handle 1, the
    // prefetch.
    assert_eq!(
        work,
        [
            "6  kernels, per-thread stream",
            "6  kernels, created streams",
            "3  kernels, legacy null stream",
            "3  fills, legacy null stream",
            "3  memory operations, created streams",
        ]
    );
}

#[test]
fn calls_are_counted_by_name() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let said = Run::preloaded(&client).args(["counts"]).finish();
    assert!(said.stdout.contains("\n5 0 1 1\n"), "{}", said.stdout);
}

#[test]
fn calls_of_four_threads_are_all_counted() {
    let workshop = Workshop::new();
    let said = Run::preloaded(workshop.client()).args(["threads"]).finish();
    assert_eq!(said.stderr, "4000\n");
}

#[test]
fn the_summary_tells_calls_reasons_and_trouble() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let log = workshop.path("log");
    let said = Run::preloaded(&client).args(["errno"]).env("XSCHED_LOG", &log).finish();
    assert_eq!(said.stderr, "");
    let summary = std::fs::read_to_string(&log).unwrap();
    let (first, rest) = summary.split_once('\n').unwrap();
    assert!(first.ends_with("(client) made 9 calls to 5 HIP functions"), "{first}");
    // hipMalloc of this runtime calls hipStreamSynchronize.
    assert_eq!(
        rest,
        "  calls\n\
         \u{20}              3  hipStreamSynchronize (synchronise, drains)\n\
         \u{20}              3  hipMalloc (memory, passes)\n\
         \u{20}              1  __hipRegisterFatBinary (registration, observes)\n\
         \u{20}              1  __hipRegisterFunction (registration, observes)\n\
         \u{20}              1  __hipUnregisterFatBinary (registration, drains)\n\
         \u{20} work on streams\n\
         \u{20}              0  none\n\
         \u{20} passed on because\n\
         \u{20}              3  inside the runtime\n\
         \u{20}              1  nothing deferred\n\
         \u{20} trouble\n\
         \u{20}              0  none\n"
    );
}

#[test]
fn another_interposer_behind_the_shim_still_sees_the_calls() {
    let workshop = Workshop::new();
    let client = workshop.client();
    let other = workshop.compile("other.so", &["interposer.c"], &["-shared", "-ldl"]);
    let alone = Run::alone(&client).args(["counts"]).env("LD_PRELOAD", &other).finish();
    let both = format!("{}:{}", shim().display(), other.display());
    let preloaded = Run::preloaded(&client).args(["counts"]).env("LD_PRELOAD", both).finish();
    let interposed = |stdout: &str| stdout.matches("interposer").count();
    assert_eq!((interposed(&alone.stdout), interposed(&preloaded.stdout)), (5, 5));
}
