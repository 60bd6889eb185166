//! What is done with a call of each class. `call` is the real function with the caller's arguments; it is called exactly once, and a
//! panic of the shim's never keeps it from being called. Only what is deferred is called later, by another thread.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use xsched_xqueue::AdmissionMode;

use crate::api::{COUNT, Change, Handle, Id, Named, Pointer, Setting, Work};
use crate::command::{has_late_failure, or_late_failure};
use crate::counters::{Counter, count};
use crate::driver::{self, Code, Context, NOT_FOUND, NOT_READY, SUCCESS};
use crate::process;
use crate::rules::CallSite;
use crate::scheduling::{Decision, SCHEDULING, Scheduling};

/// Whether nothing schedules the process and nothing is deferred, so that calls go straight to the driver. Four loads: a process
/// that is alone on its device pays no more.
#[inline]
pub(crate) fn is_open() -> bool {
    let is_open = |known: &Scheduling| known.queues.admission_mode() == AdmissionMode::Open;
    SCHEDULING.existing().is_some_and(is_open) && !has_late_failure()
}

/// The state; None if the shim is switched off.
fn scheduling() -> Option<&'static Scheduling> {
    process::prepare().then(|| SCHEDULING.get())
}

/// The shim's own part of a call. A panic is counted, and changes nothing for the program.
fn guarded<R: Default>(act: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        count(Counter::Panic);
        R::default()
    })
}

/// A call that puts work on a stream, from there. `announce` makes it as that of an announcing function.
#[cold]
pub(crate) fn work(
    stream: Named,
    work: &Work,
    site: CallSite,
    call: impl FnOnce() -> Code,
    announce: &dyn Fn(),
) -> Code {
    let Some(scheduling) = scheduling() else { return call() };
    match guarded(|| scheduling.submit(stream, work, site, announce)) {
        Decision::Answer(code) => code,
        Decision::Pass => or_late_failure(call()),
        Decision::Make(begun, kind) => {
            let code = call();
            guarded(|| {
                if let Some(begun) = begun {
                    scheduling.finish(begun, code == SUCCESS);
                }
                if let Some(kind) = kind.filter(|_| code == SUCCESS) {
                    scheduling.kernels.taken(kind);
                }
            });
            or_late_failure(code)
        }
    }
}

/// A call that puts something on a stream that occupies no device time: an event, a wait, a host function, a memory operation.
pub(crate) fn orders(stream: Named, (): (), call: impl FnOnce() -> Code) -> Code {
    if is_open() {
        return call();
    }
    if let Some(scheduling) = SCHEDULING.existing() {
        guarded(|| scheduling.wait_before(stream));
    }
    or_late_failure(call())
}

/// A call that may change what deferred calls use, and of which nothing else is known. All deferred calls go first.
pub(crate) fn drains(id: usize) {
    let Some(scheduling) = SCHEDULING.existing() else { return };
    // Most of these functions take memory away.
    scheduling.kernels.memory_goes();
    let is_setting = SETTINGS.iter().any(|&setting| setting as usize == id);
    if is_open() && !is_setting {
        return;
    }
    guarded(|| {
        scheduling.drain();
        // Also while nothing is scheduled: later, no call may rely on what the driver took under the old setting.
        if is_setting {
            scheduling.kernels.forget_taken();
        }
    });
}

/// Functions that may change which launches the driver takes.
const SETTINGS: [Id; 6] = [
    Id::cuCtxSetCacheConfig,
    Id::cuCtxSetLimit,
    Id::cuCtxSetSharedMemConfig,
    Id::cuFuncSetCacheConfig,
    Id::cuFuncSetSharedMemConfig,
    Id::cuKernelSetCacheConfig,
];

/// The function that stands for listed functions that the process's libcuda lacks.
pub(crate) extern "C" fn absent() -> Code {
    NOT_FOUND
}

/// A call that waits for a stream, or for the current context: when it returns, that is seen to be done.
#[cold]
pub(crate) fn waits(stream: Option<Named>, (): (), call: impl FnOnce() -> Code) -> Code {
    let Some(scheduling) = SCHEDULING.existing() else { return call() };
    let waited = guarded(|| {
        scheduling.wait_expecting(stream);
        scheduling.queues.host_wait_begins(&scheduling.waited_for(stream))
    });
    let code = call();
    if !waited.is_empty() {
        guarded(|| scheduling.queues.host_wait_ends(&waited, code == SUCCESS));
    }
    or_late_failure(code)
}

