//! Turns records into calls with names.

use std::sync::Arc;

use xsched_abi::{Call, CallKey, PROBES, ParamKind, Pending, Probe};
use xsched_chains::{Caller, Label, Names};
use xsched_rules::Rules;
use xsched_symbols::{NameError, Processes, are_files_opening, kernel_name};

use super::kernels::Kernel;
use super::known::{Known, Memory};
use crate::call::RuntimeCall;

/// Names for everything in a record.
pub(crate) struct Resolver {
    /// Of functions and chains.
    pub(super) names: Names,
    /// Whether every call is recorded, so that graphs can be followed.
    sees_all: bool,
    /// Calls lost before the present batch.
    lost: u64,
}

/// A call that has returned, or was still in progress.
struct Recorded<'a> {
    probe: &'static Probe,
    call: &'a Call,
    text: &'a [u8],
    end_ns: Option<u64>,
}

impl Resolver {
    /// `rules` determine origins, and chains show their frames as `label` says. `sees_all`: no call is filtered out.
    pub(crate) fn new(rules: Rules, label: Label, sees_all: bool) -> Self {
        Self { names: Names::new(rules, label), sees_all, lost: 0 }
    }

    /// To be called before each batch of records, with the number of calls lost so far.
    pub(crate) fn begin_batch(&mut self, known: &mut Known, lost: u64) {
        if lost != self.lost {
            self.lost = lost;
            known.set_graphs_incomplete(true);
        } else if self.sees_all && known.graphs_are_incomplete() {
            known.set_graphs_incomplete(false);
        }
    }

    /// Resolves a call that has returned. None for a record of an unknown function.
    pub(crate) fn returned(
        &mut self,
        processes: &mut Processes,
        known: &mut Known,
        call: &Call,
        text: &[u8],
    ) -> Option<RuntimeCall> {
        let probe = PROBES.get(call.probe as usize)?;
        let graph = known.graph_call(probe, call);
        let recorded = Recorded { probe, call, text, end_ns: Some(call.end_ns) };
        let resolved = self.resolve(processes, known.memory(call.tgid), &recorded);
        if call.ret as u32 == 0
            && let Some(source) = unloaded(probe, call)
        {
            known.memory(call.tgid).kernels.unload(source);
        }
        Some(RuntimeCall { graph, ..resolved })
    }

    pub(crate) fn in_progress(
        &mut self,
        processes: &mut Processes,
        known: &mut Known,
        key: &CallKey,
        pending: &Pending,
    ) -> Option<RuntimeCall> {
        let probe = PROBES.get(key.probe as usize)?;
        let call = Call {
            kind: 0,
            probe: key.probe,
            tgid: key.tgid,
            tid: key.tid,
            begin_ns: pending.begin_ns,
            end_ns: 0,
            caller: pending.caller,
            ret: 0,
            out: 0,
            chain: pending.chain,
            words: pending.words,
            cpu: 0,
            text_len: 0,
        };
        let recorded = Recorded { probe, call: &call, text: &[], end_ns: None };
        Some(self.resolve(processes, known.memory(key.tgid), &recorded))
    }

    fn resolve(
        &mut self,
        processes: &mut Processes,
        memory: &mut Memory,
        recorded: &Recorded<'_>,
    ) -> RuntimeCall {
        let &Recorded { probe, call, text, end_ns } = recorded;
        let (pid, begin_ns) = (call.tgid, call.begin_ns);
        let text: Option<Arc<str>> = (!text.is_empty()).then(|| String::from_utf8_lossy(text).into());
        let kernel = match (&text, handle(probe, call)) {
            // Functions that name a kernel: modules load by file name, the others by the kernel's name.
            (Some(name), _) if names_kernel(probe) => {
                Some(Kernel { name: kernel_name(name).into(), source: source(probe, call) })
            }
            (_, Some(handle)) => Some(kernel_of(processes, memory, pid, handle, begin_ns)),
            _ => None,
        };
        if let (Some(kernel), Some(handle)) = (&kernel, defined_handle(probe, call))
            && (kernel.source != 0 || memory.kernels.get(handle).is_none_or(|known| kernel.renames(known)))
        {
            memory.kernels.define(handle, kernel.clone());
        }
        let kernel = kernel.map(|kernel| kernel.name);
        // The return address may already belong to the next function, so use the call instruction before it.
        let code = self.names.function(processes, pid, call.caller.wrapping_sub(1), begin_ns);
        let caller = Caller { library: code.library, symbol: code.symbol, address: call.caller };
        RuntimeCall {
            probe,
            pid,
            tid: call.tid,
            begin_ns,
            end_ns,
            cut_ns: None,
            ret: call.ret,
            words: call.words,
            out: call.out,
            text,
            kernel,
            graph: None,
            caller,
            origin: code.origin,
            chain: None,
            queue: None,
            followed: None,
            judged: None,
        }
    }
}

