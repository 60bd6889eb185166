//! What the viewer's errors advise.

use xsched_terminal::{Advice, ExitCode};

/// A recording cannot be shown.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ViewError(#[from] pub trace_viewer::Failure);

impl Advice for ViewError {
    fn hint(&self) -> Option<String> {
        self.0.hint()
    }

    fn exit_code(&self) -> ExitCode {
        // The viewer is a program of its own, too, with the same exit codes.
        let code = self.0.exit_code();
        [ExitCode::BadData, ExitCode::NoTarget, ExitCode::Unavailable]
            .into_iter()
            .find(|known| u8::from(*known) == code)
            .unwrap_or(ExitCode::Software)
    }
}
