//! How the System V x86-64 ABI passes HIP's types, and how a hook reads them back from a stopped call.
//!
//! A hook does not receive its arguments by being called with them: the entry code saves the argument registers, and
//! the hook *reads* typed arguments from there. So forwarding stays a plain jump, with registers and stack as the
//! caller left them, whatever signature the list has.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::abi::frame::Frame;
use crate::abi::{
    Allocation, Array, ChannelFormatDesc, Context, Device, DevicePtr, Dim3, Enum, Event, Extent,
    ExternalMemory, ExternalSemaphore, Function, Graph, GraphExec, GraphNode, GraphicsResource, HipError,
    HostFn, IpcEventHandle, Kernel, Layout, Library, MemLocation, MemPool, MemcpyKind, MipmappedArray,
    Module, PitchedPtr, Stream, StreamCallback, SurfaceObject, TextureObject,
};

/// How a value of one type crosses a call: the four of the ABI's cases that HIP needs. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// An integer or pointer, or a structure of integers that fits: one general register, or one word of
    /// stack when none is left.
    Word(usize),
    /// A structure of integers of 9 to 16 bytes: two general registers, or the stack when fewer are left.
    Pair(usize),
    /// A `float`: one vector register. No HIP function has more floats than there are vector registers.
    Float(usize),
    /// A larger structure: on the stack; as a result, through a pointer passed in front.
    Memory(usize),
}

/// A type that HIP functions take by value. Every bit pattern must be a value of it.
pub(crate) trait Arg: Copy {
    const PASSED: Passed;

    /// Whether it is a stream.
    const IS_STREAM: bool = false;

    /// This argument if it is a stream.
    fn as_stream(&self) -> Option<Stream> {
        None
    }
}

macro_rules! args {
    ($($passed:ident: $($ty:ty)*;)*) => {
        $($(impl Arg for $ty {
            const PASSED: Passed = Passed::$passed(size_of::<Self>());
        })*)*
    };
}

args! {
    Word: u8 u16 u32 u64 usize c_int Device MemcpyKind Enum HipError MemLocation Event Graph GraphExec
        GraphNode Module Function Library Kernel Array MipmappedArray MemPool Context
        DevicePtr Allocation ExternalMemory ExternalSemaphore GraphicsResource TextureObject SurfaceObject
        HostFn StreamCallback;
    Pair: Dim3;
    Float: f32;
    Memory: Extent PitchedPtr IpcEventHandle;
}

impl<T> Arg for *mut T {
    const PASSED: Passed = Passed::Word(size_of::<Self>());
}

impl<T> Arg for *const T {
    const PASSED: Passed = Passed::Word(size_of::<Self>());
}

impl Arg for Stream {
    const PASSED: Passed = Passed::Word(size_of::<Self>());

    const IS_STREAM: bool = true;

    fn as_stream(&self) -> Option<Stream> {
        Some(*self)
    }
}

/// Reads the arguments of one stopped call, in order.
pub(crate) struct ArgReader<'a> {
    frame: &'a Frame,
    layout: &'static Layout,
    next: usize,
}

impl<'a> ArgReader<'a> {
    /// A reader at the first argument.
    #[inline]
    pub(crate) fn new(frame: &'a Frame, layout: &'static Layout) -> Self {
        Self { frame, layout, next: 0 }
    }

    /// The next argument.
    ///
    /// # Safety
    /// The call must have another argument, and it must be a `T`.
    #[inline]
    pub(crate) unsafe fn read<T: Arg>(&mut self) -> T {
        let address = self.frame.argument(self.layout.location(self.next));
        self.next += 1;
        // SAFETY: by the caller's promise a `T` was passed, and the ABI puts it here; a value's first bytes are the
        // low bytes of its word, as this machine is little-endian.
        unsafe { address.cast::<T>().read() }
    }
}

/// A type that HIP functions return.
pub(crate) trait Ret: Copy {
    /// None for `void`.
    const PASSED: Option<Passed>;

    /// What a caller finds in `rax` after calling a function that its runtime does not have. A result passed
    /// in memory is written there.
    ///
    /// # Safety
    /// `frame` must be of a call to a function that returns this type.
    unsafe fn missing(frame: &Frame) -> u64;
}

/// A result that fits a register. Functions with another one cannot be hooked, only counted.
pub(crate) trait InRegister: Ret {
    /// What the caller finds in `rax`.
    fn into_word(self) -> u64;

    /// From what a call left in `rax`.
    fn from_word(word: u64) -> Self;
}

impl Ret for HipError {
    const PASSED: Option<Passed> = Some(Passed::Word(size_of::<Self>()));

    unsafe fn missing(_: &Frame) -> u64 {
        Self::NOT_SUPPORTED.into_word()
    }
}

impl InRegister for HipError {
    fn into_word(self) -> u64 {
        self.0.into()
    }

    fn from_word(word: u64) -> Self {
        Self(word as u32)
    }
}

impl Ret for () {
    const PASSED: Option<Passed> = None;

    unsafe fn missing(_: &Frame) -> u64 {
        0
    }
}

impl InRegister for () {
    fn into_word(self) -> u64 {
        0
    }

    fn from_word(_: u64) -> Self {}
}

impl Ret for c_int {
    const PASSED: Option<Passed> = Some(Passed::Word(size_of::<Self>()));

    /// -1 is no device; `hipGetStreamDeviceId` is the only function of this kind.
    unsafe fn missing(_: &Frame) -> u64 {
        (-1_i32).cast_unsigned().into()
    }
}

impl Ret for *const c_char {
    const PASSED: Option<Passed> = Some(Passed::Word(size_of::<Self>()));

    /// Names are printed without a check: a text, not null.
    unsafe fn missing(_: &Frame) -> u64 {
        c"not supported by this HIP runtime".as_ptr() as u64
    }
}

impl Ret for *mut *mut c_void {
    const PASSED: Option<Passed> = Some(Passed::Word(size_of::<Self>()));

    unsafe fn missing(_: &Frame) -> u64 {
        ptr::null::<c_void>() as u64
    }
}

impl InRegister for *mut *mut c_void {
    fn into_word(self) -> u64 {
        self as u64
    }

    fn from_word(word: u64) -> Self {
        word as Self
    }
}

impl Ret for ChannelFormatDesc {
    const PASSED: Option<Passed> = Some(Passed::Memory(size_of::<Self>()));

    unsafe fn missing(frame: &Frame) -> u64 {
        let [address, ..] = frame.general;
        // SAFETY: the first register points to the caller's memory for a result in memory.
        unsafe { (address as *mut Self).write(Self::default()) };
        address
    }
}
