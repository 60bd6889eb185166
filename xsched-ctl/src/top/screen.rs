//! The terminal while it is drawn on, and as it was afterwards.

use std::io;

use ratatui::{DefaultTerminal, Frame};

/// The terminal's other screen, without echo. Dropping it, or a panic, restores the terminal.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                // It may have come half way.
                let _ = ratatui::try_restore();
                Err(error)
            }
        }
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Then it is restored already, and a message stands on it.
        if std::thread::panicking() {
            return;
        }
        let _ = self.0.show_cursor();
        // A terminal that is gone needs nothing.
        let _ = ratatui::try_restore();
    }
}
