//! Executes commands, one on each line of its input: as an application that reports to the arbiter, or with a folder for pins
//! as its argument, as the controller.

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use xsched_arbiter::{Arbiter, Owner, Times};
use xsched_tests::arbiter::xsched_arbiter_report;

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args_os().nth(1) {
        None => application(),
        Some(pins) => controller(Path::new(&pins)),
    }
}

fn say(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

fn application() -> Result<(), Box<dyn Error>> {
    say("ready")?;
    let mut line = String::new();
    // It must not read ahead: after `exec` the next program continues with the input.
    while std::io::stdin().lock().read_line(&mut line)? > 0 {
        let words: Vec<_> = line.split_whitespace().collect();
        let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
        match (words.first().copied(), numbers.as_slice()) {
            (Some("report"), &[operation, slot, argument]) => {
                xsched_arbiter_report(operation, slot, argument);
            }
            (Some("report-from-child"), &[operation, slot, argument]) => {
                // SAFETY: there is one thread, and the child only calls a function that does nothing.
                match unsafe { libc::fork() } {
                    0 => {
                        xsched_arbiter_report(operation, slot, argument);
                        // SAFETY: ends the child at once.
                        unsafe { libc::_exit(0) };
                    }
                    child => {
                        let mut status = 0;
                        // SAFETY: waits for the child; `status` is valid for writing.
                        unsafe { libc::waitpid(child, &raw mut status, 0) };
                        if status != 0 {
                            return Err(format!("the child has ended with {status:#x}").into());
                        }
                    }
                }
            }
            (Some("exec"), []) => return Err(Command::new("/proc/self/exe").exec().into()),
            (Some("end-first-thread"), []) => {
                thread::spawn(|| thread::sleep(Duration::from_hours(1)));
                say("done")?;
                // SAFETY: ends only this thread; the other one continues.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            }
            _ => return Err(format!("unknown command {line:?}").into()),
        }
        say("done")?;
        line.clear();
    }
    Ok(())
}

fn controller(pins: &Path) -> Result<(), Box<dyn Error>> {
    let mut arbiter = Arbiter::programs_pinned_at(pins, &Times::default())?;
    arbiter.heartbeat();
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    say("ready")?;
    loop {
        match lines.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => say(&order(&mut arbiter, &line)?)?,
            Err(RecvTimeoutError::Timeout) => arbiter.heartbeat(),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn order(arbiter: &mut Arbiter, line: &str) -> Result<String, Box<dyn Error>> {
    let words: Vec<_> = line.split_whitespace().collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    Ok(match (words.first().copied(), numbers.as_slice()) {
        (Some("expect"), &[pid]) => {
            let shim = arbiter.search(pid as u32)?.run()?.probe()?;
            arbiter.expect(shim)?.to_string()
        }
        (Some("joined"), &[token]) => arbiter.joined(token).map_or(0, |owner| owner.0).to_string(),
        (Some("open"), &[owner, device, level]) => {
            let claim = arbiter.open(Owner(owner), device, level as u8)?.claim;
            format!("{} {}", claim.slot, claim.generation)
        }
        _ => return Err(format!("unknown command {line:?}").into()),
    })
}
