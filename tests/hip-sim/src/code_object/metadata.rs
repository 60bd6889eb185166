//! The metadata of AMD's code objects, versions 3 to 6: kernels and their arguments.
//!
//! Field names are those of LLVM's [User Guide for AMDGPU Backend](https://llvm.org/docs/AMDGPUUsage.html),
//! section "Code Object Metadata".

use std::ffi::CString;

use serde::Deserialize;

use super::error::CodeObjectError;
use crate::kernel::{Argument, Kernel, Resources};
use crate::twin::Twin;

/// Limit of threads in a block for a kernel that states none.
const DEFAULT_MAX_THREADS: u32 = 1024;

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "amdhsa.kernels", default)]
    kernels: Vec<KernelMetadata>,
}

#[derive(Deserialize)]
struct KernelMetadata {
    #[serde(rename = ".name")]
    name: String,
    #[serde(rename = ".args", default)]
    arguments: Vec<ArgumentMetadata>,
    #[serde(rename = ".max_flat_workgroup_size")]
    max_flat_workgroup_size: Option<u32>,
    #[serde(rename = ".group_segment_fixed_size", default)]
    group_segment_fixed_size: usize,
    #[serde(rename = ".private_segment_fixed_size", default)]
    private_segment_fixed_size: usize,
    #[serde(rename = ".vgpr_count", default)]
    vgpr_count: u32,
}

#[derive(Deserialize)]
struct ArgumentMetadata {
    #[serde(rename = ".offset")]
    offset: usize,
    #[serde(rename = ".size")]
    size: usize,
    #[serde(rename = ".value_kind")]
    value_kind: String,
}

/// The kernels in a metadata note.
pub(super) fn kernels(note: &[u8]) -> Result<Vec<Kernel>, CodeObjectError> {
    let metadata: Metadata =
        rmp_serde::from_slice(note).map_err(|e| CodeObjectError::Malformed(e.to_string()))?;
    metadata.kernels.into_iter().map(kernel).collect()
}

fn kernel(metadata: KernelMetadata) -> Result<Kernel, CodeObjectError> {
    let name = CString::new(metadata.name).map_err(|e| CodeObjectError::Malformed(e.to_string()))?;
    // Hidden arguments follow the explicit ones and come from the runtime.
    let explicit = metadata.arguments.into_iter().filter(|a| !a.value_kind.starts_with("hidden_"));
    Ok(Kernel {
        name,
        arguments: explicit.map(|a| Argument { offset: a.offset, size: a.size }).collect(),
        max_threads_per_block: metadata.max_flat_workgroup_size.unwrap_or(DEFAULT_MAX_THREADS),
        lds_size: metadata.group_segment_fixed_size,
        resources: Resources {
            scratch_size: metadata.private_segment_fixed_size,
            vector_registers: metadata.vgpr_count,
        },
        twin: Twin::default(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;

    use super::*;

    #[derive(Serialize)]
    #[serde(untagged)]
    enum Value {
        Number(u64),
        Text(&'static str),
        List(Vec<Value>),
        Map(BTreeMap<&'static str, Value>),
    }

    fn argument(offset: u64, size: u64, kind: &'static str) -> Value {
        let fields = [
            (".offset", Value::Number(offset)),
            (".size", Value::Number(size)),
            (".value_kind", Value::Text(kind)),
            (".address_space", Value::Text("global")),
        ];
        Value::Map(fields.into())
    }

    #[test]
    fn explicit_arguments_are_read_and_hidden_ones_skipped() {
        let arguments = vec![
            argument(0, 8, "global_buffer"),
            argument(8, 24, "by_value"),
            argument(32, 4, "hidden_block_count_x"),
        ];
        let kernel = [(".name", Value::Text("add")), (".args", Value::List(arguments))];
        let root = [("amdhsa.kernels", Value::List(vec![Value::Map(kernel.into())]))];
        let note = rmp_serde::to_vec_named(&Value::Map(root.into())).unwrap();

        let kernels = kernels(&note).unwrap();
        assert_eq!(kernels[0].name(), "add");
        assert_eq!(kernels[0].arguments, [Argument { offset: 0, size: 8 }, Argument { offset: 8, size: 24 }]);
        assert_eq!(kernels[0].max_threads_per_block, 1024);
    }

    #[test]
    fn a_note_that_is_no_metadata_is_malformed() {
        assert!(matches!(kernels(&[0xc1]), Err(CodeObjectError::Malformed(_))));
    }
}
