//! Which hook each function of the list has: the one that its line's family and class name.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::abi::{
    Allocation, Array, ChannelFormatDesc, Context, Device, DevicePtr, Dim3, Enum, Event, Extent,
    ExternalMemory, ExternalSemaphore, Frame, Function, Graph, GraphExec, GraphNode, GraphicsResource,
    HipError, HostFn, IpcEventHandle, Kernel, Library, MemLocation, MemPool, MemcpyKind, MipmappedArray,
    Module, PitchedPtr, Stream, StreamCallback, SurfaceObject, TextureObject,
};
use crate::api::{ApiFunction, COUNT, for_each_function};
use crate::hooks;
use crate::outcome::Outcome;
use crate::runtime::copies::Target;

/// Decides one call of the given function. The frame must be of a call to that function, and the target its real
/// function.
pub(crate) type Hook = unsafe fn(&'static ApiFunction, &Frame, Target) -> Outcome<u64>;

/// The hook that a line's family and class name.
macro_rules! hook {
    (passes $family:ident $signature:ty) => {
        None
    };
    ($class:ident $family:ident $signature:ty) => {
        Some(|function, frame, target| {
            // SAFETY: the caller of the hook promises that frame and target belong to `function`, whose signature
            // this is.
            unsafe { hooks::run::<$signature>(function, frame, target, hooks::$family::$class) }
        })
    };
}

macro_rules! define_hooks {
    ($($family:ident {
        $($class:ident $table:ident $($index:literal)? fn $name:ident($(..)? $($arg:ident: $ty:ty),*) -> $ret:ty;)*
    })*) => {
        /// The hook of every function, in the order of the list; None for one that is only counted.
        pub(crate) static HOOKS: [Option<Hook>; COUNT] =
            [$($(hook!($class $family unsafe extern "C" fn($($ty),*) -> $ret),)*)*];
    };
}
for_each_function!(define_hooks);
