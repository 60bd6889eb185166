//! Deferred calls: a launch, a fill or a copy with everything that it needs to be made later, on another thread.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use xsched_preload::memory;

use crate::api::{DeviceCopy, Fill, Launch, LaunchAttribute, Shape};
use crate::driver::{self, Code, Context, Parameter};

/// Arguments of a launch that is deferred, in bytes. With as many launches as a queue defers, this is 16 MiB.
const ARGUMENTS_MAX: usize = 4096;

/// Keys of `extra`.
const END: usize = 0;
const BUFFER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// A deferred call.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) context: Context,
    /// The address of a stream of that context which means the same on every thread.
    pub(crate) stream: usize,
    pub(crate) work: CommandWork,
}

#[derive(Debug)]
pub(crate) enum CommandWork {
    Kernel(OwnedLaunch),
    /// An executable graph.
    Graph(usize),
    Fill(Fill),
    Copy(DeviceCopy),
}

/// A launch of a kernel, with copies of what its call points to.
#[derive(Debug)]
pub(crate) struct OwnedLaunch {
    function: usize,
    shape: Shape,
    is_cooperative: bool,
    attributes: Vec<LaunchAttribute>,
    arguments: Vec<MaybeUninit<u8>>,
    /// Where each parameter lies in `arguments`; None: these are passed as one buffer.
    layout: Option<Arc<[Parameter]>>,
}

impl Command {
    /// Makes the call. The driver's answer.
    pub(crate) fn launch(self) -> Code {
        let Self { context, stream, work } = self;
        let launched = driver::within(context, || {
            Some(match work {
                CommandWork::Kernel(launch) => launch.launch(stream),
                CommandWork::Graph(executable) => driver::launch_graph(executable, stream),
                CommandWork::Fill(fill) => driver::fill(fill, stream),
                CommandWork::Copy(copy) => driver::copy(copy, stream),
            })
        });
        launched.unwrap_or(driver::INVALID_CONTEXT)
    }
}

impl OwnedLaunch {
    /// Copies what a launch points to. None if that cannot be done, or needs too much memory.
    ///
    /// # Safety
    /// The call from which the launch was made has not returned, and `layout` is its function's.
    pub(crate) unsafe fn of(launch: &Launch, layout: &Arc<[Parameter]>) -> Option<Self> {
        // SAFETY: the caller's promise.
        let (attributes, copied) = unsafe { (launch.attributes(), arguments(launch, layout)?) };
        let mut owned = Vec::new();
        owned.try_reserve_exact(attributes.len()).ok()?;
        owned.extend_from_slice(attributes);
        let (arguments, is_buffer) = copied;
        // The reserve is for small allocations only.
        if memory::is_reserve(&owned) || memory::is_reserve(&arguments) {
            return None;
        }
        Some(Self {
            function: launch.function,
            shape: launch.shape,
            is_cooperative: launch.is_cooperative,
            attributes: owned,
            arguments,
            layout: (!is_buffer).then(|| Arc::clone(layout)),
        })
    }

    fn launch(mut self, stream: usize) -> Code {
        let start: *mut c_void = self.arguments.as_mut_ptr().cast();
        let mut size = self.arguments.len();
        let tag = ptr::without_provenance_mut::<c_void>;
        let mut extra = [tag(BUFFER), start, tag(BUFFER_SIZE), (&raw mut size).cast(), tag(END)];
        let mut parameters: Vec<*mut c_void> = match &self.layout {
            Some(layout) => {
                layout.iter().map(|parameter| start.wrapping_byte_add(parameter.offset)).collect()
            }
            None => Vec::new(),
        };
        let (parameters, extra) = match &self.layout {
            Some(_) => (parameters.as_mut_ptr(), ptr::null_mut()),
            None => (ptr::null_mut(), extra.as_mut_ptr()),
        };
        if self.is_cooperative {
            driver::launch_cooperative(self.function, self.shape, stream, parameters)
        } else if self.attributes.is_empty() {
            driver::launch(self.function, self.shape, stream, parameters, extra)
        } else {
            driver::launch_configured(self.function, self.shape, stream, &self.attributes, parameters, extra)
        }
    }
}

