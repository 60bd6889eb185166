//! `xsched-ctl doctor`: what this machine has and lacks for tracing and scheduling.

mod controller;
mod cuda;
mod gates;
mod idle;
pub(crate) mod process;
mod shim;

use std::fmt;
use std::fs;

use xsched_bpf::namespace::{self, PidNamespace};
use xsched_bpf::privilege;
use xsched_bpf::tracefs_with;
use xsched_controller::cgroup_version::{self, Cgroups};
use xsched_protocol::probe::Runtime;
use xsched_symbols::Processes;
use xsched_terminal::ExitCode;
use xsched_terminal::print;
use xsched_terminal::with_causes;
use xsched_tracer::Devices;
use xsched_tracer::{Attach, Features, FunctionsError, Options, PidFilter, Programs, try_driver_functions};
use xsched_tracer::{Driver, Uprobes};

use crate::failure::Failure;

/// The result for one requirement.
struct Finding {
    name: &'static str,
    verdict: Verdict,
    value: String,
    /// What the user can do about it, unless it is fine.
    advice: &'static str,
}

impl Finding {
    /// What is printed about it.
    fn lines(&self) -> String {
        let line = format!("{:<12} {:<8} {}\n", self.name, self.verdict, self.value);
        match self.remedy() {
            None => line,
            Some(remedy) => format!("{line}{:21} -> {remedy}\n", ""),
        }
    }

    /// The same for programs.
    fn object(&self) -> serde_json::Value {
        serde_json::json!({
            "name": self.name,
            "ok": self.verdict == Verdict::Found,
            "verdict": self.verdict.to_string(),
            "detail": self.value,
            "remedy": self.remedy(),
        })
    }

    fn remedy(&self) -> Option<&'static str> {
        (self.verdict != Verdict::Found).then_some(self.advice)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Found,
    /// It works with restrictions.
    Reduced,
    /// Tracing does not work.
    Missing,
    /// Unknown.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Found => "ok",
            Self::Reduced => "reduced",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        })
    }
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Lines,
    /// One object, whose shape `docs/troubleshooting.md` describes.
    Json,
}

impl Form {
    fn text(self, findings: &[Finding]) -> String {
        match self {
            Self::Lines => findings.iter().map(Finding::lines).collect(),
            Self::Json => {
                let version = env!("CARGO_PKG_VERSION");
                let objects: Vec<_> = findings.iter().map(Finding::object).collect();
                let tracing = !has(findings, Verdict::Missing);
                format!(
                    "{}\n",
                    serde_json::json!({ "version": version, "tracing": tracing, "findings": objects })
                )
            }
        }
    }
}

/// Whether any finding is of this kind.
fn has(findings: &[Finding], verdict: Verdict) -> bool {
    findings.iter().any(|finding| finding.verdict == verdict)
}

/// Prints the result for each requirement. The exit code says whether tracing works.
pub(crate) async fn run(form: Form) -> Result<u8, Failure> {
    let [arbiter, verdicts] = controllers_programs();
    let mut processes = Processes::new();
    processes.scan_running();
    let findings = [
        kernel(),
        privileges(),
        uprobes(),
        tracefs(),
        cgroups(Cgroups::here()),
        btf(),
        links(),
        arbiter,
        verdicts,
        namespace(),
        gpus(),
        driver_calls(),
        runtime(&processes, Runtime::Hip),
        runtime(&processes, Runtime::Cuda),
        idle::finding(),
        controller::finding().await,
    ];
    print(&form.text(&findings))?;
    let is_unprivileged =
        findings.iter().any(|finding| finding.name == "privileges" && finding.verdict == Verdict::Missing);
    Ok(match has(&findings, Verdict::Missing) {
        _ if is_unprivileged => ExitCode::NotPermitted.into(),
        true => ExitCode::Unavailable.into(),
        false => 0,
    })
}

