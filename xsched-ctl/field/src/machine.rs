//! What is known about a node: versions of its kernel, drivers, runtimes and libraries, and its GPU.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kit::Kit;
use crate::measurement::Failed;
use crate::options::Mode;
use crate::report::Fact;
use crate::scripts::Script;
use crate::trouble::Trouble;

/// Everything that can be read without starting a program.
pub(crate) fn of_this_machine() -> Vec<Fact> {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let mut facts = vec![
        Fact::new("xsched-ctl", env!("CARGO_PKG_VERSION")),
        Fact::new("kernel", format!("{} {}", text(uname.release()), text(uname.machine()))),
    ];
    let mut add = |name: &str, value: Option<String>| facts.extend(value.map(|value| Fact::new(name, value)));
    add("system", field("/etc/os-release", "PRETTY_NAME=").map(|name| name.trim_matches('"').to_owned()));
    add("C library", Some(libc_version()));
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let model = field("/proc/cpuinfo", "model name")
        .map(|model| model.trim_start_matches([' ', '\t', ':']).to_owned());
    add("processors", Some(format!("{cpus} x {}", model.unwrap_or_else(|| "unknown".to_owned()))));
    let flags = field("/proc/cpuinfo", "flags").unwrap_or_default();
    add("virtual machine", Some(if flags.contains(" hypervisor") { "yes" } else { "no" }.to_owned()));
    add("memory", field("/proc/meminfo", "MemTotal:").map(|total| total.trim().to_owned()));
    add("user", Some(if rustix::process::geteuid().is_root() { "root" } else { "not root" }.to_owned()));
    add("NVIDIA driver", first_line("/proc/driver/nvidia/version"));
    add(
        "amdgpu driver",
        first_line("/sys/module/amdgpu/version")
            .or_else(|| Path::new("/sys/module/amdgpu").exists().then(|| "the kernel's own".to_owned())),
    );
    add("ROCm", first_line("/opt/rocm/.info/version"));
    add("GPU processors (KFD)", kfd_targets(Path::new("/sys/class/kfd/kfd/topology/nodes")));
    facts
}

/// The rest of the first line that begins so.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)).map(ToOwned::to_owned)
}

fn first_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}

fn libc_version() -> String {
    // SAFETY: glibc returns a static string.
    unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy().into_owned()
}

/// The processors of AMD's GPUs, such as `gfx942`, by the driver.
fn kfd_targets(nodes: &Path) -> Option<String> {
    let mut targets: Vec<_> = fs::read_dir(nodes)
        .ok()?
        .filter_map(|node| {
            let properties = fs::read_to_string(node.ok()?.path().join("properties")).ok()?;
            let version = properties.lines().find_map(|line| line.strip_prefix("gfx_target_version "))?;
            gfx(version.trim().parse().ok()?)
        })
        .collect();
    targets.sort();
    (!targets.is_empty()).then(|| targets.join(", "))
}

/// `90402` is gfx942, `90010` gfx90a; 0 is a CPU.
fn gfx(version: u32) -> Option<String> {
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    (major > 0).then(|| format!("gfx{major}{minor:x}{stepping:x}"))
}

/// Asks Python and the minimal client, and remembers what the steps need to know.
pub(crate) async fn ask(kit: &mut Kit<'_>) -> Vec<Fact> {
    kit.progress("versions of Python and its packages");
    let mut facts = ask_python(kit).await;
    kit.progress("the runtime and its device");
    facts.extend(ask_runtime(kit).await);
    facts
}

async fn ask_python(kit: &mut Kit<'_>) -> Vec<Fact> {
    let asked = match kit.script("python3", "normal", Script::Versions, &[]) {
        Ok(script) => kit.measure(Mode::Native, &[script], 1.0).await,
        Err(trouble) => Err(trouble.into()),
    };
    match asked {
        Ok(findings) => {
            let facts = findings.into_iter().flat_map(|finding| finding.outcome.facts);
            let (folders, facts): (Vec<_>, Vec<_>) = facts.partition(|(name, _)| name == "folder");
            kit.node.folders = folders.into_iter().map(|(_, folder)| folder.into()).collect();
            facts.into_iter().map(|(name, value)| Fact::new(name, value)).collect()
        }
        Err(Failed { trouble, .. }) => {
            let why = format!("no Python: {trouble}");
            kit.node.no_python = Some(why.clone());
            vec![Fact::new("Python", why)]
        }
    }
}

/// Tries the loader's own path first, then the places where runtimes lie without being along it.
async fn ask_runtime(kit: &mut Kit<'_>) -> Vec<Fact> {
    let of_packages = kit.node.folders.iter().map(|folder| folder.join("libamdhip64.so"));
    let elsewhere = std::iter::once(PathBuf::from("/opt/rocm/lib/libamdhip64.so")).chain(of_packages);
    let candidates: Vec<_> = match &kit.options.library {
        Some(library) => vec![Some(library.clone())],
        None => std::iter::once(None).chain(elsewhere.filter(|path| path.exists()).map(Some)).collect(),
    };
    let mut why = None;
    for library in candidates {
        kit.node.library = library;
        let client = kit.client("client", "normal", "identity", &[]);
        match kit.measure(Mode::Native, &[client], 1.0).await {
            Ok(findings) => {
                let interface = findings.first().and_then(|found| found.outcome.fact("interface"));
                kit.node.interface = interface.map(ToOwned::to_owned);
                let facts = findings.into_iter().flat_map(|finding| finding.outcome.facts);
                return facts.map(|(name, value)| Fact::new(name, value)).collect();
            }
            Err(Failed { trouble, .. }) => {
                why.get_or_insert_with(|| describe(&trouble));
            }
        }
    }
    kit.node.no_device.clone_from(&why);
    vec![Fact::new("GPU", why.unwrap_or_default())]
}

fn describe(trouble: &Trouble) -> String {
    format!("none can be used: {trouble}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_their_usual_names() {
        let named = [90_402, 90_010, 100_300, 110_001, 0].map(gfx);
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(named, [name("gfx942"), name("gfx90a"), name("gfx1030"), name("gfx1101"), None]);
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_c_library() {
        let facts = of_this_machine();
        for name in ["kernel", "C library", "processors", "memory"] {
            assert!(
                facts.iter().any(|fact| fact.name == name && !fact.value.is_empty()),
                "{name}: {facts:?}"
            );
        }
    }
}
