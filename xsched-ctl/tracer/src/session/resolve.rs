//! Turns records into calls with names.

use std::collections::HashMap;
use std::sync::Arc;

use xsched_abi::{Call, CallKey, PROBES, ParamKind, Pending, Probe};
use xsched_chains::{Caller, Label, Names};
use xsched_rules::Rules;
use xsched_symbols::{Change, NameError, Processes, are_files_opening, kernel_name};

use super::graphs::Graphs;
use super::kernels::{Kernel, Kernels};
use crate::call::RuntimeCall;

/// Names for everything in a record.
pub(crate) struct Resolver {
    /// Of functions and chains.
    pub(super) names: Names,
    kernels: Kernels,
    graphs: Graphs,
    /// Whether every call is recorded, so that graphs can be followed.
    sees_all: bool,
    /// Calls lost before the present batch.
    lost: u64,
    /// By process, names of kernels that symbols say, by handle. Emptied whenever the process's mappings change.
    of_symbols: HashMap<u32, HashMap<u64, Arc<str>>>,
}

/// A call that has returned, or was still in progress.
struct Recorded<'a> {
    probe: &'static Probe,
    call: &'a Call,
    text: &'a [u8],
    end_ns: Option<u64>,
}

impl Resolver {
    /// Nothing is known yet. `rules` determine origins, and chains show their frames as `label` says. `sees_all`: no
    /// call is filtered out.
    pub(crate) fn new(rules: Rules, label: Label, sees_all: bool) -> Self {
        let mut graphs = Graphs::default();
        graphs.set_incomplete(!sees_all);
        Self {
            names: Names::new(rules, label),
            kernels: Kernels::default(),
            graphs,
            sees_all,
            lost: 0,
            of_symbols: HashMap::new(),
        }
    }

    /// To be called before each batch of records, with the number of calls lost so far.
    pub(crate) fn begin_batch(&mut self, lost: u64) {
        if lost != self.lost {
            self.lost = lost;
            self.graphs.set_incomplete(true);
        } else if self.sees_all && self.graphs.is_incomplete() {
            self.graphs.set_incomplete(false);
        }
    }

    pub(crate) fn changed(&mut self, change: &Change) {
        self.names.changed(change);
        match change {
            Change::Mapped { pid, .. } | Change::Found { pid } => {
                self.of_symbols.remove(pid);
            }
            Change::Forked { pid, parent } => {
                self.of_symbols.remove(pid);
                self.kernels.fork(*parent, *pid);
                self.graphs.forget(*pid);
            }
            Change::Executed { pid } | Change::Exited { pid } => {
                self.of_symbols.remove(pid);
                self.kernels.forget(*pid);
                self.graphs.forget(*pid);
            }
            Change::Renamed { .. } | Change::Lost { .. } => {}
        }
    }

    /// A process ended some time ago: nothing more of it is resolved. Chains may have been resolved since its end was
    /// seen.
    pub(crate) fn ended(&mut self, pid: u32) {
        self.names.ended(pid);
        self.of_symbols.remove(&pid);
    }

    /// Resolves a call that has returned. None for a record of an unknown function.
    pub(crate) fn returned(
        &mut self,
        processes: &mut Processes,
        call: &Call,
        text: &[u8],
    ) -> Option<RuntimeCall> {
        let probe = PROBES.get(call.probe as usize)?;
        let graph = self.graphs.note(probe, call);
        let resolved = self.resolve(processes, &Recorded { probe, call, text, end_ns: Some(call.end_ns) });
        if call.ret as u32 == 0
            && let Some(source) = unloaded(probe, call)
        {
            self.kernels.unload(call.tgid, source);
        }
        Some(RuntimeCall { graph, ..resolved })
    }

    /// Whether the file that registered the call's kernel before the recording began is being read.
    pub(crate) fn awaits_kernel(&self, processes: &mut Processes, call: &Call) -> bool {
        let probe = PROBES.get(call.probe as usize).filter(|probe| !names_kernel(probe));
        let Some(handle) = probe.and_then(|probe| handle(probe, call)) else { return false };
        let is_known = self.kernels.get(call.tgid, handle).is_some()
            || self.of_symbols.get(&call.tgid).is_some_and(|names| names.contains_key(&handle));
        !is_known
            && processes.locate(call.tgid, handle, call.begin_ns).is_some_and(|location| {
                !processes.name(&location).is_ok_and(|symbol| symbol.offset == 0)
                    && processes.is_reading_kernels(&location)
            })
    }

    pub(crate) fn in_progress(
        &mut self,
        processes: &mut Processes,
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
        Some(self.resolve(processes, &Recorded { probe, call: &call, text: &[], end_ns: None }))
    }

    fn resolve(&mut self, processes: &mut Processes, recorded: &Recorded<'_>) -> RuntimeCall {
        let &Recorded { probe, call, text, end_ns } = recorded;
        let (pid, begin_ns) = (call.tgid, call.begin_ns);
        let text: Option<Arc<str>> = (!text.is_empty()).then(|| String::from_utf8_lossy(text).into());
        let kernel = match (&text, handle(probe, call)) {
            // Functions that name a kernel: modules load by file name, the others by the kernel's name.
            (Some(name), _) if names_kernel(probe) => {
                Some(Kernel { name: kernel_name(name).into(), source: source(probe, call) })
            }
            (_, Some(handle)) => Some(self.kernel(processes, pid, handle, begin_ns)),
            _ => None,
        };
        if let (Some(kernel), Some(handle)) = (&kernel, defined_handle(probe, call))
            && (kernel.source != 0 || self.kernels.get(pid, handle).is_none_or(|known| kernel.renames(known)))
        {
            self.kernels.define(pid, handle, kernel.clone());
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

    fn kernel(&mut self, processes: &mut Processes, pid: u32, handle: u64, time_ns: u64) -> Kernel {
        if let Some(kernel) = self.kernels.get(pid, handle) {
            return kernel.clone();
        }
        // Registered before recording began: the handle is a symbol of the program or library with the kernel.
        let of_symbols = self.of_symbols.entry(pid).or_default();
        if let Some(name) = of_symbols.get(&handle) {
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
            of_symbols.insert(handle, name.clone());
        }
        Kernel { name, source: 0 }
    }
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
