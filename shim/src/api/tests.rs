//! The list against `tests/data/hip-api.tsv`, which was taken from AMD's sources.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;

use super::*;
use crate::abi::{Passed, Ret};

const HIP_API: &str = include_str!("../../../tests/data/hip-api.tsv");

/// Up to ROCm 6.0 these two are exported under their C++ names only. The compiler of the runtime made the
/// names, and they contain the types of the arguments.
const CXX_NAMES: [(&str, &str); 2] = [
    (
        "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j",
        "hipExtModuleLaunchKernel",
    ),
    (
        "_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_",
        "hipHccModuleLaunchKernel",
    ),
];

/// What both sides say about a function.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Described {
    slot: String,
    /// None: the shim reads none of them.
    args: Option<Vec<Passed>>,
    ret: Option<Passed>,
}

macro_rules! describe_all {
    ($($family:ident {
        $($class:ident $table:ident $($index:literal)? fn $name:ident($(..)? $($arg:ident: $ty:ty),*) -> $ret:ty;)*
    })*) => {
        vec![$($((
            stringify!($name),
            Described {
                slot: stringify!($table $($index)?).to_owned(),
                args: (stringify!($class) != "passes").then(|| vec![$(passed::<$ty>()),*]),
                ret: <$ret as Ret>::PASSED,
            },
        )),*),*]
    };
}

fn passed<T: crate::abi::Arg>() -> Passed {
    T::PASSED
}

fn list() -> BTreeMap<String, Described> {
    for_each_function!(describe_all)
        .into_iter()
        .map(|(name, described)| (name.to_owned(), described))
        .collect()
}

/// The same from the file, which spells C types.
fn file() -> BTreeMap<String, Described> {
    let rows = HIP_API.lines().map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [table, index, name, _version, ret, args] = fields[..] else { panic!("six fields in {line:?}") };
        let args = args.split(", ").filter(|arg| !arg.is_empty() && *arg != "void");
        let args = args.map(|arg| of_c_type(without_name(arg)).unwrap_or_else(|| panic!("a value in {arg}")));
        (
            name.to_owned(),
            Described { slot: format!("{table} {index}"), args: Some(args.collect()), ret: of_c_type(ret) },
        )
    });
    rows.collect()
}

/// `const void* src` is a `const void*`.
fn without_name(arg: &str) -> &str {
    arg.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').trim()
}

/// HIP's enumerations that functions take by value.
const ENUMERATIONS: &str = "
    hipError_t hipFuncCache_t hipLimit_t hipDeviceAttribute_t hipGLDeviceList hipArray_Format
    hipChannelFormatKind hipDeviceP2PAttr hipFuncAttribute hipFunction_attribute hipGraphMemAttributeType
    hipJitInputType hipKernelNodeAttrID hipMemAllocationGranularity_flags hipMemAllocationHandleType
    hipMemAllocationType hipMemPoolAttr hipMemRangeAttribute hipMemRangeHandleType hipMemcpyKind
    hipMemoryAdvise hipPointer_attribute hipSharedMemConfig hipStreamAttrID hipStreamCaptureMode
    hipTextureAddressMode hipTextureFilterMode
";

/// How C passes a type; None for `void`.
fn of_c_type(c_type: &str) -> Option<Passed> {
    let name = c_type.trim_start_matches("const ").trim_start_matches("struct ").trim_start_matches("enum ");
    Some(match name {
        "void" => return None,
        "float" => Passed::Float(4),
        "unsigned char" => Passed::Word(1),
        "unsigned short" => Passed::Word(2),
        "int" | "unsigned" | "unsigned int" | "uint32_t" | "GLenum" | "GLuint" | "hipDevice_t" => {
            Passed::Word(4)
        }
        "size_t" | "uint64_t" | "unsigned long long" | "hipMemLocation" => Passed::Word(8),
        "dim3" => Passed::Pair(12),
        "hipChannelFormatDesc" => Passed::Memory(20),
        "hipExtent" => Passed::Memory(24),
        "hipPitchedPtr" => Passed::Memory(32),
        "hipIpcMemHandle_t" | "hipIpcEventHandle_t" => Passed::Memory(64),
        _ if ENUMERATIONS.split_whitespace().any(|enumeration| enumeration == name) => Passed::Word(4),
        // A pointer, or one of HIP's opaque handles.
        _ if name.ends_with('*') || name.starts_with("hip") && name.ends_with("_t") => Passed::Word(8),
        _ => panic!("unknown C type {c_type:?}"),
    })
}

#[test]
fn the_list_matches_the_sources() {
    let mut expected = file();
    for (cxx_name, name) in CXX_NAMES {
        let described = Described { slot: "symbol".to_owned(), ..expected[name].clone() };
        expected.insert(cxx_name.to_owned(), described);
    }
    let described = list();

    let names: BTreeSet<_> = described.keys().collect();
    assert_eq!(names, expected.keys().collect(), "functions");
    for (name, mut expected) in expected {
        if TABLE[find(&CString::new(name.as_str()).unwrap()).unwrap()].class == Class::passes {
            expected.args = None;
        }
        assert_eq!(described[&name], expected, "{name}");
    }
}

#[test]
fn every_name_is_listed_once() {
    assert_eq!(list().len(), COUNT);
}

#[test]
fn functions_are_found_by_name() {
    let launch = find(c"hipLaunchKernel").unwrap();
    assert_eq!(launch, Id::hipLaunchKernel as usize);
    assert_eq!(TABLE[launch].name, c"hipLaunchKernel");
    assert_eq!(find(c"hipLaunchKerne"), None);
}

#[test]
fn per_thread_names_say_so() {
    let per_thread = TABLE.iter().filter(|function| function.null_stream_is_per_thread).count();
    assert_eq!(per_thread, HIP_API.lines().filter(|line| line.contains("_spt\t")).count());
    assert!(TABLE[Id::hipLaunchKernel_spt as usize].null_stream_is_per_thread);
    assert!(!TABLE[Id::hipLaunchKernel as usize].null_stream_is_per_thread);
}
