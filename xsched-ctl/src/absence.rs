//! Why a process has no shim although its environment names the shim for rocprofiler-register.

use std::fs;

use xsched_symbols::process_folder;

/// Beginning of the file names of all builds of the shim, and of the one for CUDA.
pub(crate) const SHIM_FILE_PREFIX: &str = "libxsched_shim";
pub(crate) const CUDA_SHIM_FILE_PREFIX: &str = "libxsched_cuda";

const VARIABLE: &str = "ROCPROFILER_REGISTER_LIBRARY";

/// The reason for a process without the shim. None: the environment does not name it, or may not be read.
pub(crate) fn why_passed_over(pid: u32) -> Option<String> {
    let folder = process_folder(pid);
    passed_over(&fs::read(folder.join("environ")).ok()?, &fs::read_to_string(folder.join("maps")).ok()?)
}

fn passed_over(environment: &[u8], maps: &str) -> Option<String> {
    let mut variables =
        environment.split(|&byte| byte == 0).filter_map(|line| std::str::from_utf8(line).ok());
    let library = variables.find_map(|line| line.strip_prefix(VARIABLE)?.strip_prefix('='))?;
    if !file_name(library).starts_with(SHIM_FILE_PREFIX) {
        return None;
    }
    let mut files = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    Some(match files.find(|file| file_name(file).starts_with("librocprofiler-sdk.so")) {
        Some(profiler) => {
            format!(
                "{profiler} comes before the library in {VARIABLE}; the shim in LD_PRELOAD comes before both"
            )
        }
        None => format!(
            "no runtime has loaded the library in {VARIABLE}: it was not called yet, or is older than ROCm 6.2"
        ),
    })
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shim_that_a_profiler_keeps_out_is_told_from_one_that_was_never_named() {
        let runtime = "7f00-7f10 r--p 00000000 fe:01 7    /opt/rocm/lib/libamdhip64.so.7\n";
        let profiler = "7f20-7f30 r--p 00000000 fe:01 8    /venv/torch/lib/librocprofiler-sdk.so.1\n";
        let named = b"PATH=/bin\0ROCPROFILER_REGISTER_LIBRARY=/usr/lib/xsched/libxsched_shim.so\0";
        let why = passed_over(named, &[runtime, profiler].concat()).unwrap();
        assert!(why.starts_with("/venv/torch/lib/librocprofiler-sdk.so.1 comes before"), "{why}");
        assert!(passed_over(named, runtime).unwrap().starts_with("no runtime has loaded"));
        for other in [b"PATH=/bin\0".as_slice(), b"ROCPROFILER_REGISTER_LIBRARY=/opt/tool.so\0", b""] {
            assert_eq!(passed_over(other, profiler), None);
        }
    }
}
