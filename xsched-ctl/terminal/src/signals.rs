//! Signals: what each that would end this program means instead.
//!
//! | signal | `trace`, `attach`, `field` | `run` | `serve` | other verbs |
//! | --- | --- | --- | --- | --- |
//! | SIGINT, SIGQUIT | end; with a command, it decides | the command decides | end | as usual |
//! | SIGTERM, SIGHUP, SIGALRM, SIGVTALRM, SIGPROF | end, with the command | end the command | end; SIGHUP reads files again | as usual |
//! | SIGXCPU | end the recording | nothing | end | as usual |
//! | SIGUSR1 | dump | for the command | nothing | as usual |
//! | SIGUSR2 | for the command | for the command | nothing | as usual |
//! | SIGXFSZ, SIGPIPE | an error of the write, in every verb | | | |
//!
//! "End" is an orderly end, with the table and the rest of the file. Timers and limits pass from program to program, so they may
//! be those of a script that has started this one. The others that end a program, such as SIGIO, come unasked from nowhere.
//!
//! A command has the dispositions that this program was started with: the kernel resets those that are caught, and
//! [`Signals::give_back`] ignores again what was ignored.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Internal;

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Ctrl-C. The terminal sends it to the whole foreground process group, including a traced command.
    Interrupt,
    /// This process should end.
    Terminate,
    /// The limit of CPU time is reached: soon the kernel ends this process.
    OutOfTime,
    /// A dump is requested (`SIGUSR1`).
    Dump,
    /// For the command, if there is one (`SIGUSR2`).
    Other,
}

impl Request {
    /// The signal that a command gets which should learn of it.
    pub fn passed_on(self) -> libc::c_int {
        match self {
            Self::Interrupt => libc::SIGINT,
            Self::Terminate => libc::SIGTERM,
            Self::OutOfTime => libc::SIGXCPU,
            Self::Dump => libc::SIGUSR1,
            Self::Other => libc::SIGUSR2,
        }
    }
}

/// What is caught.
const CAUGHT: [(libc::c_int, Request); 10] = [
    (libc::SIGINT, Request::Interrupt),
    (libc::SIGQUIT, Request::Interrupt),
    (libc::SIGTERM, Request::Terminate),
    (libc::SIGHUP, Request::Terminate),
    (libc::SIGALRM, Request::Terminate),
    (libc::SIGVTALRM, Request::Terminate),
    (libc::SIGPROF, Request::Terminate),
    (libc::SIGXCPU, Request::OutOfTime),
    (libc::SIGUSR1, Request::Dump),
    (libc::SIGUSR2, Request::Other),
];

/// The caught signals.
pub struct Signals {
    caught: Vec<(Signal, Request)>,
    /// Those among them that were ignored before.
    ignored: Vec<libc::c_int>,
}

impl Signals {
    /// Catches them from here on. SIGHUP stays ignored if it was ignored before, as by nohup(1): then this process and
    /// its children survive the end of the terminal.
    pub fn catch() -> Result<Self, Internal> {
        Self::catch_if(|number| number != libc::SIGHUP || !is_ignored(number))
    }

    /// The same without SIGHUP, which tells a service to read its files again.
    pub fn catch_for_service() -> Result<Self, Internal> {
        Self::catch_if(|number| number != libc::SIGHUP)
    }

    fn catch_if(wanted: impl Fn(libc::c_int) -> bool) -> Result<Self, Internal> {
        let wanted = || CAUGHT.into_iter().filter(|(number, _)| wanted(*number));
        let ignored = wanted().map(|(number, _)| number).filter(|number| is_ignored(*number)).collect();
        let catch = |(number, request)| Ok((signal(SignalKind::from_raw(number))?, request));
        let caught = wanted().map(catch).collect::<io::Result<_>>();
        Ok(Self { caught: caught.map_err(Internal::at("catching signals"))?, ignored })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Request {
        poll_fn(|context| {
            let mut caught = self.caught.iter_mut();
            let come = caught.find_map(|(signal, request)| match signal.poll_recv(context) {
                Poll::Ready(_) => Some(*request),
                Poll::Pending => None,
            });
            come.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Starts a command. It ignores what was ignored before it was caught here, and so does this process meanwhile.
    pub fn give_back<T>(&self, start: impl FnOnce() -> T) -> T {
        let caught: Vec<_> = self.ignored.iter().map(|&number| (number, action(number, None))).collect();
        for (number, caught) in &caught {
            action(*number, Some(&libc::sigaction { sa_sigaction: libc::SIG_IGN, ..*caught }));
        }
        let started = start();
        for (number, caught) in &caught {
            action(*number, Some(caught));
        }
        started
    }
}

/// From here on a write beyond the limit of file sizes (`ulimit -f`) is an error, like one to a closed pipe, and does not end
/// this program. Unlike an ignored signal, a caught one has its default again in started commands.
pub fn survive_writes() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    if !is_ignored(libc::SIGXFSZ) {
        // SAFETY: the handler does nothing, so it may run at any moment.
        unsafe { libc::signal(libc::SIGXFSZ, handler as libc::sighandler_t) };
    }
}

/// Whether a signal is ignored; the parent process may have arranged that.
fn is_ignored(number: libc::c_int) -> bool {
    action(number, None).sa_sigaction == libc::SIG_IGN
}

/// The action of a signal, and the one that replaces it.
fn action(number: libc::c_int, new: Option<&libc::sigaction>) -> libc::sigaction {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a new action comes from here or ignores the signal, and there is space for the present one.
    unsafe { libc::sigaction(number, new, before.as_mut_ptr()) };
    // SAFETY: all bits zero, which mean the default, are an action.
    unsafe { before.assume_init() }
}
