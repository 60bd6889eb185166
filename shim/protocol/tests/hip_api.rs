//! The table of probed functions agrees with HIP's signatures (`tests/data/hip-api.tsv`).

#![expect(clippy::unwrap_used, reason = "a test panics with the step that failed")]

use std::collections::HashMap;

use wildmatch::WildMatch;
use xsched_protocol::probe::Return;
use xsched_protocol::probe::{PROBES, ParamKind, Pointee, Probe};

/// A function's return type and the types of its parameters.
struct Signature {
    ret: String,
    params: Vec<String>,
}

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

/// The words in which each parameter is passed: six registers, then the stack; `dim3` takes two of them.
fn words(signature: &Signature) -> HashMap<usize, &str> {
    const REGISTERS: usize = 6;
    let (mut register, mut stack) = (0, REGISTERS);
    let mut words = HashMap::new();
    for param in &signature.params {
        let size = if param == "dim3" { 2 } else { 1 };
        let (at, size) = match words_on_stack(param) {
            None if register + size <= REGISTERS => (&mut register, size),
            None => (&mut stack, size),
            Some(size) => {
                for word in 0..size {
                    words.insert(stack + word, "size_t");
                }
                (&mut stack, size)
            }
        };
        words.entry(*at).or_insert(param.as_str());
        *at += size;
    }
    words
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

fn check(probe: &Probe, signature: &Signature) {
    let name = probe.name;
    let words = words(signature);
    for param in probe.params {
        let word = usize::from(param.offset / 8);
        if probe.pointee.is_some() && word >= 6 {
            // A field of a struct, whose layout is not in the list.
            continue;
        }
        let count = if matches!(param.kind, ParamKind::Dims | ParamKind::Threads) { 3 } else { 1 };
        for word in word..word + count {
            let c_type = words.get(&word).unwrap_or_else(|| panic!("{name}: nothing starts at word {word}"));
            assert!(fits(param.kind, c_type), "{name}: {} is a `{c_type}`, not {:?}", param.name, param.kind);
        }
    }
    let argument = |index: Option<u8>| index.map(|index| words[&usize::from(index)]);
    assert!(argument(probe.text).is_none_or(|c_type| c_type == "char*"), "{name}: text");
    assert!(argument(probe.out).is_none_or(|c_type| c_type.ends_with('*')), "{name}: out");
    let pointee = probe.pointee.map(|pointee| pointee.argument).filter(|&index| index != Pointee::STACK);
    assert!(argument(pointee).is_none_or(|c_type| c_type.ends_with('*')), "{name}: pointee");
    let ret = match probe.ret {
        Return::Error => "hipError_t",
        Return::Pointer => "void**",
        Return::Void => "void",
    };
    assert_eq!(signature.ret, ret, "{name}");
}

#[test]
fn every_probe_reads_what_its_function_is_passed() {
    let signatures = signatures();
    for probe in PROBES {
        let signature = signatures.get(probe.name).unwrap_or_else(|| panic!("HIP has no `{}`", probe.name));
        check(probe, signature);
    }
}

#[test]
fn every_function_of_hip_is_probed_or_left_out_for_a_reason() {
    let is_probed = |name: &str| PROBES.iter().any(|probe| probe.name == name);
    let mut unused: Vec<_> = LEFT_OUT.iter().flat_map(|(patterns, _)| patterns.iter().copied()).collect();
    let mut forgotten = Vec::new();
    for (name, signature) in signatures().into_iter().filter(|(name, _)| !is_probed(name)) {
        let pattern = LEFT_OUT.iter().flat_map(|(patterns, _)| patterns.iter()).find(|pattern| {
            // A function that takes a stream is left out only by its own name.
            let is_by_name = !pattern.contains('*');
            let is_ordered = signature.params.iter().any(|param| param == "hipStream_t");
            WildMatch::new(pattern).matches(&name) && (is_by_name || !is_ordered)
        });
        match pattern {
            Some(pattern) => unused.retain(|unused| unused != pattern),
            None => forgotten.push(name),
        }
    }
    forgotten.sort();
    assert!(forgotten.is_empty(), "neither probed nor left out: {forgotten:#?}");
    assert!(unused.is_empty(), "left out, but HIP has no such function: {unused:?}");
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

#[test]
fn no_function_is_probed_twice() {
    let mut names: Vec<_> =
        PROBES.iter().flat_map(|probe| probe.aliases.iter().copied().chain([probe.name])).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
