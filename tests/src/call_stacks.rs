//! The call stacks of a recording, read by the project's own reader: the Perfetto engine of the tests (v52) is older than
//! the field that names them.

use std::{collections::BTreeMap, fs::File, io, path::Path};

use xsched_perfetto::{ReadError, TraceEvent, TraceReader};

/// Why a recording's call stacks could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CallStacksError {
    /// The file could not be opened.
    #[error("open the recording: {0}")]
    Open(#[from] io::Error),
    /// The file is not a timeline.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The functions that called slices of this name, innermost first, with the number of slices. Slices without a call stack
/// are counted under an empty one.
pub fn call_stacks(trace: &Path, name: &str) -> Result<BTreeMap<Vec<String>, u64>, CallStacksError> {
    let mut stacks = BTreeMap::new();
    for event in TraceReader::new(File::open(trace)?) {
        if let TraceEvent::Slice(slice) = event?
            && &*slice.name == name
        {
            let frames = slice.stack.iter().flat_map(|stack| stack.iter());
            *stacks.entry(frames.map(|frame| frame.function.to_string()).collect()).or_default() += 1;
        }
    }
    Ok(stacks)
}