fn kernel() -> Finding {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    Finding { name: "kernel", verdict: Verdict::Found, value: release, advice: "" }
}

fn privileges() -> Finding {
    let effective = privilege::effective();
    let missing: Vec<_> = privilege::NEEDED
        .iter()
        .filter(|capability| !capability.is_in(effective))
        .map(|capability| format!("{} (to {})", capability.name, capability.purpose))
        .collect();
    let names: Vec<_> = privilege::NEEDED.iter().map(|capability| capability.name).collect();
    if missing.is_empty() {
        Finding { name: "privileges", verdict: Verdict::Found, value: names.join(", "), advice: "" }
    } else {
        Finding {
            name: "privileges",
            verdict: Verdict::Missing,
            value: format!("without {}", missing.join(", ")),
            advice: if namespace::user_is_initial() {
                "run as root: sudo xsched-ctl doctor"
            } else {
                privilege::OUTSIDE
            },
        }
    }
}

fn uprobes() -> Finding {
    let advice = "use a kernel with CONFIG_UPROBES and CONFIG_BPF_EVENTS; all distributions ship one";
    match fs::read_to_string("/sys/bus/event_source/devices/uprobe/type") {
        Ok(kind) => Finding {
            name: "uprobes",
            verdict: Verdict::Found,
            value: format!("perf event type {}", kind.trim()),
            advice,
        },
        Err(error) => {
            Finding { name: "uprobes", verdict: Verdict::Missing, value: error.to_string(), advice }
        }
    }
}

fn tracefs() -> Finding {
    const EVENTS: [&str; 2] = ["syscalls/sys_enter_openat", "task/task_newtask"];
    let name = "tracefs";
    match tracefs_with(&EVENTS) {
        Ok(path) => Finding { name, verdict: Verdict::Found, value: path.to_owned(), advice: "" },
        Err(_) if !privilege::missing().is_empty() => Finding {
            name,
            verdict: Verdict::Unknown,
            value: "only root can check this".to_owned(),
            advice: "run as root: sudo xsched-ctl doctor",
        },
        Err(why) => Finding {
            name,
            verdict: Verdict::Reduced,
            value: format!("{why}; `trace -- CMD`, first calls and whole chains need it"),
            advice: why.remedy(),
        },
    }
}

/// Tracing needs no cgroups.
fn cgroups(cgroups: Cgroups) -> Finding {
    let name = "cgroups";
    match cgroups.trouble() {
        None => Finding { name, verdict: Verdict::Found, value: "version 2".to_owned(), advice: "" },
        Some(trouble) => Finding {
            name,
            verdict: Verdict::Reduced,
            value: format!("in rules and ceilings {trouble}"),
            advice: cgroup_version::REMEDY,
        },
    }
}

fn btf() -> Finding {
    let path = "/sys/kernel/btf/vmlinux";
    let advice = "use a kernel with CONFIG_DEBUG_INFO_BTF; tracing works without it";
    match fs::metadata(path) {
        Ok(_) => Finding { name: "BTF", verdict: Verdict::Found, value: path.to_owned(), advice },
        Err(error) => {
            Finding { name: "BTF", verdict: Verdict::Reduced, value: format!("{path}: {error}"), advice }
        }
    }
}

