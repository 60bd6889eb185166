//! Determines what this kernel can do by trying it: the tracer probes a function of its own and calls it.
//!
//! Version numbers are not sufficient: distributions backport both features and their faults.

use std::fs;
use std::io;
use std::path::Path;

use aya::maps::Array;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeScope};
use xsched_bpf::{
    BpfError,
    sys::{self, Direction},
};

use super::attach::cause;
use super::object::Programs;
use super::options::Uprobes;

/// How uprobes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// One link for all functions of a file and one direction (since kernel 6.6).
    Multi(PidFilter),
    /// One perf event for each function and direction.
    PerfEvents,
}

/// The effect of restricting a `uprobe_multi` link to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PidFilter {
    /// It selects the process: other processes do not even hit the probe.
    Process,
    /// It selects one thread only (kernels 6.6 to 6.9, [fixed in
    /// 6.10](https://github.com/torvalds/linux/commit/46ba0e49b642) and in later stable releases of 6.6 and 6.9). That
    /// is useless, so all processes are probed and the program selects.
    Thread,
}

/// The results.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// How to attach.
    pub attach: Attach,
}

/// The programs at functions: those in the table, and the loader's.
const PROGRAMS: [&str; 3] = ["call_enter", "call_return", "loader_state"];

impl Features {
    /// Probes the tracer itself. This loads programs that are needed later, so a refusal shows up here.
    ///
    /// # Errors
    ///
    /// If uprobes do not work at all, or a program is refused.
    pub fn probe(programs: &mut Programs, wanted: Uprobes) -> Result<Self, BpfError> {
        let offset = own_offset(probe_site as *const () as u64).map_err(|cause| BpfError::Attach {
            program: "self_test",
            path: OWN_FILE.into(),
            cause,
        })?;
        let multi = match wanted {
            Uprobes::Auto => multi_works(programs, offset)
                .inspect_err(|error| tracing::debug!("no uprobe_multi links: {error}"))
                .ok(),
            Uprobes::PerfEvents => None,
        };
        let attach = if let Some(filter) = multi {
            for program in PROGRAMS {
                programs.multi(program)?;
            }
            Attach::Multi(filter)
        } else {
            perf_works(programs, offset)?;
            for program in PROGRAMS {
                programs.uprobe(program)?;
            }
            Attach::PerfEvents
        };
        tracing::debug!(?attach, "attaching works");
        Ok(Self { attach })
    }
}

const OWN_FILE: &str = "/proc/self/exe";

/// The function that the tracer probes in itself.
#[inline(never)]
fn probe_site() {
    std::hint::black_box(1);
}

/// The offset of this program's code in its file.
fn own_offset(address: u64) -> io::Result<u64> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    maps.lines()
        .find_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (start, end) = fields.next()?.split_once('-')?;
            let start = u64::from_str_radix(start, 16).ok()?;
            let end = u64::from_str_radix(end, 16).ok()?;
            let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
            (start..end).contains(&address).then(|| address - start + offset)
        })
        .ok_or_else(|| io::Error::other("own code not found in /proc/self/maps"))
}

fn hits(programs: &Programs) -> Result<u64, BpfError> {
    let map = programs.ebpf.map("SELF_TEST").expect("build.rs compiles all maps into the object");
    Array::<_, u64>::try_from(map)
        .and_then(|array| array.get(&0, 0))
        .map_err(|cause| BpfError::Map { map: "SELF_TEST", cause })
}

/// Hits of the probe while `probe_site` runs on a second thread. More than one if another tracer with the same
/// executable tests itself at the same moment.
fn hits_from_thread(programs: &Programs) -> Result<u64, BpfError> {
    let before = hits(programs)?;
    std::thread::spawn(probe_site).join().expect("probe_site does not panic");
    Ok(hits(programs)? - before)
}

fn multi_works(programs: &mut Programs, offset: u64) -> Result<PidFilter, BpfError> {
    let attach_error = |cause| BpfError::Attach { program: "self_test", path: OWN_FILE.into(), cause };
    let link = |programs: &mut Programs, tgid| {
        let program = programs.multi("self_test")?;
        sys::link_uprobe_multi(
            std::os::fd::AsFd::as_fd(program),
            Direction::Enter,
            Path::new(OWN_FILE),
            &[offset],
            &[0],
            tgid,
        )
        .map_err(attach_error)
    };
    let everybody = link(programs, None)?;
    if hits_from_thread(programs)? == 0 {
        return Err(attach_error(io::Error::other("the probe did not fire")));
    }
    drop(everybody);
    let _own = link(programs, Some(std::process::id()))?;
    Ok(if hits_from_thread(programs)? > 0 { PidFilter::Process } else { PidFilter::Thread })
}

fn perf_works(programs: &mut Programs, offset: u64) -> Result<(), BpfError> {
    let attach_error = |cause| BpfError::Attach { program: "self_test", path: OWN_FILE.into(), cause };
    let program = programs.uprobe("self_test")?;
    let link = program
        .attach(UProbeAttachLocation::AbsoluteOffset(offset), OWN_FILE, UProbeScope::AllProcesses)
        .map_err(|error| attach_error(cause(error)))?;
    let fired = hits_from_thread(programs)? > 0;
    programs.uprobe("self_test")?.detach(link).map_err(|error| attach_error(cause(error)))?;
    if fired { Ok(()) } else { Err(attach_error(io::Error::other("the probe did not fire"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_code_is_found_in_the_executable() {
        let offset = own_offset(probe_site as *const () as u64).unwrap();
        let file = fs::read(OWN_FILE).unwrap();
        // SAFETY: the bytes are those of a function of this program.
        let code = unsafe { std::slice::from_raw_parts(probe_site as *const u8, 4) };
        assert_eq!(&file[offset as usize..][..4], code);
    }
}
