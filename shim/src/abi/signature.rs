//! Whole signatures: the type of a function gives the types of its arguments, as a tuple, and of its result.
#![expect(non_snake_case, reason = "the macro has one name for an argument's type and its value")]

use crate::abi::frame::Frame;
use crate::abi::passing::{Arg, ArgReader};
use crate::abi::{InRegister, Layout, Passed, Ret, Stream};

/// A function's type, `unsafe extern "C" fn(..) -> ..`.
pub(crate) trait Signature {
    type Args: Args;
    type Ret: Ret;
}

/// A signature of functions that can be hooked: their result fits a register.
pub(crate) trait Hooked: Signature<Ret: InRegister> {}

impl<S: Signature<Ret: InRegister>> Hooked for S {}

/// The arguments of one function, as a tuple.
pub(crate) trait Args: Sized {
    /// How each of them is passed.
    const PASSED: &'static [Passed];

    /// Which of them is the first stream.
    const STREAM: Option<usize>;

    /// Reads the arguments of a stopped call.
    ///
    /// # Safety
    /// `frame` must be of a call to a function with these arguments, and `layout` be its layout.
    unsafe fn read(frame: &Frame, layout: &'static Layout) -> Self;

    /// The first stream among the arguments.
    fn stream(&self) -> Option<Stream>;
}

impl Args for () {
    const PASSED: &'static [Passed] = &[];

    const STREAM: Option<usize> = None;

    unsafe fn read(_: &Frame, _: &'static Layout) -> Self {}

    fn stream(&self) -> Option<Stream> {
        None
    }
}

impl<R: Ret> Signature for unsafe extern "C" fn() -> R {
    type Args = ();
    type Ret = R;
}

const fn first(are_streams: &[bool]) -> Option<usize> {
    let mut index = 0;
    while index < are_streams.len() {
        if are_streams[index] {
            return Some(index);
        }
        index += 1;
    }
    None
}

macro_rules! signatures {
    ($(($($arg:ident)+))*) => {
        $(
            impl<$($arg: Arg),+> Args for ($($arg,)+) {
                const PASSED: &'static [Passed] = &[$($arg::PASSED),+];

                const STREAM: Option<usize> = first(&[$($arg::IS_STREAM),+]);

                #[inline]
                unsafe fn read(frame: &Frame, layout: &'static Layout) -> Self {
                    let mut reader = ArgReader::new(frame, layout);
                    // SAFETY: the caller promises these arguments; a tuple expression reads them in order.
                    unsafe { ($(reader.read::<$arg>(),)+) }
                }

                fn stream(&self) -> Option<Stream> {
                    let ($($arg,)+) = self;
                    None$(.or_else(|| $arg.as_stream()))+
                }
            }

            impl<$($arg: Arg,)+ R: Ret> Signature for unsafe extern "C" fn($($arg),+) -> R {
                type Args = ($($arg,)+);
                type Ret = R;
            }
        )*
    };
}

signatures! {
    (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H)
    (A B C D E F G H I) (A B C D E F G H I J) (A B C D E F G H I J K) (A B C D E F G H I J K L)
    (A B C D E F G H I J K L M) (A B C D E F G H I J K L M N)
}
