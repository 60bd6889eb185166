//! The causes of an error.
//!
//! This program's messages name their causes. Libraries' messages often only say what failed, and leave the reason to
//! their source.

use std::error::Error;
use std::io;

/// An error with those of its causes that its message leaves out.
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

/// Whether the kernel has refused something because a permission is missing.
pub fn is_permission(error: &(dyn Error + 'static)) -> bool {
    kinds(error).any(|kind| kind == io::ErrorKind::PermissionDenied)
}

/// The kind of the kernel's own error, if there is one.
pub fn kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    kinds(error).next()
}

fn kinds<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = io::ErrorKind> + 'a {
    chain(error).filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind)
}

/// The error and its causes, outermost first.
pub(crate) fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