/// A launch's arguments, and whether they are to be passed as one buffer.
///
/// # Safety
/// The call from which the launch was made has not returned, and `layout` is its function's.
unsafe fn arguments(launch: &Launch, layout: &[Parameter]) -> Option<(Vec<MaybeUninit<u8>>, bool)> {
    let Launch { parameters, extra, .. } = *launch;
    let needed = layout.iter().map(|parameter| parameter.offset + parameter.size).max().unwrap_or(0);
    let mut copied = Vec::new();
    match (parameters.is_null(), extra.is_null()) {
        // Without parameters there is nothing to pass. A list of parameters for such a kernel is not believed: if the driver does not
        // tell of them, they would be lost.
        (true, true) if layout.is_empty() => Some((copied, false)),
        (false, true) if !layout.is_empty() => {
            copied.try_reserve_exact(needed).ok().filter(|()| needed <= ARGUMENTS_MAX)?;
            copied.resize(needed, MaybeUninit::uninit());
            for (index, parameter) in layout.iter().enumerate() {
                // SAFETY: the caller of CUDA passes the address of each parameter, behind which there is as much as it has.
                unsafe {
                    let from = *parameters.add(index);
                    if from.is_null() {
                        return None;
                    }
                    let to = copied.as_mut_ptr().add(parameter.offset);
                    ptr::copy_nonoverlapping(from.cast(), to, parameter.size);
                }
            }
            Some((copied, false))
        }
        (true, false) if !launch.is_cooperative => {
            // SAFETY: the caller's promise.
            let (start, size) = unsafe { buffer(extra) }?;
            copied.try_reserve_exact(size).ok().filter(|()| (needed..=ARGUMENTS_MAX).contains(&size))?;
            copied.resize(size, MaybeUninit::uninit());
            // SAFETY: the caller of CUDA passes a buffer of that size.
            unsafe { ptr::copy_nonoverlapping(start.cast(), copied.as_mut_ptr(), size) };
            Some((copied, true))
        }
        _ => None,
    }
}

/// The buffer that a list of keys and pointers names, and its size.
///
/// # Safety
/// The list is as CUDA wants it.
unsafe fn buffer(mut extra: *const *const u8) -> Option<(*const u8, usize)> {
    let (mut start, mut size) = (None, None);
    loop {
        // SAFETY: the list ends with a key that is none, and each key before that has a pointer behind it.
        unsafe {
            match (*extra).addr() {
                END => return start.zip(size),
                BUFFER => start = Some(*extra.add(1)),
                BUFFER_SIZE => size = Some((*extra.add(1)).cast::<usize>().read_unaligned()),
                _ => return None,
            }
            extra = extra.add(2);
        }
    }
}

/// Calls that were deferred, and those of them that were made, whatever has become of them.
static DEFERRED: AtomicU64 = AtomicU64::new(0);
static MADE: AtomicU64 = AtomicU64::new(0);

/// Whether any deferred call may not have reached the driver yet. Known without a lock: most calls ask when nothing is deferred.
#[inline]
pub(crate) fn is_any_unmade() -> bool {
    // In this order: a call that was made in between was deferred before.
    let made = MADE.load(Ordering::Acquire);
    DEFERRED.load(Ordering::Acquire) != made
}

/// A call is about to be deferred.
pub(crate) fn defers() {
    DEFERRED.fetch_add(1, Ordering::AcqRel);
}

/// A deferred call was made, or was not deferred after all.
pub(crate) fn made() {
    MADE.fetch_add(1, Ordering::AcqRel);
}

/// What the driver has answered to a deferred call that it refused, until a call returns it; 0: there is nothing.
///
/// One for the process, as errors of the device are one for a context.
static LATE: AtomicU32 = AtomicU32::new(driver::SUCCESS);

/// Whether a call has such an answer to return.
#[inline]
pub(crate) fn has_late_failure() -> bool {
    LATE.load(Ordering::Acquire) != driver::SUCCESS
}

