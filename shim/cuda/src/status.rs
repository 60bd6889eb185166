//! What other processes may read of the shim: `xsched-ctl doctor --pid` finds it by its symbol.
//!
//! The layout is that of [`xsched_protocol::shim_status::CudaStatus`]; here its fields are atomic.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use xsched_protocol::shim_status::{
    CUDA_STATUS_MAGIC, CUDA_STATUS_VERSION, CudaContexts, CudaStatus, ShimState,
};

use crate::driver::Context;

/// [`CudaStatus`] of this process.
#[repr(C)]
pub(crate) struct Status {
    magic: [u8; 8],
    version: u32,
    /// A [`ShimState`].
    pub(crate) state: AtomicU32,
    /// A [`ShimScheduling`](xsched_protocol::shim_status::ShimScheduling).
    pub(crate) scheduling: AtomicU32,
    /// [`CudaContexts`], in its order.
    contexts: [AtomicU32; 5],
}

const _: () = assert!(size_of::<Status>() == size_of::<CudaStatus>());

/// This process's status.
#[cfg_attr(test, expect(non_upper_case_globals, reason = "unexported, it is an ordinary static"))]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) static xsched_cuda_status: Status = Status {
    magic: CUDA_STATUS_MAGIC,
    version: CUDA_STATUS_VERSION,
    state: AtomicU32::new(ShimState::Idle as u32),
    scheduling: AtomicU32::new(0),
    contexts: [const { AtomicU32::new(0) }; 5],
};

/// What gate a context has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateState {
    Shared,
    Own,
    Beyond,
    None,
    Tried,
}

/// The gates of the process's contexts, as they were tried last.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<HashMap<Context, Known>>);

#[derive(Clone, Copy, Debug)]
struct Known {
    state: GateState,
    /// A page had no room for the context, and it has a gate of its own for that reason.
    is_beyond: bool,
}

impl Gates {
    /// A context's gate is another.
    pub(crate) fn note(&self, context: Context, state: GateState) {
        self.change(|known| {
            let before = known.get(&context).is_some_and(|known| known.is_beyond);
            let is_beyond = match state {
                GateState::Beyond => true,
                GateState::Shared => false,
                GateState::Own | GateState::None | GateState::Tried => before,
            };
            known.insert(context, Known { state, is_beyond });
        });
    }

    /// A context is gone.
    pub(crate) fn forget(&self, context: Context) {
        self.change(|known| known.retain(|of, _| *of != context));
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<Context, Known>)) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut known);
        let CudaContexts { shared, own, beyond, none, tried } = count(&known);
        for (field, value) in xsched_cuda_status.contexts.iter().zip([shared, own, beyond, none, tried]) {
            field.store(value, Ordering::Relaxed);
        }
    }
}

fn count(known: &HashMap<Context, Known>) -> CudaContexts {
    let mut contexts = CudaContexts::default();
    for known in known.values() {
        *match known.state {
            GateState::Shared => &mut contexts.shared,
            GateState::Own if known.is_beyond => &mut contexts.beyond,
            GateState::Own => &mut contexts.own,
            GateState::None => &mut contexts.none,
            GateState::Tried | GateState::Beyond => &mut contexts.tried,
        } += 1;
    }
    contexts
}

/// The process has called CUDA, or the shim is switched off.
pub(crate) fn publish(state: ShimState) {
    xsched_cuda_status.state.store(state as u32, Ordering::Relaxed);
}

/// In a forked child, which has no contexts and no controller.
pub(crate) fn renew_after_fork() {
    publish(ShimState::Idle);
    xsched_cuda_status.scheduling.store(0, Ordering::Relaxed);
    for field in &xsched_cuda_status.contexts {
        field.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_counted_by_their_gates() {
        let gates = Gates::default();
        let counted = || count(&gates.0.lock().unwrap());
        gates.note(Context(1), GateState::Tried);
        assert_eq!(counted(), CudaContexts { tried: 1, ..CudaContexts::default() });
        gates.note(Context(1), GateState::Shared);
        gates.note(Context(2), GateState::Beyond);
        gates.note(Context(2), GateState::Tried);
        gates.note(Context(2), GateState::Own);
        gates.note(Context(3), GateState::Own);
        gates.note(Context(4), GateState::None);
        assert_eq!(counted(), CudaContexts { shared: 1, own: 1, beyond: 1, none: 1, tried: 0 });
        gates.note(Context(2), GateState::Shared);
        gates.forget(Context(3));
        assert_eq!(counted(), CudaContexts { shared: 2, own: 0, beyond: 0, none: 1, tried: 0 });
    }
}