/// Loads the programs and probes this very process.
fn links() -> Finding {
    let name = "BPF";
    if !privilege::missing().is_empty() {
        return Finding {
            name,
            verdict: Verdict::Unknown,
            value: "only root can check this".to_owned(),
            advice: "run as root: sudo xsched-ctl doctor",
        };
    }
    let tried =
        Programs::create(&smallest()).and_then(|mut programs| Features::probe(&mut programs, Uprobes::Auto));
    match tried {
        Ok(Features { attach: Attach::Multi(PidFilter::Process) }) => Finding {
            name,
            verdict: Verdict::Found,
            value: "the tracer's programs load; uprobe_multi links, selecting by process".to_owned(),
            advice: "",
        },
        Ok(Features { attach: Attach::Multi(PidFilter::Thread) }) => Finding {
            name,
            verdict: Verdict::Reduced,
            value: "the tracer's programs load; uprobe_multi links cannot select by process".to_owned(),
            advice: "with --pid, the probes slow down other processes that use the same runtime too; kernel 6.10 fixes this",
        },
        Ok(Features { attach: Attach::PerfEvents }) => Finding {
            name,
            verdict: Verdict::Reduced,
            value: "the tracer's programs load; one perf event for each probe".to_owned(),
            advice: "detaching takes seconds, and fewer functions are recorded; kernel 6.6 has uprobe_multi links",
        },
        Err(error) => Finding {
            name,
            verdict: Verdict::Missing,
            value: with_causes(&error),
            advice: "use a kernel with BPF (CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT), 5.15 or later",
        },
    }
}

/// Loads and attaches the programs of a controller: those that keep the arbiter page, and those that see the chains of calls.
fn controllers_programs() -> [Finding; 2] {
    let xsched_controller::Tried { arbiter, verdicts } = xsched_controller::try_programs();
    let by_itself = "run `serve` as root, on a kernel with BTF; otherwise it keeps the page itself, and reports are slower";
    let callers_only = "run `serve` as root, with tracefs; otherwise rules see immediate callers only";
    [("arbiter", arbiter, by_itself), ("verdicts", verdicts, callers_only)].map(|(name, tried, advice)| {
        let (verdict, value) = match tried {
            Ok(()) => (Verdict::Found, "the controller's programs load and attach".to_owned()),
            Err(error) => (Verdict::Reduced, with_causes(error.as_ref())),
        };
        Finding { name, verdict, value, advice }
    })
}

/// The smallest options, for programs that are only loaded to test whether they load.
fn smallest() -> Options {
    Options {
        ring_size: 1 << 16,
        depth: 1,
        uprobes: Uprobes::Auto,
        driver: Driver::Auto,
        extra_devices: Vec::new(),
    }
}

/// Attaches to the driver's functions, and reports what a recording would do.
fn driver_calls() -> Finding {
    let name = "driver calls";
    if Devices::of_this_machine().is_empty() {
        return Finding {
            name,
            verdict: Verdict::Unknown,
            value: "no AMD driver is loaded".to_owned(),
            advice: "load amdgpu for work on a real GPU; simulated runtimes are traced without it",
        };
    }
    if !privilege::missing().is_empty() {
        return Finding {
            name,
            verdict: Verdict::Unknown,
            value: "only root can check this".to_owned(),
            advice: "run as root: sudo xsched-ctl doctor",
        };
    }
    let tried = Programs::create(&smallest())
        .map_err(FunctionsError::from)
        .and_then(|programs| try_driver_functions(&programs));
    match tried {
        Ok(()) => Finding {
            name,
            verdict: Verdict::Found,
            value: "seen at the driver's own functions (fentry)".to_owned(),
            advice: "",
        },
        Err(error) => Finding {
            name,
            verdict: Verdict::Reduced,
            value: format!("seen at ioctl(2) (tracepoints), since fentry does not work: {error}"),
            advice: "every ioctl of the machine takes a little longer while the driver is traced; \
                     a module with BTF avoids this",
        },
    }
}

fn namespace() -> Finding {
    let name = "pid space";
    let host = "run it on the host, or in a container with the host's pid namespace (--pid=host)";
    if !namespace::proc_is_own() {
        return Finding {
            name,
            verdict: Verdict::Missing,
            value: "/proc shows another pid namespace".to_owned(),
            advice: "mount -t proc proc /proc",
        };
    }
    match PidNamespace::own() {
        Ok(PidNamespace::Initial) => {
            Finding { name, verdict: Verdict::Found, value: "the machine's own".to_owned(), advice: "" }
        }
        Ok(PidNamespace::Nested { .. }) => Finding {
            name,
            verdict: Verdict::Reduced,
            value: "a container's: its own processes only; first calls of `trace -- CMD` may be missing"
                .to_owned(),
            advice: host,
        },
        Err(error) => Finding { name, verdict: Verdict::Unknown, value: error.to_string(), advice: host },
    }
}

