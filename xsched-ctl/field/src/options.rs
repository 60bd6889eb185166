//! What the kit is asked to do.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How `xsched-ctl field` was called.
#[derive(Clone, Debug)]
pub struct Options {
    /// Short measurements.
    pub quick: bool,
    /// What to do, in the order of [`Step::ALL`]; empty for everything.
    pub steps: Vec<Step>,
    /// How programs run, in the order of [`Mode::ALL`]; empty for every way.
    pub modes: Vec<Mode>,
    /// The report's path without `.html` and `.json`.
    pub output: Option<PathBuf>,
    /// The interpreter that has PyTorch.
    pub python: Option<PathBuf>,
    /// The runtime's library.
    pub library: Option<PathBuf>,
    /// The shim, for `xsched-ctl run --shim`.
    pub shim: Option<PathBuf>,
    /// What the report may have in it.
    pub include: Vec<Include>,
    /// The most time for one step.
    pub step_limit: Duration,
}

/// What a report leaves out unless it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Include {
    /// The names of this host and its users, and paths
    Names,
    /// The recording, which has such names in it
    Recording,
}

/// A step of the kit.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// What `xsched-ctl doctor` says
    Doctor,
    /// A program that needs nothing but the runtime, and checks the order of its launches
    Client,
    /// The host's time for a launch
    Launch,
    /// What an open gate before each kernel costs
    Gate,
    /// Urgent requests beside batch jobs
    Preemption,
    /// A matrix product by hipBLAS or cuBLAS
    Blas,
    /// A convolution by MIOpen
    Convolution,
    /// PyTorch, one call after the other
    Torch,
    /// BERT in six processes of three classes
    Bert,
    /// ResNet-18 at 20 requests a second beside ResNet-50 in large batches
    Resnet,
    /// A recording of a scheduled program
    Recording,
}

impl Step {
    /// All, in their order.
    pub const ALL: [Self; 11] = [
        Self::Doctor,
        Self::Client,
        Self::Launch,
        Self::Gate,
        Self::Preemption,
        Self::Blas,
        Self::Convolution,
        Self::Torch,
        Self::Bert,
        Self::Resnet,
        Self::Recording,
    ];

    /// The heading of its section.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Doctor => "What xsched-ctl doctor says",
            Self::Client => "A minimal client: order and results of launches",
            Self::Launch => "Launch overhead",
            Self::Gate => "Cost of a gate",
            Self::Preemption => "Urgent requests beside batch jobs",
            Self::Blas => "Matrix product by the vendor's library",
            Self::Convolution => "Convolution by MIOpen",
            Self::Torch => "PyTorch, one call after the other",
            Self::Bert => "BERT in six processes of three classes",
            Self::Resnet => "ResNet-18 beside ResNet-50",
            Self::Recording => "A recording",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

/// How programs run.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Without the shim
    Native,
    /// Under a controller, with the default rules
    Scheduled,
    /// The same with the rules of profile `compat`
    Compat,
}

impl Mode {
    /// All, in the order in which they are measured.
    pub const ALL: [Self; 3] = [Self::Native, Self::Scheduled, Self::Compat];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Scheduled => "scheduled",
            Self::Compat => "compat",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_listed_once_and_in_order() {
        assert_eq!(Step::ALL.as_slice(), Step::value_variants());
        assert!(Step::ALL.is_sorted());
        assert_eq!(Step::Resnet.to_string(), "resnet");
    }
}
