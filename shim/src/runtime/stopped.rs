//! A stopped call without its types: a function of the list, and its arguments as words.

use crate::abi::Frame;
use crate::abi::{Dim3, Layout, Stream};
use crate::api::{ApiFunction, Class, Family, Id};
use crate::runtime::copies::Target;

/// A stopped call.
pub(crate) struct Stopped<'a> {
    pub(crate) function: &'static ApiFunction,
    pub(crate) frame: &'a Frame,
    pub(crate) layout: &'static Layout,
    pub(crate) target: Target,
    /// The first stream among the arguments.
    pub(crate) stream: Option<Stream>,
}

/// Which stream a call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamName {
    /// The null stream that all threads share.
    Legacy,
    /// The null stream of the calling thread. It has no name in other threads.
    PerThread,
    /// One that the application has created, by its handle.
    Created(usize),
}

/// The handle of each thread's own stream.
pub(crate) const PER_THREAD: usize = 2;

impl StreamName {
    /// What a function means by a stream, or by none.
    #[inline]
    pub(crate) fn of(function: &ApiFunction, stream: Option<Stream>) -> Self {
        match Self::by_handle(stream.unwrap_or(Stream(std::ptr::null_mut()))) {
            // Functions with `_spt` take both handles so: `PER_THREAD_DEFAULT_STREAM` in
            // <https://github.com/ROCm/clr/blob/rocm-6.3.0/hipamd/src/hip_internal.hpp>.
            Self::Legacy if function.null_stream_is_per_thread => Self::PerThread,
            name => name,
        }
    }

    /// What a handle means where no function says more.
    pub(crate) fn by_handle(stream: Stream) -> Self {
        match stream.0.addr() {
            0 | 1 => Self::Legacy,
            PER_THREAD => Self::PerThread,
            created => Self::Created(created),
        }
    }

    /// Its handle in the runtime. The per-thread stream is the calling thread's.
    pub(crate) fn handle(self) -> Stream {
        Stream(std::ptr::without_provenance_mut(match self {
            Self::Legacy => 0,
            Self::PerThread => PER_THREAD,
            Self::Created(handle) => handle,
        }))
    }
}

impl Stopped<'_> {
    pub(crate) fn id(&self) -> Id {
        self.function.id
    }

    /// The stream that the call names; without a stream it means the null stream.
    pub(crate) fn stream_name(&self) -> StreamName {
        StreamName::of(self.function, self.stream)
    }

    /// An argument of up to eight bytes; the upper half of a shorter one means nothing.
    pub(crate) fn word(&self, argument: usize) -> u64 {
        // SAFETY: the function has this argument, so its caller has put it there.
        unsafe { self.frame.argument(self.layout.location(argument)).read() }
    }

    /// The handle or function of the kernel that the call launches.
    pub(crate) fn kernel_handle(&self) -> Option<usize> {
        let is_launch = self.function.family == Family::launch && self.function.class == Class::deferrable;
        match self.id() {
            Id::hipLaunchKernelExC | Id::hipDrvLaunchKernelEx => Some(self.size(1)),
            _ => is_launch.then(|| self.size(0)),
        }
    }

    /// An argument of four bytes.
    pub(crate) fn int(&self, argument: usize) -> u32 {
        self.word(argument) as u32
    }

    /// An argument that is a size or an address.
    pub(crate) fn size(&self, argument: usize) -> usize {
        self.word(argument) as usize
    }

    /// An argument that is a `dim3`.
    pub(crate) fn dim3(&self, argument: usize) -> [u32; 3] {
        // SAFETY: the caller knows the argument to be one.
        let Dim3 { x, y, z } = unsafe { self.structure::<Dim3>(argument) };
        [x, y, z]
    }

    /// An argument that is a structure by value.
    ///
    /// # Safety
    /// The argument must be a `T`, of which any bits are a value.
    pub(crate) unsafe fn structure<T: Copy>(&self, argument: usize) -> T {
        // SAFETY: the caller's promise; as above.
        unsafe { self.frame.argument(self.layout.location(argument)).cast::<T>().read() }
    }
}
