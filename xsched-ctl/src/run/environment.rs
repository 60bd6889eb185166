//! The environment of a command, and whether the shim can be preloaded into it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use xsched_terminal::say;

use super::RunError;

/// The environment variable that carries the token to the shim, which removes it from there.
pub(super) const TOKEN_VARIABLE: &str = "XSCHED_TOKEN";

const SHIM_FILE: &str = "libxsched_shim.so";
/// The shim for CUDA, beside the other one. It must come first: a `dlsym` of its own leads on to the other's.
const CUDA_SHIM_FILE: &str = "libxsched_cuda.so";
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// The options of AddressSanitizer, and the one without which a program that is linked with its library does not start, because
/// the shim comes before that. The shim replaces nothing that the library does, so their order does not matter.
pub(super) const SANITIZER_VARIABLE: &str = "ASAN_OPTIONS";
const SANITIZER_OPTION: &str = "verify_asan_link_order";

/// Identifies the processes of a command: 128 random bits.
pub(super) struct Token([u8; 16]);

impl Token {
    pub(super) fn draw() -> io::Result<Self> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The requested shim, or the one that belongs to this executable.
pub(super) fn find_shim(asked: Option<&Path>) -> Result<PathBuf, RunError> {
    let candidates = match asked {
        Some(asked) => vec![asked.to_owned()],
        None => usual_places(),
    };
    let found = candidates.iter().find_map(|path| std::fs::canonicalize(path).ok());
    let Some(shim) = found else {
        return Err(RunError::NoShim(candidates.into_iter().next().unwrap_or_else(|| SHIM_FILE.into())));
    };
    if !is_elf(&shim) {
        return Err(RunError::NotAShim(shim));
    }
    if shim.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b' ')) {
        return Err(RunError::ShimPath(shim));
    }
    Ok(shim)
}

/// Whether the file is ELF at all; otherwise the loader would complain in every started program.
fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok_and(|()| magic == *b"\x7fELF")
}

fn usual_places() -> Vec<PathBuf> {
    let executable = env::current_exe().unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new("."));
    ["", "../lib", "../lib/xsched"].iter().map(|place| folder.join(place).join(SHIM_FILE)).collect()
}

/// The new value of `LD_PRELOAD`: the present one, and the shims. Which runtime a command uses is not known, and a shim does nothing
/// in a program that does not use its runtime.
pub(super) fn preload(shim: &Path) -> OsString {
    with_shims(env::var_os(PRELOAD_VARIABLE), shim)
}

/// Why no process gets the shim for CUDA, if that is so.
pub(super) fn why_without_cuda(shim: &Path) -> Option<String> {
    let cuda = shim.with_file_name(CUDA_SHIM_FILE);
    (!is_elf(&cuda)).then(|| format!("{} is not there; it must be beside the shim for HIP", cuda.display()))
}

fn with_shims(existing: Option<OsString>, shim: &Path) -> OsString {
    let cuda = shim.with_file_name(CUDA_SHIM_FILE);
    if !is_elf(&cuda) {
        return appended(existing, shim);
    }
    // In this order, whatever is there already.
    let is_shim = |path: &&[u8]| [&cuda, shim].iter().any(|shim| shim.as_os_str().as_bytes() == *path);
    let others = existing.map(|list| {
        let paths = list.as_bytes().split(|byte| matches!(byte, b':' | b' '));
        OsString::from_vec(paths.filter(|path| !is_shim(path)).collect::<Vec<_>>().join(&b':'))
    });
    appended(Some(appended(others, &cuda)), shim)
}

fn appended(existing: Option<OsString>, shim: &Path) -> OsString {
    let Some(mut list) = existing.filter(|list| !list.is_empty()) else { return shim.into() };
    if list
        .as_bytes()
        .split(|byte| matches!(byte, b':' | b' '))
        .any(|path| path == shim.as_os_str().as_bytes())
    {
        return list;
    }
    list.push(":");
    list.push(shim);
    list
}

/// The new value of `ASAN_OPTIONS`: the present one, and what lets a program start with the shim. Which programs a command starts
/// is not known, and others do not read it.
pub(super) fn sanitizer_options() -> OsString {
    with_sanitizer_option(env::var_os(SANITIZER_VARIABLE).unwrap_or_default())
}

fn with_sanitizer_option(mut options: OsString) -> OsString {
    if !options.to_string_lossy().contains(SANITIZER_OPTION) {
        if !options.is_empty() {
            options.push(":");
        }
        options.push(format!("{SANITIZER_OPTION}=0"));
    }
    options
}

/// Warns if the loader will not give the shim to a command; the loader itself is silent.
pub(super) fn warn_if_not_preloadable(program: &OsStr) {
    let Some(path) = find(program) else { return };
    if let Some(obstacle) = obstacle(&path) {
        say!(
            "xsched-ctl: {} {obstacle}, so the loader does not give it the shim: it runs unscheduled",
            path.display()
        );
    }
}

