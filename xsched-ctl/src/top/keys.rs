//! The keyboard, read by a thread of its own: a read waits, and the loop must not.

use std::io;
use std::thread;

use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What the terminal sends, changes of its size included. It ends with the terminal.
pub(super) fn read() -> io::Result<UnboundedReceiver<Event>> {
    let (send, events) = unbounded_channel();
    // Nothing ends it while it reads: the process does.
    thread::Builder::new().name("keyboard".to_owned()).spawn(move || {
        while let Ok(event) = event::read() {
            if send.send(event).is_err() {
                break;
            }
        }
    })?;
    Ok(events)
}
