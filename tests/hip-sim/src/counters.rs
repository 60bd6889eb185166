//! Counters of the requests to this copy of the library, for tests to read.
//!
//! Three lists of lines `name count`: launches by kernel, kernels that ran without a twin, and calls of
//! functions that are not implemented. Tests read them through the `hip_sim_*` exports, or from the file that
//! `HIP_SIM_REPORT` names.

use core::ffi::c_char;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard};

use crate::{boundary, config, fork};

type Counts = BTreeMap<String, u64>;

static LAUNCHES: Mutex<Counts> = Mutex::new(Counts::new());
static MISSING_TWINS: Mutex<Counts> = Mutex::new(Counts::new());
static REFUSED_CALLS: Mutex<Counts> = Mutex::new(Counts::new());
/// Launches in null mode, which looks up no kernels and therefore has no names.
static NULL_LAUNCHES: AtomicU64 = AtomicU64::new(0);

fn lock(counts: &'static Mutex<Counts>) -> MutexGuard<'static, Counts> {
    counts.lock().expect("no holder panics")
}

fn count(counts: &'static Mutex<Counts>, name: &str) {
    let mut counts = lock(counts);
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => drop(counts.insert(name.to_owned(), 1)),
    }
}

/// Counts a kernel launch.
pub(crate) fn launched(kernel: &str) {
    count(&LAUNCHES, kernel);
}

/// Counts a kernel launch in null mode.
pub(crate) fn launched_in_null_mode() {
    NULL_LAUNCHES.fetch_add(1, Ordering::Relaxed);
}

/// Counts a kernel that ran without a twin.
pub(crate) fn missed_twin(kernel: &str) {
    count(&MISSING_TWINS, kernel);
}

/// Counts a call of a function that is not implemented.
pub(crate) fn refused(function: &str) {
    count(&REFUSED_CALLS, function);
}

fn lines<'a, I: IntoIterator<Item = (&'a str, u64)>>(counts: I) -> String {
    let mut text = String::new();
    for (name, count) in counts {
        writeln!(text, "{name} {count}").expect("writing to a string cannot fail");
    }
    text
}

fn launches_text() -> String {
    let in_null_mode = NULL_LAUNCHES.load(Ordering::Relaxed);
    let nameless = (in_null_mode != 0).then_some(("*", in_null_mode));
    let named = lock(&LAUNCHES);
    lines(named.iter().map(|(name, count)| (name.as_str(), *count)).chain(nameless))
}

fn named(counts: &'static Mutex<Counts>) -> String {
    lines(lock(counts).iter().map(|(name, count)| (name.as_str(), *count)))
}

/// Copies as much of the text and its terminator as fits; returns the size of the whole text with its
/// terminator.
fn give(text: &str, buffer: *mut c_char, len: usize) -> usize {
    if !buffer.is_null() && len != 0 {
        let copied = text.len().min(len - 1);
        // SAFETY: the caller's buffer has `len` bytes.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), copied);
            buffer.add(copied).write(0);
        }
    }
    text.len() + 1
}

/// Launches by kernel; those in null mode are under `*`.
#[unsafe(no_mangle)]
extern "C" fn hip_sim_kernel_launches(buffer: *mut c_char, len: usize) -> usize {
    boundary::value(0, || give(&launches_text(), buffer, len))
}

/// Kernels that ran without a twin.
#[unsafe(no_mangle)]
extern "C" fn hip_sim_missing_twins(buffer: *mut c_char, len: usize) -> usize {
    boundary::value(0, || give(&named(&MISSING_TWINS), buffer, len))
}

/// Calls of functions that are not implemented.
#[unsafe(no_mangle)]
extern "C" fn hip_sim_unsupported_calls(buffer: *mut c_char, len: usize) -> usize {
    boundary::value(0, || give(&named(&REFUSED_CALLS), buffer, len))
}

/// Sets every counter to zero.
#[unsafe(no_mangle)]
extern "C" fn hip_sim_reset_counters() {
    boundary::value((), || {
        lock(&LAUNCHES).clear();
        lock(&MISSING_TWINS).clear();
        lock(&REFUSED_CALLS).clear();
        NULL_LAUNCHES.store(0, Ordering::Relaxed);
    });
}

/// Registers the report for process exit, if a report file is set.
pub(crate) fn report_at_exit() {
    if config::get().report.is_some() {
        // SAFETY: the function belongs to this library, which stays loaded because its threads run.
        unsafe { libc::atexit(write_report) };
    }
}

/// Appends one block with one write, so that two copies of the library may use the same file.
extern "C" fn write_report() {
    // A forked child has only its parent's counts.
    if fork::is_forked_child() {
        return;
    }
    boundary::value((), || {
        let Some(path) = &config::get().report else { return };
        let mut text = format!("process {}\n", std::process::id());
        for (title, counts) in [
            ("launch", launches_text()),
            ("missing-twin", named(&MISSING_TWINS)),
            ("unsupported", named(&REFUSED_CALLS)),
        ] {
            for line in counts.lines() {
                writeln!(text, "{title} {line}").expect("writing to a string cannot fail");
            }
        }
        let written = OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = written.and_then(|mut file| file.write_all(text.as_bytes())) {
            eprintln!("hip-sim: cannot write {}: {error}", path.display());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_buffer_gets_a_terminated_part_and_the_full_size() {
        let mut buffer = [0x7f; 4];
        assert_eq!(give("abcdef", buffer.as_mut_ptr(), 4), 7);
        assert_eq!(buffer, [0x61, 0x62, 0x63, 0]);
        assert_eq!(give("abcdef", core::ptr::null_mut(), 0), 7);
    }

    #[test]
    fn lines_are_name_and_count() {
        assert_eq!(lines([("a", 1), ("b", 20)]), "a 1\nb 20\n");
    }
}
