//! `xsched-ctl top`: the processes under the controller on a whole terminal, and keys that change their parameters.
//!
//! ```text
//!   keys ──► State::key ──► Effect::Ask ──► link ──► controller
//!              ▲    │                        │
//!   News ──────┘    └─► draw, after each     └─► News
//! ```
//!
//! The state is all that is drawn, and only this loop changes it. Nothing here waits for the controller.

mod draw;
#[cfg(test)]
mod fixture;
mod keys;
mod link;
mod rows;
mod screen;
mod state;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use ratatui::crossterm::event::{Event, KeyEventKind};
use tokio::sync::mpsc;
use xsched_terminal::{Internal, Request as Signal, Signals};

use crate::cli;
use crate::failure::Failure;
use draw::{Palette, draw};
use screen::Screen;
use state::{Effect, State};

/// Requests that may wait for an answer. More cannot be typed within the time that the controller has for one.
const ORDERS_MAX: usize = 64;

pub(crate) async fn run(arguments: cli::Top) -> Result<u8, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::NoTerminal);
    }
    let mut signals = Signals::catch()?;
    let (orders, asked) = mpsc::channel(ORDERS_MAX);
    let (tell, mut news) = mpsc::unbounded_channel();
    tokio::spawn(link::keep(asked, tell, Duration::from_secs_f64(arguments.interval)));

    let mut screen = Screen::enter().map_err(Internal::at("preparing the terminal"))?;
    let mut events = keys::read().map_err(Internal::at("starting a thread for the keyboard"))?;
    let palette = Palette::of_environment();
    let mut state = State::default();
    loop {
        screen.draw(|frame| draw(frame, &state, palette)).map_err(Internal::at("drawing on the terminal"))?;
        let effect = tokio::select! {
            event = events.recv() => match event {
                Some(Event::Key(key)) if key.kind == KeyEventKind::Press => state.key(key),
                // A changed size: it is drawn again.
                Some(_) => Effect::None,
                // The terminal is gone.
                None => Effect::Quit,
            },
            Some(news) = news.recv() => {
                state.take(news);
                Effect::None
            }
            signal = signals.next() => match signal {
                Signal::Interrupt | Signal::Terminate => Effect::Quit,
                Signal::OutOfTime | Signal::Dump | Signal::Other => Effect::None,
            },
        };
        match effect {
            Effect::None => {}
            Effect::Quit => return Ok(0),
            Effect::Ask(request) => {
                if orders.try_send(request).is_err() {
                    state.refuse("too many requests wait for the controller");
                }
            }
        }
    }
}