/// The GPUs, of which drivers say how many there are.
fn gpus() -> Finding {
    let (amd, nvidia) = (amd_gpus(), nvidia_gpus());
    let found: Vec<_> = [("AMD", amd.unwrap_or(0)), ("NVIDIA", nvidia)]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(vendor, count)| format!("{count} of {vendor}"))
        .collect();
    let (verdict, value) = match amd {
        _ if !found.is_empty() => (Verdict::Found, found.join(", ")),
        Some(_) => (Verdict::Reduced, "none in the KFD topology".to_owned()),
        None => (Verdict::Reduced, "neither AMD's driver nor NVIDIA's is loaded".to_owned()),
    };
    let advice = "load amdgpu or nvidia for work on a real GPU; simulated runtimes are traced without it";
    Finding { name: "GPU", verdict, value, advice }
}

/// None without AMD's driver.
fn amd_gpus() -> Option<usize> {
    let nodes = fs::read_dir("/sys/class/kfd/kfd/topology/nodes").ok()?;
    // CPUs are nodes too; their GPU id is 0.
    let is_gpu =
        |node: &fs::DirEntry| fs::read_to_string(node.path().join("gpu_id")).is_ok_and(|id| id.trim() != "0");
    Some(nodes.filter_map(Result::ok).filter(is_gpu).count())
}

/// The device files `nvidia0`, `nvidia1`, …: containers have those of their own GPUs.
fn nvidia_gpus() -> usize {
    let names = fs::read_dir("/dev")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter(|name| name.strip_prefix("nvidia").is_some_and(|number| number.parse::<u32>().is_ok()))
        .count()
}

/// The processes that use a runtime.
fn runtime(processes: &Processes, runtime: Runtime) -> Finding {
    let mut found: Vec<_> = processes
        .runtimes()
        .filter(|(_, mapping)| mapping.runtime() == Some(runtime))
        .map(|(pid, mapping)| format!("{pid} {}", mapping.path.display()))
        .collect();
    found.sort();
    found.dedup();
    let value = match found.len() {
        0 => "no process uses it now".to_owned(),
        count => format!("{count} in use: {}", found.join(", ")),
    };
    if privilege::missing().is_empty() {
        Finding { name: runtime.name(), verdict: Verdict::Found, value, advice: "" }
    } else {
        Finding {
            name: runtime.name(),
            verdict: Verdict::Unknown,
            value: format!("{value}, counting only processes that this user may inspect"),
            advice: "run as root: sudo xsched-ctl doctor",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_the_same_as_users() {
        let of = |verdict, advice| Finding { name: "BPF", verdict, value: "a \"value\"".to_owned(), advice };
        let findings = [of(Verdict::Found, "unused"), of(Verdict::Reduced, "do this")];
        assert_eq!(
            Form::Lines.text(&findings),
            "BPF          ok       a \"value\"\nBPF          reduced  a \"value\"\n                      -> do this\n"
        );
        let expected = serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "tracing": true,
            "findings": [
                { "name": "BPF", "ok": true, "verdict": "ok", "detail": "a \"value\"", "remedy": null },
                { "name": "BPF", "ok": false, "verdict": "reduced", "detail": "a \"value\"", "remedy": "do this" },
            ],
        });
        let text = Form::Json.text(&findings);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), expected);
        assert_eq!(text.lines().count(), 1);
        let text = Form::Json.text(&[of(Verdict::Missing, "do this"), of(Verdict::Unknown, "ask")]);
        assert!(text.contains("\"tracing\":false") && text.contains("\"verdict\":\"unknown\""), "{text}");
    }
}