/// A call that asks whether a stream is done. While anything is deferred there, it is not.
#[cold]
pub(crate) fn asks(stream: Named, (): (), call: impl FnOnce() -> Code) -> Code {
    let Some(scheduling) = SCHEDULING.existing() else { return call() };
    let is_pending = guarded(|| {
        let is_pending = !scheduling.pending_on(stream).1.is_empty();
        if !is_pending {
            scheduling.await_doubtful_marker(stream);
        }
        is_pending
    });
    if is_pending {
        return match or_late_failure(SUCCESS) {
            SUCCESS => NOT_READY,
            late => late,
        };
    }
    or_late_failure(call())
}

/// A capture begins.
pub(crate) fn begins_capture(stream: Named, (): (), call: impl FnOnce() -> Code) -> Code {
    let Some(scheduling) = scheduling() else { return call() };
    let is_new = guarded(|| scheduling.capture_begins(stream));
    let code = call();
    if code != SUCCESS && is_new {
        guarded(|| scheduling.capture_ends(stream));
    }
    code
}

/// A capture ends, whatever the driver answers.
pub(crate) fn ends_capture(stream: Named, (): (), call: impl FnOnce() -> Code) -> Code {
    let code = call();
    if let Some(scheduling) = SCHEDULING.existing() {
        guarded(|| scheduling.capture_ends(stream));
    }
    code
}

/// A stream is created, and its handle is left in `out`.
pub(crate) fn creates(out: *mut Handle, (): (), call: impl FnOnce() -> Code) -> Code {
    let code = call();
    if code == SUCCESS
        && let Some(scheduling) = scheduling()
    {
        // SAFETY: the driver has written there just now.
        let stream = unsafe { *out };
        guarded(|| scheduling.stream_created(stream.expose_provenance(), None));
    }
    code
}

/// A graph is instantiated, and the handle of the executable one is left in `out`.
pub(crate) fn instantiates((out, graph): (*mut Handle, Handle), (): (), call: impl FnOnce() -> Code) -> Code {
    let code = call();
    if code == SUCCESS
        && let Some(scheduling) = scheduling()
    {
        // SAFETY: the driver has written there just now.
        let executable = unsafe { *out };
        guarded(|| scheduling.graph_instantiated(executable.addr(), graph.addr()));
    }
    code
}

/// An executable graph is changed.
pub(crate) fn changes(change: Option<Change>, (): (), call: impl FnOnce() -> Code) -> Code {
    if let Some(scheduling) = SCHEDULING.existing() {
        guarded(|| scheduling.drain());
    }
    let code = call();
    if let Some(change) = change.filter(|_| code == SUCCESS)
        && let Some(scheduling) = scheduling()
    {
        guarded(|| scheduling.graph_changed(change));
    }
    code
}

/// A setting of a function: its later launches are of another kind. Libraries set what they need before each launch, and usually
/// it is set already.
pub(crate) fn sets(setting: Setting, (): (), call: impl FnOnce() -> Code) -> Code {
    let Some(scheduling) = SCHEDULING.existing() else { return call() };
    if guarded(|| scheduling.kernels.is_set(setting)) {
        return call();
    }
    guarded(|| {
        scheduling.drain();
        scheduling.kernels.forget_taken();
    });
    let code = call();
    if code == SUCCESS {
        guarded(|| scheduling.kernels.set(setting));
    }
    code
}

/// A call that leaves the address of a function in `out`: the shim's export replaces it. The address decides, not the name, so
/// the version and flags that the caller asked for are respected.
pub(crate) fn gives(
    (out, release): (*mut Pointer, i32),
    exports: &[*const c_void; COUNT],
    call: impl FnOnce() -> Code,
) -> Code {
    let code = call();
    if code == SUCCESS && !out.is_null() && process::prepare() {
        guarded(|| {
            // SAFETY: the caller's out-parameter, into which the driver has written just now.
            let given = unsafe { &mut *out };
            if !given.is_null() {
                driver::note_given(release);
            }
            if let Some(id) = driver::id_of(*given) {
                *given = exports[id].cast_mut();
            }
        });
    }
    code
}

/// Hooks of single functions.
#[expect(non_snake_case, reason = "CUDA's names")]
pub(crate) mod special {
    use super::{Code, Context, Handle, SCHEDULING, SUCCESS, driver, guarded, scheduling};

    pub(crate) fn cuStreamDestroy(stream: Handle, call: impl FnOnce() -> Code) -> Code {
        if let Some(scheduling) = SCHEDULING.existing() {
            guarded(|| scheduling.stream_goes(stream.addr()));
        }
        call()
    }

    pub(crate) fn cuStreamDestroy_v2(stream: Handle, call: impl FnOnce() -> Code) -> Code {
        cuStreamDestroy(stream, call)
    }

