//! The list against all functions of libcuda, by the headers of CUDA 13.0.

use std::collections::HashMap;

use super::*;

/// Functions that go past the shim although something is deferred, with the reason. `*` stands for anything.
const HARMLESS: [(&[&str], &str); 6] = [
    (
        &[
            "cuInit",
            "cuDriverGetVersion",
            "cu*Get*",
            "cuDeviceCanAccessPeer",
            "cuDeviceComputeCapability",
            "cuDeviceTotalMem*",
            "cuDevice*AsyncNotification",
            "cuDev*Resource*",
            "cuOccupancy*",
            "cuFuncIsLoaded",
            "cuFuncLoad",
            "cu*Enumerate*",
            "cuStreamIsCapturing*",
            "cuLogs*",
            "cuCoredumpSet*",
            "cuProfilerInitialize",
        ],
        "tells what no launch changes, or changes what no launch uses",
    ),
    (
        &[
            "cuCtxAttach",
            "cuCtxCreate*",
            "cuCtxFromGreenCtx",
            "cuCtxPopCurrent*",
            "cuCtxPushCurrent*",
            "cuCtxSetCurrent",
            "cuThreadExchangeStreamCaptureMode",
        ],
        "a setting of the calling thread: a deferred launch has its context",
    ),
    (
        &["cuEventCreate", "cuEventDestroy*", "cuEventElapsedTime*", "cuEventQuery", "cuEventSynchronize"],
        "events are recorded behind what was launched, never behind what is deferred",
    ),
    (
        &[
            "cuLibraryLoad*",
            "cuModuleLoad*",
            "cuLink*",
            "cuMemAlloc",
            "cuMemAlloc_v2",
            "cuMemAllocHost*",
            "cuMemAllocManaged",
            "cuMemAllocPitch*",
            "cuMemHostAlloc",
            "cuMemHostRegister*",
            "cuMemAddressReserve",
            "cuMemCreate",
            "cuMemMap",
            "cuMemPoolCreate",
            "cuMulticastCreate",
            "cuMulticastAddDevice",
            "cuArray*Create*",
            "cuMipmappedArrayCreate",
            "cuTexObjectCreate",
            "cuTexRefCreate",
            "cuSurfObjectCreate",
            "cuTensorMap*",
        ],
        "makes something new, which no launch that is deferred can use",
    ),
    (
        &["cuMem*Shareable*", "cuMemPool*Pointer", "cuMemRetainAllocationHandle", "cuImport*", "cuIpcOpen*"],
        "shares memory, or holds on to it",
    ),
    (
        &[
            "cuGraphAdd*",
            "cuGraphClone",
            "cuGraphConditionalHandleCreate",
            "cuGraphCreate",
            "cuGraphDebugDotPrint",
            "cuGraphDestroy",
            "cuGraphDestroyNode",
            "cuGraphNodeFindInClone",
            "cuGraphRemoveDependencies*",
            "cuGraph*UserObject",
            "cuUserObject*",
            "cuGraphBatchMemOpNode*",
            "cuGraphEventRecordNode*",
            "cuGraphEventWaitNode*",
            "cuGraphExternalSemaphores*",
            "cuGraphHostNode*",
            "cuGraphKernelNode*",
            "cuGraphMemcpyNode*",
            "cuGraphMemsetNode*",
            "cuGraphNodeSetParams",
        ],
        "a graph that is not executable: executable ones do not depend on it",
    ),
];

fn is_harmless(name: &str) -> bool {
    let matches = |pattern: &str| {
        let mut parts = pattern.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let mut is_open = false;
        for part in parts {
            is_open = part.is_empty();
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.is_empty() || is_open
    };
    HARMLESS.iter().flat_map(|(patterns, _)| *patterns).any(|pattern| matches(pattern))
}

/// Numbers of arguments by name.
fn functions() -> HashMap<String, usize> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/cuda-api.tsv");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().map(|line| {
        let (name, parameters) = line.split_once('\t').unwrap();
        (name.to_owned(), parameters.split(", ").filter(|parameter| !parameter.is_empty()).count())
    });
    rows.collect()
}

#[test]
fn every_function_is_listed_or_harmless_to_what_is_deferred() {
    let listed: Vec<_> = NAMES.iter().map(|name| name.to_str().unwrap()).collect();
    let all = functions();
    let mut missing: Vec<_> =
        all.keys().filter(|name| !listed.contains(&name.as_str()) && !is_harmless(name)).collect();
    missing.sort();
    assert_eq!(missing, [""; 0], "each may see, change or take away what a deferred launch uses");
    let unknown: Vec<_> = listed.iter().filter(|name| !all.contains_key(**name)).collect();
    assert_eq!(unknown, [&""; 0]);
}

#[test]
fn functions_have_as_many_arguments_as_libcudas() {
    let all = functions();
    for (name, arguments) in NAMES.iter().zip(ARGUMENTS) {
        assert_eq!(all[name.to_str().unwrap()], *arguments, "{}", name.to_str().unwrap());
    }
}
