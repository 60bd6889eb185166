//! Distinguishes copies of GPU runtimes, and shims, from other libraries.

use std::ffi::OsStr;
use std::path::Path;

use xsched_protocol::probe::Runtime;

use crate::mapping::{DELETED_MARK, Mapping};

/// The runtime of which a file has the name: `libamdhip64.so`, `libamdhip64.so.6.2.41134`, that of a renamed copy in a
/// Python wheel (`libamdhip64-0a1b2c3d.so.6`); `libcuda.so.1`, `libcuda.so.580.95.05`. The kernel marks files in memory
/// (`memfd:NAME`) and deleted ones.
pub fn runtime_of(path: &Path) -> Option<Runtime> {
    let name = path.file_name().map(OsStr::as_encoded_bytes)?;
    let name = name.strip_prefix(b"memfd:").unwrap_or(name);
    let name = name.strip_suffix(DELETED_MARK).unwrap_or(name);
    Runtime::ALL.into_iter().find(|runtime| is_copy_of(*runtime, name))
}

/// Beginning of the file names of all shims.
const SHIM: &[u8] = b"libxsched_";

/// Whether a file has the name of a shim.
pub fn is_shim(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(SHIM))
}

fn is_copy_of(runtime: Runtime, name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(runtime.library().as_bytes()) else { return false };
    // Wheels contain HIP, which may be redistributed, and never CUDA's driver library. `libcudart` is another library.
    if runtime == Runtime::Cuda && !rest.starts_with(b".") {
        return false;
    }
    // `.so` is followed by nothing or a version; a file such as `libamdhip64.so.debug` is not a runtime.
    rest.windows(3).position(|part| part == b".so").is_some_and(|at| {
        let version = &rest[at + 3..];
        version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
    })
}

impl Mapping {
    /// The runtime of which this maps a copy.
    pub fn runtime(&self) -> Option<Runtime> {
        self.file.and_then(|_| runtime_of(&self.path))
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
            assert_eq!(runtime_of(Path::new(name)), Some(Runtime::Hip), "{name}");
        }
        for name in
            ["libcuda.so", "/usr/lib64/libcuda.so.1", "libcuda.so.580.95.05", "/x/libcuda.so.1 (deleted)"]
        {
            assert_eq!(runtime_of(Path::new(name)), Some(Runtime::Cuda), "{name}");
        }
        for name in [
            "",
            "/",
            "libamdhip64.a",
            "libhip64.so",
            "xlibamdhip64.so",
            "libamdhip64.so.debug",
            "/libamdhip64.so/x",
            "libcuda.a",
            "libcuda-0a1b2c3d.so.1",
            "libcudart.so.13",
            "libcudadebugger.so.1",
            "libcuda.so.1.debug",
        ] {
            assert_eq!(runtime_of(Path::new(name)), None, "{name}");
        }
    }
}
