//! HIP: signatures, and what is left out.

use std::collections::HashMap;

use xsched_protocol::probe::{ParamKind, Runtime};

use crate::{Api, Signature};

pub(crate) const API: Api = Api {
    runtime: Runtime::Hip,
    signatures,
    error: "hipError_t",
    stream: "hipStream_t",
    words_on_stack,
    fits,
    left_out: &LEFT_OUT,
};

fn signatures() -> HashMap<String, Signature> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/hip-api.tsv");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let columns: Vec<_> = line.split('\t').collect();
            let [_, _, name, _, ret, params] = columns[..] else { panic!("six columns: {line}") };
            let params = params.split(',').map(str::trim).filter(|param| !matches!(*param, "" | "void"));
            (name.to_owned(), Signature { ret: ret.to_owned(), params: params.map(param_type).collect() })
        })
        .collect()
}

/// `const void* ptr` -> `void*`: the type without its parameter's name and without `const`.
fn param_type(param: &str) -> String {
    let end = param.rfind(['*', ' ']).unwrap();
    param[..=end].replace("const ", "").trim().to_owned()
}

/// Words of a struct that is passed on the stack because it is larger than 16 bytes.
fn words_on_stack(c_type: &str) -> Option<usize> {
    match c_type.trim_start_matches("struct ") {
        "hipPitchedPtr" => Some(4),
        "hipExtent" => Some(3),
        "hipIpcMemHandle_t" | "hipIpcEventHandle_t" => Some(8),
        _ => None,
    }
}

/// Types that are pointers under another name.
const HANDLES: [&str; 17] = [
    "hipArray_const_t",
    "hipArray_t",
    "hipCtx_t",
    "hipDeviceptr_t",
    "hipEvent_t",
    "hipExternalMemory_t",
    "hipGraphExec_t",
    "hipGraphNode_t",
    "hipGraph_t",
    "hipHostFn_t",
    "hipLibrary_t",
    "hipMemGenericAllocationHandle_t",
    "hipMemPool_t",
    "hipMipmappedArray_t",
    "hipModule_t",
    "hipStreamCallback_t",
    "hipFunction_t",
];

fn fits(kind: ParamKind, c_type: &str) -> bool {
    match kind {
        ParamKind::Kernel => matches!(c_type, "void*" | "hipFunction_t" | "hipKernel_t"),
        ParamKind::Dim3 => c_type == "dim3",
        ParamKind::Dims | ParamKind::Threads => matches!(c_type, "unsigned int" | "uint32_t"),
        ParamKind::Stream => c_type == "hipStream_t",
        ParamKind::Pointer => c_type.ends_with('*') || HANDLES.contains(&c_type),
        ParamKind::Size => matches!(c_type, "size_t" | "uint64_t"),
        ParamKind::U32 => {
            matches!(c_type, "unsigned int" | "unsigned" | "uint32_t" | "int" | "hipStreamCaptureMode")
        }
        ParamKind::I32 => matches!(c_type, "int" | "hipDevice_t" | "unsigned short" | "unsigned char"),
        ParamKind::CopyKind => c_type == "hipMemcpyKind",
    }
}

/// Functions that are not probed, with the reason.
const LEFT_OUT: [(&[&str], &str); 12] = [
    (
        &["hip*Get*", "hipDeviceCanAccessPeer", "hipChooseDevice*"],
        "answers from the host's own state; submits nothing to a device",
    ),
    (
        &[
            "hipStreamGetCaptureInfo",
            "hipStreamGetCaptureInfo_spt",
            "hipStreamGetCaptureInfo_v2",
            "hipStreamGetCaptureInfo_v2_spt",
            "hipStreamGetDevice",
            "hipStreamGetFlags",
            "hipStreamGetFlags_spt",
            "hipStreamGetId",
            "hipStreamGetPriority",
            "hipStreamGetPriority_spt",
            "hipStreamIsCapturing",
            "hipStreamIsCapturing_spt",
            "hipExtStreamGetCUMask",
            "hipStreamGetAttribute",
            "hipGetStreamDeviceId",
        ],
        "asks about a stream without waiting for it",
    ),
    (&["hipApiName", "hipKernelNameRef", "hipKernelNameRefByPtr"], "gives a name"),
    (
        &["hipConfigureCall", "hipSetupArgument", "__hipPushCallConfiguration", "__hipPopCallConfiguration"],
        "prepares a launch, whose own record has all of it",
    ),
    (
        &["__hipRegisterManagedVar", "__hipRegisterSurface", "__hipRegisterTexture", "__hipRegisterVar"],
        "registers a variable",
    ),
    (
        &["hip*Texture*", "hipTex*", "hipCreateSurfaceObject", "hipDestroySurfaceObject"],
        "describes memory to kernels; the memory itself is recorded",
    ),
    (
        &[
            "hipGraph*SetParams*",
            "hipGraph*SetEvent",
            "hipGraph*Dependencies",
            "hipGraphKernelNode*Attribute*",
            "hipGraphDebugDotPrint",
            "hipGraphNodeFindInClone",
            "hipDrvGraphMemcpyNodeSetParams",
            "hipThreadExchangeStreamCaptureMode",
            "hip*UserObject*",
        ],
        "changes a graph before it is executable, but not how many nodes it has",
    ),
    (
        &[
            "hip*Set*Config",
            "hipFuncSetAttribute",
            "hipKernelSetAttribute",
            "hip*SetLimit",
            "hipDevicePrimaryCtxSetFlags",
        ],
        "a setting of the host for later launches",
    ),
    (
        &["hip*SetMemPool", "hip*SetAttribute", "hipDeviceSetGraphMemAttribute"],
        "a setting of the host for later allocations",
    ),
    (
        &["hip*Shareable*", "hipMemPool*Pointer", "hipMemPoolSetAccess", "hipMemRetainAllocationHandle"],
        "passes a handle on; its use is recorded",
    ),
    (
        &["hip*ExternalSemaphore", "hipGraphics*egister*", "hipOccupancy*", "hipModuleOccupancy*"],
        "host work only",
    ),
    (
        &[
            "hipCreateChannelDesc",
            "hipDeviceComputeCapability",
            "hipDeviceTotalMem",
            "hipExt*Logging*",
            "hipLibraryEnumerateKernels",
            "hipLink*",
            "hipPeekAtLastError",
        ],
        "host work only",
    ),
];
