//! How deeply processors may sleep: to preempt a process, one of its threads is woken, which takes longer on a sleeping
//! processor.
//!
//! The kernel does not use idle states that are disabled, nor those with an exit latency above two bounds. One is the machine's,
//! as long as a process holds `/dev/cpu_dma_latency` open; the other is the processor's own
//! (<https://docs.kernel.org/admin-guide/pm/cpuidle.html>).

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use super::{Finding, Verdict};

/// Exit latency in microseconds from which on a state is too deep: somewhat more than twice the time to preempt a
/// process, 7 to 9 us while no processor sleeps (`cargo xtask bench arbiter`). Halting (C1, C1E) takes 1 to 10 us, the
/// next state of Intel's servers 33 or more
/// ([`intel_idle.c`](https://github.com/torvalds/linux/blob/v6.12/drivers/idle/intel_idle.c)). On AMD's processors the
/// firmware defines the latencies.
const DEEP_US: u64 = 20;

const NAME: &str = "idle states";
const ADVICE: &str = "urgent work waits for threads on sleeping processors: `cpupower idle-set -D 20` forbids this until the next \
                      boot, `tuned-adm profile latency-performance` for good";

/// The idle states in use, and their exit latencies.
pub(super) fn finding() -> Finding {
    inspect(Path::new("/"))
}

/// The finding for a machine whose files are below this folder.
fn inspect(root: &Path) -> Finding {
    let folder = root.join("sys/devices/system/cpu");
    let processors = match online(&folder) {
        Ok(processors) => processors,
        Err(error) => {
            let value = format!("{}: {error}", folder.display());
            return Finding {
                name: NAME,
                verdict: Verdict::Unknown,
                value,
                advice: "mount -t sysfs sysfs /sys",
            };
        }
    };
    let has_none = processors.iter().all(|processor| processor.states.is_empty());
    if is_haltpoll(&folder) || has_none && is_guest(root) {
        let value = "left to the hypervisor, which does not say how deep they are".to_owned();
        let advice = "`xsched-ctl doctor` on the host shows them";
        return Finding { name: NAME, verdict: Verdict::Unknown, value, advice };
    }
    if has_none {
        let value = "none: idle processors at most halt".to_owned();
        return Finding { name: NAME, verdict: Verdict::Found, value, advice: ADVICE };
    }
    let bound = bound_us(&root.join("dev/cpu_dma_latency"));
    describe(&processors, &bound)
}

fn describe(processors: &[Processor], bound: &io::Result<u64>) -> Finding {
    let bound_us = bound.as_ref().copied().unwrap_or(u64::MAX);
    let deepest: Vec<_> = processors.iter().filter_map(|processor| processor.deepest(bound_us)).collect();
    let deep = deepest.iter().filter(|state| state.exit_us >= DEEP_US).count();
    let Some(State { name, exit_us, .. }) = deepest.into_iter().max_by_key(|state| state.exit_us) else {
        let value = "none may be used".to_owned();
        return Finding { name: NAME, verdict: Verdict::Found, value, advice: ADVICE };
    };
    if deep == 0 {
        let value = format!("{name} is the deepest in use, and takes {exit_us} us to leave");
        return Finding { name: NAME, verdict: Verdict::Found, value, advice: ADVICE };
    }
    let all = processors.len();
    let value = format!("{name} takes {exit_us} us to leave; {deep} of {all} processors may sleep so deeply");
    match bound {
        Ok(_) => Finding { name: NAME, verdict: Verdict::Reduced, value, advice: ADVICE },
        Err(error) => Finding {
            name: NAME,
            verdict: Verdict::Unknown,
            value: format!(
                "{value}, unless /dev/cpu_dma_latency, which cannot be read ({error}), forbids it"
            ),
            advice: "run as root, outside of containers: sudo xsched-ctl doctor",
        },
    }
}

/// Whether the haltpoll driver is in use, as in guests that know that they are virtual
/// ([documentation](https://docs.kernel.org/virt/guest-halt-polling.html)): only the host knows the real state.
fn is_haltpoll(folder: &Path) -> bool {
    fs::read_to_string(folder.join("cpuidle/current_driver")).is_ok_and(|driver| driver.trim() == "haltpoll")
}

