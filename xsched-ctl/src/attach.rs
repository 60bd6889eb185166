//! `xsched-ctl attach`: live totals of launches.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;
use xsched_terminal::{Request, Signals, say};
use xsched_tracer::{Destination, Recorder, Session, Sink, Targets, check_privileges, find_process};

use crate::cli;
use crate::ending::{Finishing, Limits};
use crate::failure::Failure;
use crate::pods::{self, Pods};
use crate::{trace, trace_config};

pub(crate) async fn run(arguments: cli::Attach) -> Result<u8, Failure> {
    let settings = arguments.recording.settings()?;
    let output = arguments.recording.output_if_asked()?;
    check_privileges()?;
    let target = arguments.pid.map(find_process).transpose()?;
    let mut display = Display::new(!matches!(output, Some((Destination::Stdout, _))));
    let mut signals = Signals::catch()?;
    let is_recorded = output.is_some();
    let sink = output.map(|(destination, format)| Sink::open(destination, format)).transpose()?;
    let mut recorder = Recorder::new(sink, arguments.recording.style())?;
    if target.is_none() {
        recorder = recorder.per_process();
    }
    recorder.configure(trace_config::gather().await)?;
    let mut session =
        Session::start(target.map_or(Targets::Everybody, Targets::Process), settings, recorder)?;
    let watched = target.map_or_else(|| "every process".to_owned(), |pid| format!("process {pid}"));
    for runtime in session.runtimes() {
        say!("attached to {watched}: {}", runtime.display());
    }
    say!("Ctrl-C detaches");

    let pods = pods::follow();
    let started = Instant::now();
    let limits = Limits::begin(arguments.recording.duration);
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(arguments.interval));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        tokio::select! {
            request = signals.next() => match request {
                Request::Dump => session.dump(trace::SIGNALLED),
                Request::OutOfTime => limits.out_of_time(),
                Request::Other => {}
                Request::Interrupt | Request::Terminate => break,
            },
            _ = ticks.tick() => display.show(started.elapsed(), session.recorder(), &pods.borrow(), target),
            worked = limits.work(&mut session) => worked?,
        }
        let notices = session.take_notices();
        if !notices.is_empty() {
            display.clear();
            trace::tell(notices);
        }
        if let Some(reason) = limits.reached(&mut session)? {
            say!("watching ends: {reason}");
            break;
        }
        if display.is_unread && !is_recorded {
            say!("watching ends: the summaries are no longer read");
            break;
        }
        if session.target_has_ended() {
            say!("{watched} has ended");
            break;
        }
    }
    let recorded = Finishing::of(session).wait(&mut signals, &limits).await?;
    display.clear();
    trace::tell(recorded.notices.iter().cloned());
    if let Some(machine) = &recorded.machine {
        display.print(&format!("{}\n", machine.table(|pid| pods.borrow().get(&pid).cloned())));
    }
    display.print(&format!("{}detached after {:.1} s\n", recorded.summary, started.elapsed().as_secs_f64()));
    if let Some((destination, bytes)) = &recorded.trace {
        say!("{bytes} bytes in {destination}");
    }
    trace::print_driver_summary(&recorded);
    trace::report_losses(&recorded);
    recorded.failure.map_or(Ok(0), |failure| Err(failure.into()))
}

/// The live summary: redrawn in place on a terminal, otherwise printed again each time.
struct Display {
    to_stdout: bool,
    redraws: bool,
    lines: usize,
    /// The reader of the summaries has gone.
    is_unread: bool,
}

impl Display {
    /// Standard output, unless the trace goes there.
    fn new(to_stdout: bool) -> Self {
        let redraws = if to_stdout { io::stdout().is_terminal() } else { io::stderr().is_terminal() };
        Self { to_stdout, redraws, lines: 0, is_unread: false }
    }

    fn show(&mut self, elapsed: Duration, recorder: &Recorder, pods: &Pods, target: Option<NonZeroU32>) {
        let mut text = match recorder.machine() {
            Some(machine) => machine.table(|pid| pods.get(&pid).cloned()),
            None => recorder.summary().to_string(),
        };
        let summary = recorder.summary();
        let pod = target.and_then(|pid| pods.get(&pid.get()));
        let _ = writeln!(
            text,
            "{:.1} s, {}, {} launches, {} lost{}",
            elapsed.as_secs_f64(),
            summary.calls(),
            summary.launches(),
            recorder.lost().calls(),
            pod.map(|pod| format!(", pod {pod}")).unwrap_or_default()
        );
        self.clear();
        if !self.redraws {
            text.push('\n');
        }
        self.print(&text);
        self.lines = text.lines().count();
    }

    /// Clears the last summary from the terminal.
    fn clear(&mut self) {
        if self.redraws && self.lines > 0 {
            // Moves up by that many lines, then erases to the end of the screen.
            self.print(&format!("\x1b[{}A\x1b[J", self.lines));
        }
        self.lines = 0;
    }

    fn print(&mut self, text: &str) {
        let outcome = if self.to_stdout {
            let mut stdout = io::stdout().lock();
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        } else {
            io::stderr().lock().write_all(text.as_bytes())
        };
        // A full disk may have space again.
        self.is_unread |= outcome.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    }
}
