//! CUDA: signatures of what `libcuda` exports by the headers of CUDA 13.0, and what is left out.

use std::collections::HashMap;

use xsched_protocol::probe::{ParamKind, Runtime};

use crate::{Api, Signature};

pub(crate) const API: Api = Api {
    runtime: Runtime::Cuda,
    signatures,
    error: "CUresult",
    stream: "CUstream",
    words_on_stack,
    fits,
    left_out: &LEFT_OUT,
};

fn signatures() -> HashMap<String, Signature> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/cuda-api.tsv");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let (name, params) = line.split_once('\t').unwrap();
            let params = params.split(", ").filter(|param| !param.is_empty()).map(str::to_owned);
            (name.to_owned(), Signature { ret: "CUresult".to_owned(), params: params.collect() })
        })
        .collect()
}

fn words_on_stack(c_type: &str) -> Option<usize> {
    matches!(c_type, "CUipcMemHandle" | "CUipcEventHandle").then_some(8)
}

/// Types that are as large as a pointer, under another name.
const HANDLES: [&str; 16] = [
    "CUarray",
    "CUcontext",
    "CUdeviceptr",
    "CUevent",
    "CUexternalMemory",
    "CUgraph",
    "CUgraphExec",
    "CUgraphNode",
    "CUgreenCtx",
    "CUhostFn",
    "CUlibrary",
    "CUmemGenericAllocationHandle",
    "CUmemoryPool",
    "CUmipmappedArray",
    "CUmodule",
    "CUstreamCallback",
];

fn fits(kind: ParamKind, c_type: &str) -> bool {
    match kind {
        ParamKind::Kernel => matches!(c_type, "CUfunction" | "CUkernel"),
        ParamKind::Dims => c_type == "unsigned int",
        ParamKind::Stream => c_type == "CUstream",
        ParamKind::Pointer => c_type.ends_with('*') || HANDLES.contains(&c_type),
        ParamKind::Size => matches!(c_type, "size_t" | "cuuint64_t"),
        ParamKind::U32 => matches!(c_type, "unsigned int" | "cuuint32_t" | "CUstreamCaptureMode"),
        ParamKind::I32 => matches!(c_type, "int" | "CUdevice" | "unsigned short" | "unsigned char"),
        ParamKind::Dim3 | ParamKind::Threads | ParamKind::CopyKind => false,
    }
}

/// Functions that are not probed, with the reason.
const LEFT_OUT: [(&[&str], &str); 10] = [
    (
        &[
            "cu*Get*",
            "cuDeviceCanAccessPeer",
            "cuDeviceComputeCapability",
            "cuDeviceTotalMem*",
            "cuFuncIsLoaded",
            "cu*Enumerate*",
            "cuOccupancy*",
        ],
        "answers from the host's own state; submits nothing to a device",
    ),
    (
        &[
            "cuStreamGetAttribute",
            "cuStreamGetAttribute_ptsz",
            "cuStreamGetCaptureInfo",
            "cuStreamGetCaptureInfo_ptsz",
            "cuStreamGetCaptureInfo_v2",
            "cuStreamGetCaptureInfo_v2_ptsz",
            "cuStreamGetCaptureInfo_v3",
            "cuStreamGetCaptureInfo_v3_ptsz",
            "cuStreamGetCtx",
            "cuStreamGetCtx_ptsz",
            "cuStreamGetCtx_v2",
            "cuStreamGetCtx_v2_ptsz",
            "cuStreamGetDevice",
            "cuStreamGetDevice_ptsz",
            "cuStreamGetFlags",
            "cuStreamGetFlags_ptsz",
            "cuStreamGetId",
            "cuStreamGetId_ptsz",
            "cuStreamGetPriority",
            "cuStreamGetPriority_ptsz",
            "cuStreamGetGreenCtx",
            "cuStreamIsCapturing",
            "cuStreamIsCapturing_ptsz",
        ],
        "asks about a stream without waiting for it",
    ),
    (
        &[
            "cuArray3DCreate",
            "cuArrayCreate",
            "cuMemAlloc",
            "cuMemAllocHost",
            "cuMemAllocPitch",
            "cuMemFree",
            "cuMemcpy2D",
            "cuMemcpy2DAsync",
            "cuMemcpy2DUnaligned",
            "cuMemcpy3D",
            "cuMemcpy3DAsync",
            "cuMemcpyAtoA",
            "cuMemcpyAtoD",
            "cuMemcpyAtoH",
            "cuMemcpyAtoHAsync",
            "cuMemcpyDtoA",
            "cuMemcpyDtoD",
            "cuMemcpyDtoDAsync",
            "cuMemcpyDtoH",
            "cuMemcpyDtoHAsync",
            "cuMemcpyHtoA",
            "cuMemcpyHtoAAsync",
            "cuMemcpyHtoD",
            "cuMemcpyHtoDAsync",
            "cuMemsetD16",
            "cuMemsetD2D16",
            "cuMemsetD2D32",
            "cuMemsetD2D8",
            "cuMemsetD32",
            "cuMemsetD8",
        ],
        "of CUDA 3.1 and before, with addresses of 32 bits",
    ),
    (
        &[
            "cuCtxAttach",
            "cuCtxCreate",
            "cuCtxDestroy",
            "cuCtxDetach",
            "cuCtxPopCurrent",
            "cuCtxPushCurrent",
            "cuDevicePrimaryCtxRelease",
            "cuDevicePrimaryCtxReset",
            "cuDevicePrimaryCtxSetFlags",
            "cuEventDestroy",
            "cuIpcOpenMemHandle",
            "cuMemHostRegister",
            "cuStreamBeginCapture",
            "cuStreamBeginCapture_ptsz",
            "cuStreamDestroy",
        ],
        "what programs called that were built with CUDA 10 and before; the version that replaced it is probed",
    ),
    (
        &[
            "cuParamSet*",
            "cuFuncSet*",
            "cuFuncLoad",
            "cuKernelSet*",
            "cuCtxSet*Config",
            "cuCtxSetFlags",
            "cuCtxSetLimit",
            "cuCtxResetPersistingL2Cache",
        ],
        "a setting of the host for later launches",
    ),
    (&["cuTex*", "cuSurf*", "cuTensorMap*"], "describes memory to kernels; the memory itself is recorded"),
    (
        &[
            "cuGraph*NodeSetParams*",
            "cuGraph*SetEvent",
            "cuGraph*Dependencies*",
            "cuGraphKernelNode*Attribute*",
            "cuGraphConditionalHandleCreate",
            "cuGraphDebugDotPrint",
            "cuGraphNodeFindInClone",
            "cuThreadExchangeStreamCaptureMode",
            "cu*UserObject*",
        ],
        "changes a graph before it is executable, but not how many nodes it has",
    ),
    (
        &["cu*SetMemPool", "cu*SetAttribute", "cuDeviceSetGraphMemAttribute", "cuMemPoolSetAccess"],
        "a setting of the host for later allocations",
    ),
    (
        &["cu*Shareable*", "cuMemPool*Pointer", "cuMemRetainAllocationHandle", "cuMulticast*"],
        "passes a handle on or shares it; its use is recorded",
    ),
    (
        &[
            "cu*ExternalSemaphore",
            "cuGraphics*egister*",
            "cuGraphicsResourceSetMapFlags*",
            "cuLink*",
            "cuLogs*",
            "cuCheckpoint*",
            "cuCoredump*",
            "cuDev*Resource*",
            "cuDevice*AsyncNotification",
            "cuFlushGPUDirectRDMAWrites",
            "cuProfilerInitialize",
        ],
        "host work only",
    ),
];
