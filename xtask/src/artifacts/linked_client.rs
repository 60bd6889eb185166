//! The field kit's minimal client, linked with the simulated runtime by the crate `hip-runtime-sys`.
//!
//! ```text
//! <target>/hip-linked/include -> Debian's libamdhip64-dev     what the crate takes for an installed ROCm
//! <target>/hip-linked/lib     -> <target>/hip-sim/6
//! <target>/debug/examples/linked_client
//! ```

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::workspace::Workspace;
use crate::{clients, command};

/// Brings it up to date. Without headers there is none; its test then reports that.
pub(super) fn build(workspace: &Workspace) -> Result<()> {
    let headers = clients::hip_headers(&workspace.target_dir);
    if !headers.join("hip/hip_runtime_api.h").exists() {
        eprintln!("going on without the linked client: no HIP headers in {}", headers.display());
        return Ok(());
    }
    let rocm = workspace.target_dir.join("hip-linked");
    fs::create_dir_all(&rocm).with_context(|| format!("failed to create {}", rocm.display()))?;
    link(&headers, &rocm.join("include"))?;
    link(&workspace.target_dir.join("hip-sim/6"), &rocm.join("lib"))?;
    let mut build = command::cargo(&workspace.root);
    build.args([
        "build",
        "--package",
        "xsched-field",
        "--features",
        "hip-runtime-sys",
        "--example",
        "linked_client",
    ]);
    command::run(build.env("HIP_PATH", &rocm))
}

/// A link that leads there, whether there is one already or not.
fn link(to: &Path, at: &Path) -> Result<()> {
    if fs::read_link(at).is_ok_and(|present| present == to) {
        return Ok(());
    }
    let _ = fs::remove_file(at);
    symlink(to, at).with_context(|| format!("failed to link {}", at.display()))
}
