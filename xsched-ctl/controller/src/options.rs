//! How the controller is started.

use std::path::PathBuf;

use xsched_metrics::Listen;
use xsched_sched::PolicyKind;

/// How the controller is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The configuration file; none for the usual one, if it is there.
    pub config: Option<PathBuf>,
    /// Goes before the policy of the configuration.
    pub policy: Option<PolicyKind>,
    /// Goes before the rules of the configuration.
    pub rules: Option<PathBuf>,
    /// Decide, but defer nothing.
    pub observe: bool,
    /// Where to answer requests for metrics; goes before the address of the configuration.
    pub metrics: Option<Listen>,
    /// Other machines may reach that address.
    pub metrics_public: bool,
    /// Do without BPF programs.
    pub no_bpf: bool,
    /// Read the files, say what would hold, and start nothing.
    pub check: bool,
    /// Print as one JSON object how the controller is, as soon as processes can join.
    pub json: bool,
}
