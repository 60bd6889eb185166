//! What can go wrong in the minimal client.

use super::functions::Interface;

/// Why a mode of the client has no result. The first call that failed is named.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("cannot load {name}: {}", loader_says(.cause))]
    NoLibrary {
        name: String,
        #[source]
        cause: libloading::Error,
    },
    #[error("the library has no function `{0}`")]
    NoFunction(String),
    #[error("{call} failed with {code}")]
    Call { call: &'static str, code: i32 },
    #[error("{} has no device", .0.name())]
    NoDevice(Interface),
    #[error("HIP: {hip}; CUDA: {cuda}")]
    NoRuntime { hip: Box<Self>, cuda: Box<Self> },
    #[error("the kernels do not load: {0}")]
    Kernels(String),
    #[error("{0} of {1} results are wrong")]
    Wrong(usize, usize),
    #[error(
        "a kernel's time does not follow its length: {short_us:.0} us, and {long_us:.0} us for four times as much"
    )]
    Calibration { short_us: f64, long_us: f64 },
    #[error("{0}")]
    NotHere(&'static str),
    #[error("{0}")]
    Usage(String),
}

/// The result of a call: 0 is success in both interfaces and in their libraries.
pub(super) fn check(call: &'static str, code: i32) -> Result<(), Trouble> {
    if code == 0 { Ok(()) } else { Err(Trouble::Call { call, code }) }
}

/// The loader's own message, which names the library that is missing.
fn loader_says(error: &libloading::Error) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), ToString::to_string)
}
