//! What lies beneath an error.
//!
//! Messages of this program name their causes. Those of libraries often say what they were doing, and leave it to their source to say
//! why it failed.

use std::error::Error;
use std::io;

/// An error, and what lies beneath it where the words above leave that out.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string().trim_end().to_owned();
    for cause in chain(error).skip(1).map(ToString::to_string) {
        let cause = cause.trim_end();
        if !words.contains(cause) {
            words.push_str(": ");
            words.push_str(cause);
        }
    }
    words
}

/// Whether the kernel has refused something for want of a permission.
pub fn is_permission(error: &(dyn Error + 'static)) -> bool {
    kinds(error).any(|kind| kind == io::ErrorKind::PermissionDenied)
}

/// Of what kind the kernel's own error is, if there is one.
pub fn kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    kinds(error).next()
}

fn kinds<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = io::ErrorKind> + 'a {
    chain(error).filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind)
}

/// From the error down.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