/// Whether this is a virtual machine.
fn is_guest(root: &Path) -> bool {
    let described = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let mut flags = described.lines().filter(|line| line.starts_with("flags"));
    flags.any(|line| line.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

/// The machine's bound on exit latency, in microseconds; some 33 minutes if no process sets one. Opening the device
/// alone sets no bound.
fn bound_us(device: &Path) -> io::Result<u64> {
    let mut number = [0; 4];
    fs::File::open(device)?.read_exact(&mut number)?;
    Ok(u64::try_from(i32::from_ne_bytes(number)).unwrap_or(0))
}

/// A processor that is online.
struct Processor {
    /// The bound for this one, in microseconds.
    bound_us: u64,
    states: Vec<State>,
}

impl Processor {
    /// The usable state with the longest exit latency, given the machine's bound.
    fn deepest(&self, bound_us: u64) -> Option<&State> {
        let bound_us = self.bound_us.min(bound_us);
        let used = self.states.iter().filter(|state| !state.is_disabled && state.exit_us <= bound_us);
        used.max_by_key(|state| state.exit_us)
    }
}

/// An idle state of a processor.
struct State {
    name: String,
    exit_us: u64,
    is_disabled: bool,
}

/// The processors that are online.
fn online(folder: &Path) -> io::Result<Vec<Processor>> {
    let mut processors = Vec::new();
    for path in numbered(folder, "cpu")? {
        // Where a processor cannot be switched off, this file does not exist.
        if fs::read_to_string(path.join("online")).is_ok_and(|state| state.trim() == "0") {
            continue;
        }
        let bound_us = match fs::read_to_string(path.join("power/pm_qos_resume_latency_us")) {
            Ok(text) if text.trim() == "n/a" => 0,
            // This value means that there is no bound.
            Ok(text) if text.trim() == "0" => u64::MAX,
            Ok(text) => number(&text)?,
            Err(_) => u64::MAX,
        };
        let states = match numbered(&path.join("cpuidle"), "state") {
            Ok(paths) => paths.iter().map(|path| state(path)).collect::<io::Result<_>>()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        processors.push(Processor { bound_us, states });
    }
    Ok(processors)
}

fn state(path: &Path) -> io::Result<State> {
    let read = |name| fs::read_to_string(path.join(name));
    Ok(State {
        name: read("name")?.trim().to_owned(),
        exit_us: number(&read("latency")?)?,
        is_disabled: number(&read("disable")?)? != 0,
    })
}

fn number(text: &str) -> io::Result<u64> {
    text.trim().parse().map_err(io::Error::other)
}

/// The paths in a folder that consist of a word and a number, in no order.
fn numbered(folder: &Path, word: &str) -> io::Result<Vec<std::path::PathBuf>> {
    let is_numbered = |name: &str| {
        name.strip_prefix(word)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_numbered) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated machine of files.
    struct Machine(tempfile::TempDir);

    impl Machine {
        /// One with two processors that have these states, by name and exit latency.
        fn with(states: &[(&str, u64)]) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            machine.demand(2_000_000_000);
            machine.write("sys/devices/system/cpu/cpuidle/current_driver", "acpi_idle\n");
            machine.write("sys/devices/system/cpu/cpufreq/policy0", "");
            for processor in 0..2 {
                machine.write(
                    &format!("sys/devices/system/cpu/cpu{processor}/power/pm_qos_resume_latency_us"),
                    "0\n",
                );
                for (index, (name, exit_us)) in states.iter().enumerate() {
                    let state =
                        |file| format!("sys/devices/system/cpu/cpu{processor}/cpuidle/state{index}/{file}");
                    machine.write(&state("name"), format!("{name}\n"));
                    machine.write(&state("latency"), format!("{exit_us}\n"));
                    machine.write(&state("disable"), "0\n");
                }
            }
            machine
        }

        fn write(&self, path: &str, text: impl AsRef<[u8]>) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Sets the machine's bound.
        fn demand(&self, bound_us: i32) {
            self.write("dev/cpu_dma_latency", bound_us.to_ne_bytes());
        }

        #[track_caller]
        fn assert(&self, verdict: Verdict, value: &str) {
            let found = inspect(self.0.path());
            assert_eq!((found.verdict.to_string(), found.value.as_str()), (verdict.to_string(), value));
            assert!(!found.advice.is_empty());
        }
    }

    const EPYC: [(&str, u64); 3] = [("POLL", 0), ("C1", 1), ("C2", 800)];
    const DEEP: &str = "C2 takes 800 us to leave; 2 of 2 processors may sleep so deeply";
    const SHALLOW: &str = "C1 is the deepest in use, and takes 1 us to leave";

    #[test]
    fn a_deep_state_is_named_with_advice() {
        Machine::with(&EPYC).assert(Verdict::Reduced, DEEP);
        assert!(ADVICE.contains(&format!("-D {DEEP_US}`")));
        Machine::with(&[("C1E", DEEP_US - 1)])
            .assert(Verdict::Found, "C1E is the deepest in use, and takes 19 us to leave");
    }

    #[test]
    fn a_state_that_is_disabled_is_not_used() {
        let machine = Machine::with(&EPYC);
        machine.write("sys/devices/system/cpu/cpu1/cpuidle/state2/disable", "1\n");
        machine.assert(Verdict::Reduced, "C2 takes 800 us to leave; 1 of 2 processors may sleep so deeply");
        machine.write("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "1\n");
        machine.assert(Verdict::Found, SHALLOW);
        for state in 0..2 {
            for processor in 0..2 {
                machine.write(
                    &format!("sys/devices/system/cpu/cpu{processor}/cpuidle/state{state}/disable"),
                    "1\n",
                );
            }
        }
        machine.assert(Verdict::Found, "none may be used");
    }

    #[test]
    fn bounds_of_the_machine_or_of_a_processor_forbid_states() {
        let machine = Machine::with(&EPYC);
        machine.demand(799);
        machine.assert(Verdict::Found, SHALLOW);
        machine.demand(800);
        machine.assert(Verdict::Reduced, DEEP);
        machine.demand(0);
        machine.assert(Verdict::Found, "POLL is the deepest in use, and takes 0 us to leave");
        machine.demand(2_000_000_000);
        machine.write("sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us", "n/a\n");
        machine.write("sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us", "5\n");
        machine.assert(Verdict::Found, SHALLOW);
    }

    #[test]
    fn a_processor_that_is_off_does_not_sleep() {
        let machine = Machine::with(&EPYC);
        machine.write("sys/devices/system/cpu/cpu1/online", "0\n");
        machine.assert(Verdict::Reduced, "C2 takes 800 us to leave; 1 of 1 processors may sleep so deeply");
    }

    #[test]
    fn an_unreadable_bound_is_reported_where_it_matters() {
        let machine = Machine::with(&EPYC);
        fs::remove_file(machine.0.path().join("dev/cpu_dma_latency")).unwrap();
        let found = inspect(machine.0.path());
        assert!(found.verdict == Verdict::Unknown && found.value.starts_with(DEEP), "{}", found.value);
        let machine = Machine::with(&EPYC[..2]);
        fs::remove_file(machine.0.path().join("dev/cpu_dma_latency")).unwrap();
        machine.assert(Verdict::Found, SHALLOW);
    }

    #[test]
    fn in_a_guest_the_meaning_of_halting_is_unknown() {
        let halts = "none: idle processors at most halt";
        let left = "left to the hypervisor, which does not say how deep they are";
        let machine = Machine::with(&[]);
        machine.write("sys/devices/system/cpu/cpu0/online", "1\n");
        machine.write("proc/cpuinfo", "flags\t\t: fpu svm\nmodel name\t: hypervisor\n");
        machine.assert(Verdict::Found, halts);
        machine.write("proc/cpuinfo", "flags\t\t: fpu hypervisor svm\n");
        machine.assert(Verdict::Unknown, left);
        let machine = Machine::with(&[("POLL", 0), ("haltpoll idle", 1)]);
        machine.write("proc/cpuinfo", "flags\t\t: fpu hypervisor\n");
        machine.assert(Verdict::Found, "haltpoll idle is the deepest in use, and takes 1 us to leave");
        machine.write("sys/devices/system/cpu/cpuidle/current_driver", "haltpoll\n");
        machine.assert(Verdict::Unknown, left);
    }

    #[test]
    fn without_sysfs_nothing_is_known() {
        let nowhere = tempfile::tempdir().unwrap();
        let found = inspect(nowhere.path());
        assert!(found.verdict == Verdict::Unknown && found.value.contains("No such file"), "{}", found.value);
    }
}
