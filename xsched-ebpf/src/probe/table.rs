//! The rows of the table.

use super::Category::{Copy, Launch, Module, Register, Set, Stream, Synchronize};
use super::{Category, Param, ParamKind, Probe, Return};

const fn param(name: &'static str, kind: ParamKind, word: u8) -> Param {
    Param { name, kind, offset: word * 8 }
}

/// A field of the struct that takes the place of the stack arguments.
const fn field(name: &'static str, kind: ParamKind, offset: u8) -> Param {
    Param { name, kind, offset: 48 + offset }
}

const fn kernel(word: u8) -> Param {
    param("kernel", ParamKind::Kernel, word)
}

const fn stream(word: u8) -> Param {
    param("stream", ParamKind::Stream, word)
}

const fn bytes(word: u8) -> Param {
    param("bytes", ParamKind::Size, word)
}

const fn dst(word: u8) -> Param {
    param("dst", ParamKind::Pointer, word)
}

const fn src(word: u8) -> Param {
    param("src", ParamKind::Pointer, word)
}

const fn copy_kind(word: u8) -> Param {
    param("kind", ParamKind::CopyKind, word)
}

const fn value(word: u8) -> Param {
    param("value", ParamKind::I32, word)
}

impl Probe {
    const fn new(name: &'static str, category: Category, params: &'static [Param]) -> Self {
        Self {
            name,
            aliases: &[],
            category,
            params,
            text: None,
            out: None,
            pointee: None,
            ret: Return::Error,
        }
    }

