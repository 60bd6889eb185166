//! A call chain with names: who called whom down to a HIP function.

use std::sync::Arc;

use xsched_abi::ChainEnd;

use crate::call::Caller;

/// The callers of a HIP function.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "frames are not shown yet")]
pub(crate) struct Chain {
    /// Innermost first. Never empty.
    pub(crate) frames: Vec<Frame>,
    /// Why there are no more of them.
    pub(crate) end: ChainEnd,
    /// The libraries that it passes through, innermost first, each once for any number of its frames in a row:
    /// `librocblas.so < libhipblaslt.so < python3.11`. It ends in `…` if there may be more.
    pub(crate) libraries: Arc<str>,
    /// File name of the library to which its calls belong by the rules; the caller's if they name none.
    pub(crate) origin: Arc<str>,
}

/// One function of a chain.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "frames are not shown yet")]
pub(crate) struct Frame {
    /// File name of the library or executable; a name in brackets for code that is in no file.
    pub(crate) library: Arc<str>,
    /// Its function, demangled.
    pub(crate) symbol: Option<Arc<str>>,
    /// Where it goes on when the call returns; in a function that a signal has interrupted, where it was.
    pub(crate) address: u64,
}

impl Chain {
    /// A chain of at least one frame, innermost first; `origin` as the rules say.
    pub(crate) fn new(frames: Vec<Frame>, end: ChainEnd, origin: Option<Arc<str>>) -> Self {
        let mut names: Vec<&str> = frames.iter().map(|frame| &*frame.library).collect();
        names.dedup();
        if end != ChainEnd::Complete {
            names.push("…");
        }
        let libraries = names.join(" < ").into();
        let origin =
            origin.unwrap_or_else(|| frames.first().map_or("".into(), |frame| frame.library.clone()));
        Self { frames, end, libraries, origin }
    }

    /// What is left of a chain that was lost: the immediate caller.
    pub(crate) fn lost(caller: &Caller) -> Self {
        let Caller { library, symbol, address } = caller.clone();
        Self::new(vec![Frame { library, symbol, address }], ChainEnd::Lost, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(libraries: &[&str], end: ChainEnd) -> Chain {
        let frames =
            libraries.iter().map(|&library| Frame { library: library.into(), symbol: None, address: 0 });
        Chain::new(frames.collect(), end, None)
    }

    #[test]
    fn frames_of_one_library_in_a_row_are_shown_once() {
        let chain = chain(&["a.so", "a.so", "b.so", "a.so", "app"], ChainEnd::Complete);
        assert_eq!(&*chain.libraries, "a.so < b.so < a.so < app");
    }

    #[test]
    fn a_chain_that_was_cut_says_so() {
        assert_eq!(&*chain(&["a.so"], ChainEnd::NoTable).libraries, "a.so < …");
    }
}
