//! Policies: how urgent the queues of one device are beside each other.
//!
//! A policy ranks; it knows nothing of levels, of starvation or of other devices. To add one: one file with an
//! implementation of [`Policy`], and one line in `policies!`.

mod fair;
mod fixed_priority;
mod partition;
mod virtual_time;

use std::fmt;
use std::str::FromStr;

use crate::device::{Process, Queue};
use crate::ranks::Ranks;
use crate::{Attributes, Nanos, Settings};

/// What a policy sees of its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) now: Nanos,
    pub(crate) settings: &'a Settings,
    pub(crate) queues: &'a [Queue],
    /// [`Queue::process`] is an index of these.
    pub(crate) processes: &'a [Process],
    /// Indices of those whose work or charge may have changed since the last call: all where anything is altered.
    pub(crate) changed: &'a [usize],
    /// Queues came or went, or something else is known of one, since the last call.
    pub(crate) altered: bool,
    /// Somebody has a turn now and work to use it for, whatever the ranks are.
    pub(crate) turn: bool,
}

/// One policy on one device.
///
/// Processes are known by their index. A policy that keeps something for each of them has a `Vec` beside
/// [`View::processes`], which [`Policy::joined`] and [`Policy::left`] keep in step.
pub(crate) trait Policy: fmt::Debug + Send {
    /// A process has been added at the end.
    fn joined(&mut self) {}

    /// Whether ranks depend on who has work and on what was used, and not only on who there is.
    fn follows_work(&self) -> bool {
        true
    }

    /// A process is gone; the last one has taken its place.
    fn left(&mut self, index: usize) {
        let _ = index;
    }

    /// Sets the rank of each queue of [`View::queues`], by its index. What was set last time stays, unless queues were
    /// altered. Returns when it wants to be asked again, if nothing happens before.
    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos>;
}

/// Larger priorities first.
fn downwards(priority: i16) -> u16 {
    Attributes::PRIORITY_MAX.abs_diff(priority)
}

/// The list of policies: variant and type, name, XSched's names, what it says of itself.
macro_rules! policies {
    ($($kind:ident => $policy:ty, $name:literal $(| $alias:literal)*, $about:literal;)*) => {
        /// Which policy.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum PolicyKind {
            $(#[doc = $about] $kind,)*
        }

        impl PolicyKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// As it is written on a command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// What it does, in a line.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$kind => $about,)* }
            }

            pub(crate) fn start(self) -> Box<dyn Policy> {
                match self { $(Self::$kind => Box::<$policy>::default(),)* }
            }
        }

        impl FromStr for PolicyKind {
            type Err = UnknownPolicy;

            /// Takes XSched's names, too. Case does not matter.
            fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
                match name.to_ascii_lowercase().as_str() {
                    $($name $(| $alias)* => Ok(Self::$kind),)*
                    _ => Err(UnknownPolicy { name: name.to_owned() }),
                }
            }
        }
    };
}

policies! {
    Priority => fixed_priority::FixedPriority, "priority" | "hpf", "the process of the highest priority that has work";
    Fair => fair::Fair, "fair" | "cfs", "processes of equal priority share device time by weight";
    Partition => partition::Partition, "partition" | "up" | "pup", "each process is promised a part of the device time";
}

#[expect(clippy::derivable_impls, reason = "the list above has no place for an attribute of one line")]
impl Default for PolicyKind {
    fn default() -> Self {
        Self::Priority
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No policy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no policy `{name}`; there are: {}", names())]
pub struct UnknownPolicy {
    name: String,
}

fn names() -> String {
    let names: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_found_by_its_name_and_by_that_of_xsched() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.name().parse(), Ok(*kind));
        }
        assert_eq!("HPF".parse(), Ok(PolicyKind::Priority));
        assert_eq!("Cfs".parse(), Ok(PolicyKind::Fair));
        assert_eq!("PUP".parse(), Ok(PolicyKind::Partition));
        let error = "edf".parse::<PolicyKind>().unwrap_err().to_string();
        assert!(error.starts_with("no policy `edf`; there are: priority"), "{error}");
    }
}
