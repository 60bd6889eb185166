//! The command line of the field kit.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use xsched_field::{Include, Mode, Step};

use super::units::duration;

#[derive(Args, Debug)]
pub(crate) struct Field {
    /// Short measurements, for a first look
    #[arg(long)]
    quick: bool,

    /// What to do; several with commas between them [default: all]
    #[arg(long, value_enum, value_name = "STEP", value_delimiter = ',')]
    steps: Vec<Step>,

    /// How programs run; several with commas between them [default: every way]
    #[arg(long, value_enum, value_name = "MODE", value_delimiter = ',')]
    modes: Vec<Mode>,

    /// The report: NAME.html and NAME.json [default: xsched-field-DATE-TIME in the current folder]
    #[arg(short, long, value_name = "NAME")]
    output: Option<PathBuf>,

    /// The interpreter that has PyTorch [default: python3]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,

    /// libamdhip64 or libcuda, where the loader does not find it
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// The shim [default: libxsched_shim.so next to xsched-ctl or in ../lib]
    #[arg(long, value_name = "FILE")]
    shim: Option<PathBuf>,

    /// What the report leaves out otherwise
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    include: Vec<Include>,

    /// The most time for one step
    #[arg(long, value_name = "TIME", default_value = "4m", value_parser = duration)]
    step_limit: Duration,
}

impl Field {
    /// What is to be done.
    pub(crate) fn options(self) -> xsched_field::Options {
        let Self { quick, steps, modes, output, python, library, shim, include, step_limit } = self;
        xsched_field::Options { quick, steps, modes, output, python, library, shim, include, step_limit }
    }
}

#[derive(Args, Debug)]
pub(crate) struct FieldClient {
    /// A mode, and its settings
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}
