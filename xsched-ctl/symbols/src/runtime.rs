//! Distinguishes copies of AMD's HIP runtime from other libraries.

use std::ffi::OsStr;
use std::path::Path;

use crate::mapping::{DELETED_MARK, Mapping};

/// Whether the file has a name of the HIP runtime: `libamdhip64.so`, `libamdhip64.so.6.2.41134`, or that of a
/// renamed copy in a Python wheel (`libamdhip64-0a1b2c3d.so.6`). The kernel marks files in memory (`memfd:NAME`) and deleted ones.
pub fn is_hip_runtime(path: &Path) -> bool {
    let Some(name) = path.file_name().map(OsStr::as_encoded_bytes) else { return false };
    let name = name.strip_prefix(b"memfd:").unwrap_or(name);
    let name = name.strip_suffix(DELETED_MARK).unwrap_or(name);
    let Some(rest) = name.strip_prefix(b"libamdhip64") else { return false };
    // `.so` is followed by nothing or a version; a file such as `libamdhip64.so.debug` is not a runtime.
    rest.windows(3).position(|part| part == b".so").is_some_and(|at| {
        let version = &rest[at + 3..];
        version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
    })
}

impl Mapping {
    /// Whether this maps a copy of the HIP runtime.
    pub fn is_hip_runtime(&self) -> bool {
        self.file.is_some() && is_hip_runtime(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runtimes() {
        for name in [
            "libamdhip64.so",
            "libamdhip64.so.5",
            "/opt/rocm/lib/libamdhip64.so.6.2.41134",
            "libamdhip64-0a1b2c3d.so.6",
            "/memfd:libamdhip64.so.6",
            "/tmp/_MEI1/libamdhip64.so.6 (deleted)",
        ] {
            assert!(is_hip_runtime(Path::new(name)), "{name}");
        }
        for name in [
            "",
            "/",
            "libamdhip64.a",
            "libhip64.so",
            "xlibamdhip64.so",
            "libamdhip64.so.debug",
            "/libamdhip64.so/x",
        ] {
            assert!(!is_hip_runtime(Path::new(name)), "{name}");
        }
    }
}
