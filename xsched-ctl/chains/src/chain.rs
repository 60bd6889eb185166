//! A call chain with names: the callers down to a function of a runtime.

use std::sync::Arc;

use clap::ValueEnum;
use xsched_abi::ChainEnd;
use xsched_perfetto::{Stack, StackFrame};

/// The callers of a function of a runtime.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Innermost first. Never empty.
    pub frames: Vec<Frame>,
    /// Why there are no more of them.
    pub end: ChainEnd,
    /// The libraries that it passes through, innermost first, each once for any number of consecutive frames:
    /// `librocblas.so < libhipblaslt.so < python3.11`. It ends in `…` if there may be more.
    pub libraries: Arc<str>,
    /// Its functions, innermost first, in the same way; the library in brackets for those without a name.
    pub stack: Stack,
    /// File name of the library to which its calls belong by the rules; the caller's if they name none.
    pub origin: Arc<str>,
    /// Whether frames were found behind generated code, which has no tables: by its frame pointers or its instructions.
    pub passes_generated: bool,
}

/// Library of frames in code that is in no file.
pub const GENERATED: &str = "[generated]";

/// How frames are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Label {
    /// Functions, by name
    #[default]
    Name,
    /// Return addresses, to compare chains with those of other unwinders
    Address,
}

/// Where a call came from.
#[derive(Clone, Debug)]
pub struct Caller {
    /// File name of the library or executable; a name in brackets for code that is in no file.
    pub library: Arc<str>,
    /// Its function, demangled.
    pub symbol: Option<Arc<str>>,
    /// The return address.
    pub address: u64,
}

/// One function of a chain.
#[derive(Clone, Debug)]
pub struct Frame {
    /// File name of the library or executable; a name in brackets for code that is in no file.
    pub library: Arc<str>,
    /// Its function, without parameters.
    pub name: Option<Arc<str>>,
    /// Where execution continues when the call returns; in a function interrupted by a signal, where it was
    /// interrupted.
    pub address: u64,
}

impl Chain {
    /// A chain of at least one frame, innermost first; `origin` as the rules determine it.
    pub fn new(frames: Vec<Frame>, end: ChainEnd, origin: Option<Arc<str>>, label: Label) -> Self {
        let mut libraries: Vec<&str> = frames.iter().map(|frame| &*frame.library).collect();
        libraries.dedup();
        let mut stack: Vec<_> = frames.iter().map(|frame| frame.shown(label)).collect();
        if end != ChainEnd::Complete {
            libraries.push("…");
            stack.push(StackFrame { function: "…".into(), library: "".into() });
        }
        let (libraries, stack) = (libraries.join(" < ").into(), stack.into());
        let origin =
            origin.unwrap_or_else(|| frames.first().map_or("".into(), |frame| frame.library.clone()));
        let passes_generated = frames.iter().rev().skip(1).any(|frame| &*frame.library == GENERATED);
        Self { frames, end, libraries, stack, origin, passes_generated }
    }

    /// The remainder of a lost chain: the immediate caller.
    pub fn lost(caller: &Caller) -> Self {
        let Caller { library, symbol: name, address } = caller.clone();
        Self::new(vec![Frame { library, name, address }], ChainEnd::Lost, None, Label::Name)
    }
}

impl Frame {
    fn shown(&self, label: Label) -> StackFrame {
        let function = match (label, &self.name) {
            (Label::Address, _) => format!("{:#x}", self.address).into(),
            (Label::Name, Some(name)) => Arc::clone(name),
            (Label::Name, None) => format!("[{}]", self.library).into(),
        };
        StackFrame { function, library: Arc::clone(&self.library) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(libraries: &[&str], end: ChainEnd) -> Chain {
        let frames =
            libraries.iter().map(|&library| Frame { library: library.into(), name: None, address: 0 });
        Chain::new(frames.collect(), end, None, Label::Name)
    }

    #[test]
    fn frames_of_one_library_in_a_row_are_shown_once() {
        let chain = chain(&["a.so", "a.so", "b.so", "a.so", "app"], ChainEnd::Complete);
        assert_eq!(&*chain.libraries, "a.so < b.so < a.so < app");
    }

    #[test]
    fn a_cut_chain_is_marked() {
        assert_eq!(&*chain(&["a.so"], ChainEnd::NoTable).libraries, "a.so < …");
    }

    #[test]
    fn a_chain_passes_through_generated_code_if_it_goes_on_behind_it() {
        let passes = |libraries: &[&str]| chain(libraries, ChainEnd::Complete).passes_generated;
        assert!(passes(&["a.so", GENERATED, "app"]));
        assert!(!passes(&["a.so", GENERATED]) && !passes(&["a.so", "app"]));
    }
}
