//! What is done with a call of each class. `call` is the real function with the caller's arguments; it is called exactly once, and a
//! panic of the shim's never keeps it from being called.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use xsched_xqueue::AdmissionMode;

use crate::api::{COUNT, Change, Handle, Named, Pointer, Work};
use crate::counters::{Counter, count};
use crate::driver::{self, Code, Context, SUCCESS};
use crate::process;
use crate::scheduling::{SCHEDULING, Scheduling};

/// Whether nothing schedules the process, so that work goes straight to the driver. Three loads: all that a process pays that is
/// alone on its device.
#[inline]
pub(crate) fn is_open() -> bool {
    SCHEDULING.existing().is_some_and(|known| known.queues.admission_mode() == AdmissionMode::Open)
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

/// A call that puts work on a stream.
#[cold]
pub(crate) fn work(stream: Named, work: Work, call: impl FnOnce() -> Code) -> Code {
    let Some(scheduling) = scheduling() else { return call() };
    let begun = guarded(|| scheduling.admit(stream, work));
    let code = call();
    if let Some(begun) = begun {
        guarded(|| scheduling.finish(begun, code == SUCCESS));
    }
    code
}

/// A call that waits for a stream, or for the current context: when it returns, that is seen to be done.
#[cold]
pub(crate) fn waits(stream: Option<Named>, (): (), call: impl FnOnce() -> Code) -> Code {
    let Some(scheduling) = SCHEDULING.existing() else { return call() };
    let waited = guarded(|| scheduling.queues.host_wait_begins(&scheduling.waited_for(stream)));
    let code = call();
    if !waited.is_empty() {
        guarded(|| scheduling.queues.host_wait_ends(&waited, code == SUCCESS));
    }
    code
}

/// A call that asks whether a stream is done.
#[cold]
pub(crate) fn asks(stream: Named, (): (), call: impl FnOnce() -> Code) -> Code {
    if let Some(scheduling) = SCHEDULING.existing() {
        guarded(|| scheduling.await_doubtful_marker(stream));
    }
    call()
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
    let code = call();
    if let Some(change) = change.filter(|_| code == SUCCESS)
        && let Some(scheduling) = scheduling()
    {
        guarded(|| scheduling.graph_changed(change));
    }
    code
}

/// The address of a function is left in `out`: the shim's export takes its place. By the address, not by the name: so the version and
/// the flags that were asked for are respected.
pub(crate) fn gives(
    out: *mut Pointer,
    exports: &[*const c_void; COUNT],
    call: impl FnOnce() -> Code,
) -> Code {
    let code = call();
    if code == SUCCESS && !out.is_null() && process::prepare() {
        guarded(|| {
            // SAFETY: the caller's out-parameter, into which the driver has written just now.
            let given = unsafe { &mut *out };
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
            guarded(|| scheduling.graphs.destroyed(executable.addr()));
        }
        call()
    }

    pub(crate) fn cuModuleUnload(_module: Handle, call: impl FnOnce() -> Code) -> Code {
        let code = call();
        if let Some(scheduling) = SCHEDULING.existing() {
            guarded(|| scheduling.functions_gone());
        }
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
