//! Where the arguments of a signature lie, for code that handles calls without knowing their types.

use crate::abi::frame::ArgumentLocation;
use crate::abi::{Args, Passed, Ret, Signature};

/// No HIP function has more arguments.
pub(crate) const ARGS_MAX: usize = 14;

/// Where all arguments of a function lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    locations: [ArgumentLocation; ARGS_MAX],
    /// How many arguments there are.
    pub(crate) count: usize,
    /// Words of stack that they take.
    pub(crate) stack_words: usize,
    /// Whether any of them lies in a vector register.
    pub(crate) has_vectors: bool,
}

impl Layout {
    /// Of a function with these arguments and this result.
    pub(crate) const fn new(args: &[Passed], result: Option<Passed>) -> Self {
        let mut layout = Self {
            locations: [ArgumentLocation::Stack(0); ARGS_MAX],
            count: args.len(),
            stack_words: 0,
            has_vectors: false,
        };
        // A result in memory takes the first register for its address.
        let mut general = if matches!(result, Some(Passed::Memory(_))) { 1 } else { 0 };
        let mut vector = 0;
        let mut index = 0;
        while index < args.len() {
            let (registers, words) = match args[index] {
                Passed::Word(_) => (1, 1),
                // The two halves stay together: a single register that is left goes to a later argument.
                Passed::Pair(_) => (2, 2),
                Passed::Float(_) => (0, 0),
                // In whole words, because none of them is aligned to more than one.
                Passed::Memory(size) => (usize::MAX, size.div_ceil(size_of::<u64>())),
            };
            layout.locations[index] = if registers == 0 {
                vector += 1;
                layout.has_vectors = true;
                ArgumentLocation::Vector(vector - 1)
            } else if registers <= GENERAL_REGISTERS - general {
                general += registers;
                ArgumentLocation::General(general - registers)
            } else {
                layout.stack_words += words;
                ArgumentLocation::Stack(layout.stack_words - words)
            };
            index += 1;
        }
        layout
    }

    /// Of a function's signature. Made when the shim is compiled, so that reading an argument is one load.
    pub(crate) const fn of<S: Signature>() -> &'static Self {
        const { &Self::new(S::Args::PASSED, S::Ret::PASSED) }
    }

    /// Where this argument begins. Panics if there is none.
    #[inline]
    pub(crate) const fn location(&self, index: usize) -> ArgumentLocation {
        assert!(index < self.count, "a function has no such argument");
        self.locations[index]
    }
}

const GENERAL_REGISTERS: usize = 6;
