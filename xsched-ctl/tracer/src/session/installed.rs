//! Copies of GPU runtimes that are installed where loaders, ROCm and NVIDIA's packages look for them, and those in the
//! dynamic loader's cache.
//!
//! They are probed before any process loads them, so programs that start later are recorded from their first call.
//! Copies elsewhere (such as in a Python package) are found when they are opened.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use xsched_symbols::{PathSpace, runtime_of, with_timeout};

/// Folders of distributions, and of CUDA's driver library in containers and in its packages for older drivers.
const FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda/compat",
];

/// The cache of ldconfig, which searches the folders in the machine's `/etc/ld.so.conf`.
const LOADER_CACHE: &str = "/etc/ld.so.cache";

/// Where AMD's packages install, one folder for each release: `/opt/rocm-6.4.1/lib`.
const ROCM_PARENT: &str = "/opt";

/// Their paths. Several may refer to one file.
pub(super) fn installed() -> Vec<PathBuf> {
    let search = env::var_os("LD_LIBRARY_PATH");
    let folders = folders(search.as_deref(), Path::new(ROCM_PARENT));
    let mut found: Vec<_> = folders.iter().flat_map(|folder| runtimes_in(folder)).collect();
    found.extend(runtimes_in_cache(&fs::read(LOADER_CACHE).unwrap_or_default()));
    found
}

/// The paths of runtimes in a cache of the dynamic loader. In any version of its format each path begins after a NUL
/// and ends with one.
fn runtimes_in_cache(cache: &[u8]) -> impl Iterator<Item = PathBuf> {
    cache
        .split(|byte| *byte == 0)
        .filter(|text| text.first() == Some(&b'/'))
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .filter(|path| runtime_of(path).is_some())
}

fn folders(search: Option<&OsStr>, rocm_parent: &Path) -> Vec<PathBuf> {
    let releases = entries(rocm_parent)
        .filter(|path| path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("rocm")));
    let mut folders: Vec<PathBuf> = search.into_iter().flat_map(env::split_paths).collect();
    folders.extend(releases.map(|release| release.join("lib")));
    folders.extend(FOLDERS.map(PathBuf::from));
    folders
}

fn runtimes_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    entries(folder).filter(|path| runtime_of(path).is_some())
}

/// Empty for a folder that does not exist, may not be read, or is on a server that does not answer.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let asked = folder.to_owned();
    let read = move || fs::read_dir(asked).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    with_timeout(PathSpace::Own, folder, move || read().collect::<Vec<_>>()).unwrap_or_default().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_cache_is_searched() {
        let cache = b"glibc-ld.so.cache1.1\x02\0\0\0\x30\0libamdhip64.so.6\0/usr/x/libamdhip64.so.6\0/usr/x/libcuda.so.1\0/usr/x/libcudart.so.13\0/usr/x/libm.so\0\xff\0";
        let found: Vec<_> = runtimes_in_cache(cache).collect();
        assert_eq!(found, [Path::new("/usr/x/libamdhip64.so.6"), Path::new("/usr/x/libcuda.so.1")]);
        assert_eq!(runtimes_in_cache(b"").count(), 0);
    }

    #[test]
    fn releases_and_search_paths_are_searched() {
        let dir = tempfile::tempdir().unwrap();
        let mine = dir.path().join("mine");
        for folder in ["rocm/lib", "rocm-6.4.1/lib", "other/lib", "mine"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
            fs::write(dir.path().join(folder).join("libamdhip64.so.6"), "").unwrap();
            fs::write(dir.path().join(folder).join("libamdhip64.txt"), "").unwrap();
        }
        let mut found: Vec<_> = folders(Some(mine.as_os_str()), dir.path())
            .iter()
            .filter(|folder| folder.starts_with(dir.path()))
            .flat_map(|folder| runtimes_in(folder))
            .map(|path| path.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned())
            .collect();
        found.sort();
        assert_eq!(
            found,
            ["mine/libamdhip64.so.6", "rocm-6.4.1/lib/libamdhip64.so.6", "rocm/lib/libamdhip64.so.6"]
        );
    }
}