/// Why the loader ignores `LD_PRELOAD` for a program, if it does
/// ([ld.so(8)](https://man7.org/linux/man-pages/man8/ld.so.8.html)).
fn obstacle(path: &Path) -> Option<&'static str> {
    let file = File::open(path).ok()?;
    let mode = file.metadata().ok()?.permissions().mode();
    if mode & 0o6000 != 0 {
        return Some("runs with its owner's rights (setuid or setgid)");
    }
    // Only the head is read: all linkers put program headers behind the ELF header.
    let mut head = Vec::new();
    file.take(64 << 10).read_to_end(&mut head).ok()?;
    is_static(&head).then_some("is linked statically")
}

/// Whether the beginning of a file is that of a 64-bit ELF executable without an interpreter.
fn is_static(head: &[u8]) -> bool {
    /// Type of the program header with the path of the dynamic loader.
    const PT_INTERP: u32 = 3;
    let half = |at: usize| Some(u16::from_le_bytes(*head.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*head.get(at..)?.first_chunk()?));
    let headers = || -> Option<bool> {
        let offset = u64::from_le_bytes(*head.get(32..)?.first_chunk()?);
        let (size, count) = (usize::from(half(54)?), usize::from(half(56)?));
        let offset = usize::try_from(offset).ok()?;
        let kinds = (0..count).map(|index| word(offset.checked_add(index * size)?));
        Some(kinds.collect::<Option<Vec<_>>>()?.iter().all(|kind| *kind != PT_INTERP))
    };
    head.starts_with(b"\x7fELF\x02\x01") && headers().unwrap_or(false)
}

/// The file of a program's name.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shim_for_cuda_comes_before_the_other_if_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (shim, cuda) = (folder.path().join(SHIM_FILE), folder.path().join(CUDA_SHIM_FILE));
        assert_eq!(with_shims(None, &shim), shim.as_os_str());
        assert!(why_without_cuda(&shim).unwrap().starts_with(&cuda.display().to_string()));
        std::fs::write(&cuda, b"\x7fELF").unwrap();
        assert_eq!(why_without_cuda(&shim), None);
        let both = format!("/lib/other.so:{}:{}", cuda.display(), shim.display());
        assert_eq!(with_shims(Some("/lib/other.so".into()), &shim), OsString::from(both.clone()));
        assert_eq!(
            with_shims(Some(both.clone().into()), &shim),
            OsString::from(both.clone()),
            "they are there already"
        );
        let reversed = format!("{}:/lib/other.so:{}", shim.display(), cuda.display());
        assert_eq!(with_shims(Some(reversed.into()), &shim), OsString::from(both), "in the right order");
    }

    #[test]
    fn the_shim_comes_after_what_is_preloaded_already() {
        let shim = Path::new("/lib/shim.so");
        let with = |existing: Option<&str>| appended(existing.map(Into::into), shim);
        assert_eq!(with(None), "/lib/shim.so");
        assert_eq!(with(Some("")), "/lib/shim.so");
        assert_eq!(with(Some("/lib/a.so")), "/lib/a.so:/lib/shim.so");
        assert_eq!(with(Some("/lib/shim.so /lib/a.so")), "/lib/shim.so /lib/a.so");
    }

    #[test]
    fn options_of_the_sanitizer_are_kept() {
        let with = |options: &str| with_sanitizer_option(options.into());
        assert_eq!(with(""), "verify_asan_link_order=0");
        assert_eq!(with("detect_leaks=0"), "detect_leaks=0:verify_asan_link_order=0");
        assert_eq!(with("verify_asan_link_order=1"), "verify_asan_link_order=1");
    }

    #[test]
    fn a_shim_must_be_there_and_have_a_path_that_the_loader_understands() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("no.so");
        assert!(matches!(find_shim(Some(&missing)), Err(RunError::NoShim(path)) if path == missing));
        let odd = dir.path().join("a b.so");
        std::fs::write(&odd, "\x7fELF").unwrap();
        assert!(matches!(find_shim(Some(&odd)), Err(RunError::ShimPath(_))));
        for other in [dir.path(), Path::new("/dev/null"), Path::new("/etc/passwd")] {
            assert!(matches!(find_shim(Some(other)), Err(RunError::NotAShim(_))), "{}", other.display());
        }
    }

    #[test]
    fn tokens_differ() {
        let [one, other] = [(); 2].map(|()| Token::draw().unwrap().to_string());
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
    }

    #[test]
    fn programs_that_the_loader_gives_nothing_are_recognised() {
        assert_eq!(obstacle(&env::current_exe().unwrap()), None);
        assert_eq!(obstacle(Path::new("/etc/hostname")), None);
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut elf = vec![0; 64 + 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (elf[32], elf[54], elf[56], elf[64]) = (64, 56, 1, 1);
        std::fs::write(&file, &elf).unwrap();
        assert_eq!(obstacle(file.path()), Some("is linked statically"));
        elf[64] = 3;
        std::fs::write(&file, &elf).unwrap();
        assert_eq!(obstacle(file.path()), None);
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(obstacle(file.path()), Some("runs with its owner's rights (setuid or setgid)"));
    }
}