    const fn also(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    const fn text(self, argument: u8) -> Self {
        Self { text: Some(argument), ..self }
    }

    const fn out(self, argument: u8) -> Self {
        Self { out: Some(argument), ..self }
    }

    const fn pointee(self, argument: u8) -> Self {
        Self { pointee: Some(argument), ..self }
    }

    const fn returns(self, ret: Return) -> Self {
        Self { ret, ..self }
    }
}

/// f, dim3 grid, dim3 block, args, shared memory, stream: the `dim3` take two words each.
const BY_HANDLE: &[Param] = &[
    kernel(0),
    param("grid", ParamKind::Dim3, 1),
    param("block", ParamKind::Dim3, 3),
    param("shared_bytes", ParamKind::Size, 6),
    stream(7),
];

/// As [`BY_HANDLE`], with `unsigned int` shared memory.
const COOPERATIVE: &[Param] = &[
    kernel(0),
    param("grid", ParamKind::Dim3, 1),
    param("block", ParamKind::Dim3, 3),
    param("shared_bytes", ParamKind::U32, 6),
    stream(7),
];

/// f, grid x y z, block x y z, shared memory, stream.
const BY_FUNCTION: &[Param] = &[
    kernel(0),
    param("grid", ParamKind::Dims, 1),
    param("block", ParamKind::Dims, 4),
    param("shared_bytes", ParamKind::U32, 7),
    stream(8),
];

/// f, threads x y z, block x y z, shared memory, stream.
const BY_THREADS: &[Param] = &[
    kernel(0),
    param("grid", ParamKind::Threads, 1),
    param("block", ParamKind::Dims, 4),
    param("shared_bytes", ParamKind::Size, 7),
    stream(8),
];

/// `hipLaunchConfig_t`: grid 0, block 12, shared memory 24 (size_t), stream 32.
const BY_CONFIG: &[Param] = &[
    kernel(1),
    field("grid", ParamKind::Dim3, 0),
    field("block", ParamKind::Dim3, 12),
    field("shared_bytes", ParamKind::Size, 24),
    field("stream", ParamKind::Stream, 32),
];

/// `HIP_LAUNCH_CONFIG`: as above with `unsigned int` shared memory.
const BY_DRIVER_CONFIG: &[Param] = &[
    kernel(1),
    field("grid", ParamKind::Dim3, 0),
    field("block", ParamKind::Dim3, 12),
    field("shared_bytes", ParamKind::U32, 24),
    field("stream", ParamKind::Stream, 32),
];

const MULTI_DEVICE: &[Param] = &[param("devices", ParamKind::U32, 1)];

const COPY: &[Param] = &[dst(0), src(1), bytes(2), copy_kind(3)];
const COPY_ASYNC: &[Param] = &[dst(0), src(1), bytes(2), copy_kind(3), stream(4)];
const COPY_PLAIN: &[Param] = &[dst(0), src(1), bytes(2)];
const COPY_PLAIN_ASYNC: &[Param] = &[dst(0), src(1), bytes(2), stream(3)];

const SET: &[Param] = &[dst(0), value(1), bytes(2)];
const SET_ASYNC: &[Param] = &[dst(0), value(1), bytes(2), stream(3)];
const SET_COUNT: &[Param] = &[dst(0), value(1), param("count", ParamKind::Size, 2)];
const SET_COUNT_ASYNC: &[Param] = &[dst(0), value(1), param("count", ParamKind::Size, 2), stream(3)];

/// Every function that is probed. Its index is part of the ABI between the programs and user space.
pub const PROBES: &[Probe] = &[
    Probe::new("hipLaunchKernel", Launch, BY_HANDLE),
    Probe::new("hipLaunchKernel_spt", Launch, BY_HANDLE),
    Probe::new("hipExtLaunchKernel", Launch, BY_HANDLE),
    Probe::new("hipLaunchCooperativeKernel", Launch, COOPERATIVE),
    Probe::new("hipLaunchCooperativeKernel_spt", Launch, COOPERATIVE),
    Probe::new("hipLaunchKernelExC", Launch, BY_CONFIG).pointee(0),
    Probe::new("hipDrvLaunchKernelEx", Launch, BY_DRIVER_CONFIG).pointee(0),
    Probe::new("hipModuleLaunchKernel", Launch, BY_FUNCTION),
    Probe::new("hipModuleLaunchCooperativeKernel", Launch, BY_FUNCTION),
    // Up to ROCm 6.0 the two below exist as C++ symbols only.
    Probe::new("hipExtModuleLaunchKernel", Launch, BY_THREADS).also(&[
        "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j",
    ]),
    Probe::new("hipHccModuleLaunchKernel", Launch, BY_THREADS).also(&[
        "_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_",
    ]),
    Probe::new("hipLaunchByPtr", Launch, &[kernel(0)]),
    Probe::new("hipLaunchCooperativeKernelMultiDevice", Launch, MULTI_DEVICE),
    Probe::new("hipExtLaunchMultiKernelMultiDevice", Launch, MULTI_DEVICE),
    Probe::new("hipModuleLaunchCooperativeKernelMultiDevice", Launch, MULTI_DEVICE),
    Probe::new("hipGraphLaunch", Launch, &[param("graph", ParamKind::Pointer, 0), stream(1)]),
    Probe::new("hipGraphLaunch_spt", Launch, &[param("graph", ParamKind::Pointer, 0), stream(1)]),
    Probe::new("hipMemcpy", Copy, COPY),
    Probe::new("hipMemcpy_spt", Copy, COPY),
    Probe::new("hipMemcpyAsync", Copy, COPY_ASYNC),
    Probe::new("hipMemcpyAsync_spt", Copy, COPY_ASYNC),
    Probe::new("hipMemcpyWithStream", Copy, COPY_ASYNC),
    Probe::new("hipMemcpyHtoD", Copy, COPY_PLAIN),
    Probe::new("hipMemcpyHtoDAsync", Copy, COPY_PLAIN_ASYNC),
    Probe::new("hipMemcpyDtoH", Copy, COPY_PLAIN),
    Probe::new("hipMemcpyDtoHAsync", Copy, COPY_PLAIN_ASYNC),
    Probe::new("hipMemcpyDtoD", Copy, COPY_PLAIN),
    Probe::new("hipMemcpyDtoDAsync", Copy, COPY_PLAIN_ASYNC),
    Probe::new("hipMemset", Set, SET),
    Probe::new("hipMemset_spt", Set, SET),
    Probe::new("hipMemsetAsync", Set, SET_ASYNC),
    Probe::new("hipMemsetAsync_spt", Set, SET_ASYNC),
    Probe::new("hipMemsetD8", Set, SET_COUNT),
    Probe::new("hipMemsetD8Async", Set, SET_COUNT_ASYNC),
    Probe::new("hipMemsetD16", Set, SET_COUNT),
    Probe::new("hipMemsetD16Async", Set, SET_COUNT_ASYNC),
    Probe::new("hipMemsetD32", Set, SET_COUNT),
    Probe::new("hipMemsetD32Async", Set, SET_COUNT_ASYNC),
    Probe::new("hipModuleLoad", Module, &[]).text(1).out(0),
    Probe::new("hipModuleLoadData", Module, &[param("image", ParamKind::Pointer, 1)]).out(0),
    Probe::new("hipModuleLoadDataEx", Module, &[param("image", ParamKind::Pointer, 1)]).out(0),
    Probe::new("hipModuleUnload", Module, &[param("module", ParamKind::Pointer, 0)]),
    Probe::new("hipModuleGetFunction", Module, &[param("module", ParamKind::Pointer, 1)]).text(2).out(0),
    Probe::new("hipGetFuncBySymbol", Module, &[kernel(1)]).out(0),
    Probe::new("__hipRegisterFatBinary", Register, &[]).returns(Return::Pointer),
    Probe::new("__hipRegisterFunction", Register, &[param("handle", ParamKind::Pointer, 1)])
        .text(3)
        .returns(Return::Void),
    Probe::new("hipStreamCreate", Stream, &[]).out(0),
    Probe::new("hipStreamCreateWithFlags", Stream, &[param("flags", ParamKind::U32, 1)]).out(0),
    Probe::new(
        "hipStreamCreateWithPriority",
        Stream,
        &[param("flags", ParamKind::U32, 1), param("priority", ParamKind::I32, 2)],
    )
    .out(0),
    Probe::new("hipStreamDestroy", Stream, &[stream(0)]),
    Probe::new("hipStreamSynchronize", Synchronize, &[stream(0)]),
    Probe::new("hipStreamSynchronize_spt", Synchronize, &[stream(0)]),
    Probe::new("hipDeviceSynchronize", Synchronize, &[]),
];
