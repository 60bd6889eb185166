//! The list of policies.

use std::fmt;
use std::str::FromStr;

use crate::policy::Policy;
use crate::policy::edf::EarliestDeadline;
use crate::policy::fair::Fair;
use crate::policy::fixed_priority::FixedPriority;
use crate::policy::laxity::LeastLaxity;
use crate::policy::mlfq::MultilevelFeedback;
use crate::policy::nice::Nice;
use crate::policy::partition::Partition;
use crate::policy::quota::Quotas;
use crate::policy::slo::LatencyTargets;

/// One line per policy: variant and type, name, XSched's names, description.
macro_rules! policies {
    ($($kind:ident => $policy:ty, $name:literal $(| $alias:literal)*, $about:literal;)*) => {
        /// A policy.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum PolicyKind {
            $(#[doc = $about] $kind,)*
        }

        impl PolicyKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Its description, in a line.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$kind => $about,)* }
            }

            pub(crate) fn start(self) -> Box<dyn Policy> {
                match self { $(Self::$kind => Box::<$policy>::default(),)* }
            }
        }

        impl FromStr for PolicyKind {
            type Err = UnknownPolicy;

            /// Also accepts XSched's names, in any case.
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
    Priority => FixedPriority, "priority" | "hpf", "the process of the highest priority that has work";
    Fair => Fair, "fair" | "cfs", "processes of equal priority share device time by weight";
    Partition => Partition, "partition" | "up" | "pup", "each process is promised a part of the device time";
    Quota => Quotas, "quota", "each process has its device time in each window before others, and no more beside them";
    Edf => EarliestDeadline, "edf" | "kedf", "the process whose request is due first, or the first few side by side";
    Laxity => LeastLaxity, "laxity" | "lax", "the process that can wait for the shortest time and still be done by its deadline";
    Slo => LatencyTargets, "slo", "processes with an SLO get what keeps their latency below it, the others all the rest";
    Mlfq => MultilevelFeedback, "mlfq", "processes sink by what they use, so short work goes first without hints";
    Nice => Nice, "nice" | "chpf", "classes and weights by the CPU nice values of processes";
}

#[expect(clippy::derivable_impls, reason = "an attribute in the list above would need a line of its own")]
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
    fn a_policy_is_found_by_its_name_and_by_xscheds() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.name().parse(), Ok(*kind));
        }
        assert_eq!("HPF".parse(), Ok(PolicyKind::Priority));
        assert_eq!("Cfs".parse(), Ok(PolicyKind::Fair));
        assert_eq!("PUP".parse(), Ok(PolicyKind::Partition));
        let error = "edg".parse::<PolicyKind>().unwrap_err().to_string();
        assert!(error.starts_with("no policy `edg`; there are: priority"), "{error}");
    }
}
