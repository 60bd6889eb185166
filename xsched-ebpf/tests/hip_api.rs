//! The table of probed functions agrees with HIP's signatures (`tests/data/hip-api.tsv`).

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::collections::HashMap;

use xsched_abi::probe::Return;
use xsched_abi::{PROBES, ParamKind, Probe};

/// A function's return type and the types of its parameters.
struct Signature {
    ret: String,
    params: Vec<String>,
}

fn signatures() -> HashMap<String, Signature> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/hip-api.tsv");
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

/// The words in which each parameter is passed: six registers, then the stack; `dim3` takes two of them.
fn words(signature: &Signature) -> HashMap<usize, &str> {
    let mut at = 0;
    let mut words = HashMap::new();
    for param in &signature.params {
        words.insert(at, param.as_str());
        let size = if param == "dim3" { 2 } else { 1 };
        assert!(at + size <= 6 || size == 1, "a struct is not split between registers and the stack");
        at += size;
    }
    words
}

fn fits(kind: ParamKind, c_type: &str) -> bool {
    match kind {
        ParamKind::Kernel => matches!(c_type, "void*" | "hipFunction_t"),
        ParamKind::Dim3 => c_type == "dim3",
        ParamKind::Dims | ParamKind::Threads => matches!(c_type, "unsigned int" | "uint32_t"),
        ParamKind::Stream => c_type == "hipStream_t",
        ParamKind::Pointer => {
            c_type.ends_with('*') || matches!(c_type, "hipModule_t" | "hipDeviceptr_t" | "hipGraphExec_t")
        }
        ParamKind::Size => c_type == "size_t",
        ParamKind::U32 => matches!(c_type, "unsigned int" | "uint32_t" | "int"),
        ParamKind::I32 => matches!(c_type, "int" | "unsigned short" | "unsigned char"),
        ParamKind::CopyKind => c_type == "hipMemcpyKind",
    }
}

fn check(probe: &Probe, signature: &Signature) {
    let name = probe.name;
    let words = words(signature);
    for param in probe.params {
        let word = usize::from(param.offset / 8);
        if probe.pointee.is_some() && word >= 6 {
            // A field of a struct, whose layout the list does not have.
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
    assert!(argument(probe.out).is_none_or(|c_type| c_type.ends_with("_t*")), "{name}: out");
    assert!(argument(probe.pointee).is_none_or(|c_type| c_type.ends_with('*')), "{name}: pointee");
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
fn every_launch_of_hip_is_probed() {
    let launches = signatures().into_keys().filter(|name| {
        (name.contains("Launch") && !name.contains("Graph") && !name.contains("HostFunc"))
            || name.starts_with("hipGraphLaunch")
    });
    let missing: Vec<_> = launches.filter(|name| !PROBES.iter().any(|probe| probe.name == name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_function_is_probed_twice() {
    let mut names: Vec<_> =
        PROBES.iter().flat_map(|probe| probe.aliases.iter().copied().chain([probe.name])).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
