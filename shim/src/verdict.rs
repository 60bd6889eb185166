//! How the calls of different callers are treated: scheduled, passed through, or never held back.

mod random;

use crate::defer::Stopped;
use crate::xqueue::Treatment;

/// How a call that puts work on a stream, or waits for some, is to be treated.
pub(crate) fn treatment(_call: &Stopped<'_>) -> Treatment {
    random::treatment().unwrap_or_default()
}