/// The kernel of a handle.
fn kernel_of(processes: &mut Processes, memory: &mut Memory, pid: u32, handle: u64, time_ns: u64) -> Kernel {
    if let Some(kernel) = memory.kernels.get(handle) {
        return kernel.clone();
    }
    // Registered before recording began: the handle is a symbol of the program or library with the kernel.
    if let Some(name) = memory.of_symbols.get(&handle) {
        return Kernel { name: name.clone(), source: 0 };
    }
    let location = processes.locate(pid, handle, time_ns);
    let mut is_unanswered = false;
    let mangled = location.and_then(|location| {
        let symbol = processes.name(&location);
        is_unanswered = symbol == Err(NameError::Unanswered);
        let symbol = symbol.ok();
        // A handle is the start address of a symbol, not one inside it.
        let symbol = symbol.filter(|symbol| symbol.offset == 0).map(|symbol| symbol.mangled);
        symbol.or_else(|| processes.registered_kernel(&location))
    });
    let name: Arc<str> =
        mangled.map_or_else(|| format!("{handle:#x}"), |mangled| kernel_name(&mangled)).into();
    if !is_unanswered {
        memory.of_symbols.insert(handle, name.clone());
    }
    Kernel { name, source: 0 }
}

/// Whether the file that registered the call's kernel before the recording began is being read.
pub(super) fn awaits_kernel(processes: &mut Processes, known: &Known, call: &Call) -> bool {
    let probe = PROBES.get(call.probe as usize).filter(|probe| !names_kernel(probe));
    let Some(handle) = probe.and_then(|probe| handle(probe, call)) else { return false };
    let is_known = known.known_memory(call.tgid).is_some_and(|memory| {
        memory.kernels.get(handle).is_some() || memory.of_symbols.contains_key(&handle)
    });
    !is_known
        && processes.locate(call.tgid, handle, call.begin_ns).is_some_and(|location| {
            !processes.name(&location).is_ok_and(|symbol| symbol.offset == 0)
                && processes.is_reading_kernels(&location)
        })
}

/// Whether the file with the caller is being opened, or that with the handle of the call's kernel.
pub(super) fn awaits_file(processes: &mut Processes, call: &Call) -> bool {
    if !are_files_opening() {
        return false;
    }
    let handle = PROBES.get(call.probe as usize).and_then(|probe| handle(probe, call));
    [Some(call.caller.wrapping_sub(1)), handle].into_iter().flatten().any(|address| {
        let location = processes.locate(call.tgid, address, call.begin_ns);
        location.is_some_and(|location| processes.name(&location) == Err(NameError::Unanswered))
    })
}

/// The kernel handle among the arguments.
fn handle(probe: &Probe, call: &Call) -> Option<u64> {
    let param = probe.params.iter().find(|param| param.kind == ParamKind::Kernel)?;
    // A node of a graph may name its kernel in a field that is not recorded.
    Some(call.words[usize::from(param.offset / 8)]).filter(|handle| *handle != 0)
}

/// Whether the text of a call is a kernel's name.
fn names_kernel(probe: &Probe) -> bool {
    matches!(
        probe.stem,
        "ModuleGetFunction" | "LibraryGetKernel" | "RegisterFunction" | "FuncGetName" | "KernelGetName"
    )
}

/// The handle by which the named kernel is known from now on.
fn defined_handle(probe: &Probe, call: &Call) -> Option<u64> {
    let handle = match probe.stem {
        "RegisterFunction" => call.words[1],
        _ if call.ret as u32 != 0 => 0,
        "ModuleGetFunction" | "LibraryGetKernel" | "GetFuncBySymbol" | "KernelGetFunction" => call.out,
        "FuncGetName" | "KernelGetName" => call.words[1],
        _ => 0,
    };
    (handle != 0).then_some(handle)
}

/// The module, library or binary from which a function that names a kernel takes it; zero if it does not say.
fn source(probe: &Probe, call: &Call) -> u64 {
    match probe.stem {
        "RegisterFunction" => call.words[0],
        "ModuleGetFunction" | "LibraryGetKernel" => call.words[1],
        // It has a name already, wherever it came from.
        _ => 0,
    }
}

/// The module, library or binary that a call unloads.
fn unloaded(probe: &Probe, call: &Call) -> Option<u64> {
    matches!(probe.stem, "ModuleUnload" | "LibraryUnload" | "UnregisterFatBinary").then_some(call.words[0])
}