    pub(crate) fn cuCtxDestroy(context: Handle, call: impl FnOnce() -> Code) -> Code {
        if let Some(scheduling) = SCHEDULING.existing() {
            guarded(|| scheduling.context_goes(Context(context.addr())));
        }
        call()
    }

    pub(crate) fn cuCtxDestroy_v2(context: Handle, call: impl FnOnce() -> Code) -> Code {
        cuCtxDestroy(context, call)
    }

    pub(crate) fn cuCtxDetach(context: Handle, call: impl FnOnce() -> Code) -> Code {
        cuCtxDestroy(context, call)
    }

    pub(crate) fn cuGraphExecDestroy(executable: Handle, call: impl FnOnce() -> Code) -> Code {
        if let Some(scheduling) = SCHEDULING.existing() {
            guarded(|| {
                scheduling.drain();
                scheduling.graphs.destroyed(executable.addr());
            });
        }
        call()
    }

    pub(crate) fn cuModuleUnload(_module: Handle, call: impl FnOnce() -> Code) -> Code {
        let Some(scheduling) = SCHEDULING.existing() else { return call() };
        guarded(|| {
            scheduling.drain();
            // Before another thread finds functions of another module at their addresses.
            scheduling.functions_gone();
        });
        let code = call();
        guarded(|| scheduling.functions_gone());
        code
    }

    pub(crate) fn cuLibraryUnload(library: Handle, call: impl FnOnce() -> Code) -> Code {
        cuModuleUnload(library, call)
    }

    pub(crate) fn cuGreenCtxCreate(
        out: *mut Handle,
        _description: Handle,
        device: i32,
        _flags: u32,
        call: impl FnOnce() -> Code,
    ) -> Code {
        let code = call();
        if code == SUCCESS
            && let Some(scheduling) = scheduling()
        {
            // SAFETY: the driver has written there just now.
            let green = unsafe { *out };
            guarded(|| scheduling.green_created(green, device));
        }
        code
    }

    pub(crate) fn cuGreenCtxDestroy(green: Handle, call: impl FnOnce() -> Code) -> Code {
        match SCHEDULING.existing() {
            Some(scheduling) => scheduling.destroying_green(green, call),
            None => call(),
        }
    }

    pub(crate) fn cuGreenCtxStreamCreate(
        out: *mut Handle,
        green: Handle,
        _flags: u32,
        _priority: i32,
        call: impl FnOnce() -> Code,
    ) -> Code {
        let code = call();
        if code == SUCCESS
            && let Some(scheduling) = scheduling()
        {
            // SAFETY: the driver has written there just now.
            let stream = unsafe { *out };
            guarded(|| scheduling.stream_created(stream.expose_provenance(), driver::of_green(green)));
        }
        code
    }

    pub(crate) fn cuDevicePrimaryCtxRetain(
        out: *mut Handle,
        device: i32,
        call: impl FnOnce() -> Code,
    ) -> Code {
        let code = call();
        if code == SUCCESS
            && let Some(scheduling) = scheduling()
        {
            // SAFETY: the driver has written there just now.
            let context = unsafe { *out };
            guarded(|| scheduling.primary_retained(device, Context(context.expose_provenance())));
        }
        code
    }

    pub(crate) fn cuDevicePrimaryCtxRelease(device: i32, call: impl FnOnce() -> Code) -> Code {
        match SCHEDULING.existing() {
            Some(scheduling) => scheduling.releasing_primary(device, call),
            None => call(),
        }
    }

    pub(crate) fn cuDevicePrimaryCtxRelease_v2(device: i32, call: impl FnOnce() -> Code) -> Code {
        cuDevicePrimaryCtxRelease(device, call)
    }

    pub(crate) fn cuDevicePrimaryCtxReset(device: i32, call: impl FnOnce() -> Code) -> Code {
        if let Some(scheduling) = SCHEDULING.existing() {
            guarded(|| scheduling.primary_goes(device));
        }
        call()
    }

    pub(crate) fn cuDevicePrimaryCtxReset_v2(device: i32, call: impl FnOnce() -> Code) -> Code {
        cuDevicePrimaryCtxReset(device, call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::CallKind;

    #[test]
    fn a_setting_that_is_made_alone_counts_when_others_come() {
        let scheduling = SCHEDULING.get();
        scheduling.queues.await_first_use(false);
        assert!(is_open());
        let kind = CallKind::of_graph(Context(1), 1);
        scheduling.kernels.taken(kind);
        drains(Id::cuMemFree_v2 as usize);
        assert!(scheduling.kernels.are_taken(kind));
        drains(Id::cuCtxSetLimit as usize);
        assert!(!scheduling.kernels.are_taken(kind));
    }
}
