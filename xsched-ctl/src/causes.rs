//! The causes of an error.
//!
//! This program's messages name their causes. Libraries' messages often only say what failed, and leave the reason to
//! their source.

use std::error::Error;
use std::io;

/// An error with those of its causes that its message leaves out.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
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
pub(crate) fn is_permission(error: &(dyn Error + 'static)) -> bool {
    kinds(error).any(|kind| kind == io::ErrorKind::PermissionDenied)
}

/// The kind of the kernel's own error, if there is one.
pub(crate) fn kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    kinds(error).next()
}

fn kinds<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = io::ErrorKind> + 'a {
    chain(error).filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind)
}

/// The error and its causes, outermost first.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use aya::maps::MapError;
    use rustix::io::Errno;

    use super::*;
    use crate::bpf::BpfError;

    #[test]
    fn a_map_that_is_refused_says_why() {
        let refused = MapError::CreateError { name: "OWNERS".to_owned(), io_error: Errno::PERM.into() };
        let error = BpfError::Object(aya::EbpfError::from(refused));
        assert_eq!(
            with_causes(&error),
            "the kernel refused the BPF maps: map error: failed to create map `OWNERS`: Operation not permitted (os error 1)"
        );
        assert!(is_permission(&error));
        let gone = BpfError::Load { program: "report", cause: Errno::INVAL.into(), log: String::new() };
        assert_eq!(
            with_causes(&gone),
            "the kernel refused the BPF program `report`: Invalid argument (os error 22)",
            "nothing is repeated"
        );
        assert!(!is_permission(&gone));
    }
}