/// The next call returns this.
pub(crate) fn fail_late(code: Code) {
    LATE.store(code, Ordering::Release);
}

/// What a call returns: its own result if that is a failure, or else one that comes late.
pub(crate) fn or_late_failure(code: Code) -> Code {
    if code == driver::SUCCESS && has_late_failure() {
        LATE.swap(driver::SUCCESS, Ordering::AcqRel)
    } else {
        code
    }
}

/// In a forked child, which has deferred nothing.
pub(crate) fn renew_after_fork() {
    fail_late(driver::SUCCESS);
    DEFERRED.store(0, Ordering::Release);
    MADE.store(0, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::plain;

    fn bytes_of(owned: &OwnedLaunch) -> Vec<u8> {
        // SAFETY: these tests set all of them.
        owned.arguments.iter().map(|byte| unsafe { byte.assume_init() }).collect()
    }

    fn own(
        parameters: *const *const u8,
        extra: *const *const u8,
        layout: &[(usize, usize)],
    ) -> Option<OwnedLaunch> {
        let layout = layout.iter().map(|&(offset, size)| Parameter { offset, size }).collect();
        let (parameters, extra) = (parameters.cast_mut().cast(), extra.cast_mut().cast());
        let launch = plain(ptr::without_provenance_mut(64), [1; 3], [1; 3], 0, parameters, extra);
        // SAFETY: pointers are null, or to what the tests have on their stacks.
        unsafe { OwnedLaunch::of(&launch, &layout) }
    }

    #[test]
    fn parameters_are_copied_to_their_places() {
        let (first, second) = ([1_u8, 2], [3_u8, 4, 5, 6]);
        let parameters = [first.as_ptr(), second.as_ptr()];
        let owned = own(parameters.as_ptr(), ptr::null(), &[(0, 2), (2, 4)]).unwrap();
        assert_eq!(bytes_of(&owned), [1, 2, 3, 4, 5, 6]);
        assert!(owned.layout.is_some());
    }

    #[test]
    fn a_buffer_is_copied_whole() {
        let (buffer, size) = ([7_u8; 12], 12_usize);
        let tag = ptr::without_provenance::<u8>;
        let list = [tag(2), (&raw const size).cast(), tag(1), buffer.as_ptr(), tag(0)];
        let owned = own(ptr::null(), list.as_ptr(), &[(0, 8)]).unwrap();
        assert_eq!(bytes_of(&owned), [7; 12]);
        assert!(owned.layout.is_none());
        assert!(
            own(ptr::null(), list.as_ptr(), &[(0, 16)]).is_none(),
            "the driver refuses a buffer that is too small"
        );
        let list = [tag(3), ptr::null(), tag(0)];
        assert!(own(ptr::null(), list.as_ptr(), &[(0, 8)]).is_none(), "a key that is not known");
    }

    #[test]
    fn a_launch_whose_arguments_are_doubtful_is_not_copied() {
        let value = [0_u8; 8];
        let parameters = [value.as_ptr(), ptr::null()];
        assert!(own(parameters.as_ptr(), ptr::null(), &[(0, 8), (8, 8)]).is_none(), "an address is missing");
        assert!(own(parameters.as_ptr(), ptr::null(), &[]).is_none(), "the driver tells of no parameters");
        assert!(own(parameters.as_ptr(), parameters.as_ptr(), &[(0, 8)]).is_none(), "both ways at once");
        assert!(own(ptr::null(), ptr::null(), &[(0, 8)]).is_none(), "parameters are missing");
        assert!(own(ptr::null(), ptr::null(), &[]).is_some());
        let large = [0_u8; 5000];
        let parameters = [large.as_ptr()];
        assert!(own(parameters.as_ptr(), ptr::null(), &[(0, 5000)]).is_none(), "too much memory");
    }

    #[test]
    fn a_late_failure_is_returned_once_and_hides_no_other() {
        assert_eq!(or_late_failure(0), 0);
        fail_late(700);
        assert_eq!((or_late_failure(1), or_late_failure(0), or_late_failure(0)), (1, 700, 0));
    }
}
