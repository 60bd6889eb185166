//! A stripped library with a gigabyte of device code, as rocBLAS and ggml have it.
//!
//! Nothing in it names the function that calls HIP, nor the kernel: both are found only by reading what the library registers.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use xsched_tests::artifacts;

/// The size of the library's device code.
pub(crate) const DEVICE_CODE: u64 = 1 << 30;

const LINKER: &str = "clang++-19";
const OBJCOPY: &str = "llvm-objcopy-19";
const SECTION: &str = ".hip_fatbin";

/// An entry of an offload bundle besides those that the compiler has written: another device's code.
const ENTRY: &[u8] = b"hipv4-amdgcn-amd-amdhsa--gfx1201";

/// Links the library in a folder.
pub(crate) fn link(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let [compiled, bundle, object, library] =
        ["compiled", "bundle", "object.o", "liblarge_step.so"].map(|name| folder.join(name));
    let dump = format!("--dump-section={SECTION}={}", compiled.display());
    run(Command::new(OBJCOPY).arg(dump).arg(compiled_object()).arg(&object))?;
    write_larger(&fs::read(&compiled)?, &bundle)?;
    let update = format!("--update-section={SECTION}={}", bundle.display());
    run(Command::new(OBJCOPY).arg(update).arg(compiled_object()).arg(&object))?;
    fs::remove_file(&bundle)?;
    let mut linker = Command::new(LINKER);
    linker.args(["-fuse-ld=lld-19", "-shared", "-Wl,--strip-all", "-o"]).arg(&library).arg(&object);
    run(linker.arg(artifacts::hip_sim(6).join("libamdhip64.so.6")))?;
    fs::remove_file(&object)?;
    Ok(library)
}

fn compiled_object() -> PathBuf {
    artifacts::app("obj/large_step.o")
}

/// The bundle with one more entry behind the others, whose code is theirs, repeated.
fn write_larger(bundle: &[u8], to: &Path) -> Result<(), Box<dyn Error>> {
    // <https://clang.llvm.org/docs/ClangOffloadBundler.html>
    let number = |at: usize| Some(u64::from_le_bytes(bundle.get(at..at + 8)?.try_into().ok()?));
    let count = number(24).ok_or("the device code is no bundle")?;
    let mut end = 32;
    for _ in 0..count {
        end += 24 + number(end + 16).ok_or("the bundle's entries are cut")? as usize;
    }
    let mut entry = [bundle.len() as u64, DEVICE_CODE, ENTRY.len() as u64].map(u64::to_le_bytes).concat();
    entry.extend_from_slice(ENTRY);
    let mut larger = bundle.to_vec();
    larger[24..32].copy_from_slice(&(count + 1).to_le_bytes());
    // The code begins on the next page.
    let free = larger.get_mut(end..end + entry.len()).filter(|free| free.iter().all(|&byte| byte == 0));
    free.ok_or("the bundle has no space for an entry")?.copy_from_slice(&entry);
    let mut file = BufWriter::new(File::create(to)?);
    file.write_all(&larger)?;
    let mut left = DEVICE_CODE as usize;
    while left > 0 {
        let part = &bundle[..left.min(bundle.len())];
        file.write_all(part)?;
        left -= part.len();
    }
    file.flush()?;
    Ok(())
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?}: {said}"))) }
}
