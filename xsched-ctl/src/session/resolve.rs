//! Turns records into calls with names.

use std::collections::HashMap;
use std::sync::Arc;

use xsched_abi::{Call, CallKey, Category, ChainEnd, PROBES, ParamKind, Pending, Probe};
use xsched_rules::Rules;
use xsched_symbols::{Backing, Change, ElfError, Mapping, NameError, Processes, kernel_name, short_name};

use super::graphs::Graphs;
use super::kernels::{Kernel, Kernels};
use super::perf_map::PerfMaps;
use crate::call::{Caller, HipCall};
use crate::chain::{Chain, Frame, GENERATED, Label};

/// Names for everything in a record.
pub(crate) struct Resolver {
    rules: Rules,
    label: Label,
    kernels: Kernels,
    perf_maps: PerfMaps,
    graphs: Graphs,
    /// Whether every call is recorded, so that graphs can be followed.
    sees_all: bool,
    /// Calls lost before the present batch.
    lost: u64,
    /// Results by address, for each process. Cleared whenever the process's mappings change.
    known: HashMap<u32, Known>,
}

#[derive(Default)]
struct Known {
    /// Keyed by the mapping's own address in memory, and address. Calls and chains are not resolved in order of time,
    /// and another library may have been at an address before.
    functions: HashMap<(usize, u64), Placed>,
    kernels: HashMap<u64, Arc<str>>,
}

/// A function and its mapping, which is kept alive so that its address stays unique.
struct Placed {
    function: Function,
    _mapping: Option<Arc<Mapping>>,
}

/// The code around an address.
#[derive(Clone)]
struct Function {
    library: Arc<str>,
    /// Demangled.
    symbol: Option<Arc<str>>,
    /// Without parameters.
    name: Option<Arc<str>>,
    /// The origin of its calls if nothing is known about its callers.
    origin: Arc<str>,
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
            rules,
            label,
            kernels: Kernels::default(),
            perf_maps: PerfMaps::default(),
            graphs,
            sees_all,
            lost: 0,
            known: HashMap::new(),
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

    /// Notes a change in a process.
    pub(crate) fn changed(&mut self, change: &Change) {
        match change {
            Change::Mapped { pid, .. } | Change::Found { pid } => {
                self.known.remove(pid);
            }
            Change::Forked { pid, parent } => {
                self.known.remove(pid);
                self.kernels.fork(*parent, *pid);
                self.graphs.forget(*pid);
            }
            Change::Executed { pid } | Change::Exited { pid } => {
                self.known.remove(pid);
                self.kernels.forget(*pid);
                self.graphs.forget(*pid);
                self.perf_maps.forget(*pid);
            }
            Change::Renamed { .. } | Change::Lost { .. } => {}
        }
    }

    /// A process ended some time ago: nothing more of it is resolved. Chains may have been resolved since its end was
    /// seen.
    pub(crate) fn ended(&mut self, pid: u32) {
        self.known.remove(&pid);
    }

    /// Resolves a call that has returned. None for a record of an unknown function.
    pub(crate) fn returned(
        &mut self,
        processes: &mut Processes,
        call: &Call,
        text: &[u8],
    ) -> Option<HipCall> {
        let probe = PROBES.get(call.probe as usize)?;
        let graph = self.graphs.note(probe, call);
        let resolved = self.resolve(processes, &Recorded { probe, call, text, end_ns: Some(call.end_ns) });
        if call.ret as u32 == 0
            && let Some(source) = unloaded(probe, call)
        {
            self.kernels.unload(call.tgid, source);
        }
        Some(HipCall { graph, ..resolved })
    }

    /// Resolves a call that has not returned.
    pub(crate) fn in_progress(
        &mut self,
        processes: &mut Processes,
        key: &CallKey,
        pending: &Pending,
    ) -> Option<HipCall> {
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

    fn resolve(&mut self, processes: &mut Processes, recorded: &Recorded<'_>) -> HipCall {
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
        if let (Some(kernel), Some(handle)) = (&kernel, defined_handle(probe, call)) {
            self.kernels.define(pid, handle, kernel.clone());
        }
        let kernel = kernel.map(|kernel| kernel.name);
        // The return address may already belong to the next function, so use the call instruction before it.
        let code = self.function(processes, pid, call.caller.wrapping_sub(1), begin_ns);
        let caller = Caller { library: code.library, symbol: code.symbol, address: call.caller };
        HipCall {
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

    /// Names the addresses of a chain, each with whether a signal interrupted there.
    pub(crate) fn chain(
        &mut self,
        processes: &mut Processes,
        pid: u32,
        time_ns: u64,
        addresses: &[(u64, bool)],
        end: ChainEnd,
    ) -> Chain {
        let mut frames = Vec::with_capacity(addresses.len());
        for &(address, is_interrupted) in addresses {
            let inside = address.wrapping_sub(u64::from(!is_interrupted));
            let Function { library, name, .. } = self.function(processes, pid, inside, time_ns);
            frames.push(Frame { library, name, address });
        }
        let origin = self.rules.origin(frames.iter().map(|frame| &frame.library)).cloned();
        Chain::new(frames, end, origin, self.label)
    }

    fn function(&mut self, processes: &mut Processes, pid: u32, address: u64, time_ns: u64) -> Function {
        let known = self.known.entry(pid).or_default();
        let mapping =
            processes.find(pid, time_ns).and_then(|process| process.code_at(address, time_ns)).cloned();
        let key = (mapping.as_ref().map_or(0, |mapping| Arc::as_ptr(mapping) as usize), address);
        if let Some(placed) = known.functions.get(&key) {
            return placed.function.clone();
        }
        if mapping.as_ref().is_some_and(|mapping| mapping.backing == Backing::Anonymous) {
            return self.generated(pid, address);
        }
        let location = processes.locate(pid, address, time_ns);
        let symbol = match location.as_ref().map(|location| processes.name(location)) {
            Some(Err(NameError::Elf(ElfError::NotElf)))
                if mapping.as_ref().is_some_and(|mapping| mapping.may_hold_generated_code()) =>
            {
                return self.generated(pid, address);
            }
            symbol => symbol.and_then(Result::ok),
        };
        let library: Arc<str> =
            location.map_or_else(|| UNKNOWN.into(), |location| location.mapping.library().into());
        let function = Function {
            // The chain is the immediate caller alone.
            origin: self.rules.origin([&library]).unwrap_or(&library).clone(),
            library,
            name: symbol.as_ref().map(|symbol| short_name(&symbol.mangled).into()),
            symbol: symbol.map(|symbol| symbol.demangled),
        };
        if known.functions.len() >= FUNCTIONS_MAX {
            known.functions.clear();
        }
        known.functions.insert(key, Placed { function: function.clone(), _mapping: mapping });
        function
    }

    /// A function of generated code. It is not cached: other code may be generated at the same address.
    fn generated(&mut self, pid: u32, address: u64) -> Function {
        let library: Arc<str> = GENERATED.into();
        let name = self.perf_maps.name(pid, address);
        let origin = self.rules.origin([&library]).unwrap_or(&library).clone();
        Function { origin, library, symbol: name.clone(), name }
    }

    fn kernel(&mut self, processes: &mut Processes, pid: u32, handle: u64, time_ns: u64) -> Kernel {
        if let Some(kernel) = self.kernels.get(pid, handle) {
            return kernel.clone();
        }
        // Registered before recording began: the handle is a symbol of the program or library with the kernel.
        let known = self.known.entry(pid).or_default();
        if let Some(name) = known.kernels.get(&handle) {
            return Kernel { name: name.clone(), source: 0 };
        }
        let location = processes.locate(pid, handle, time_ns);
        let mangled = location.and_then(|location| {
            let symbol = processes.name(&location).ok();
            // A handle is the start address of a symbol, not one inside it.
            let symbol = symbol.filter(|symbol| symbol.offset == 0).map(|symbol| symbol.mangled);
            symbol.or_else(|| processes.registered_kernel(&location))
        });
        let name: Arc<str> =
            mangled.map_or_else(|| format!("{handle:#x}"), |mangled| kernel_name(&mangled)).into();
        known.kernels.insert(handle, name.clone());
        Kernel { name, source: 0 }
    }
}

/// Limit on cached addresses for each process.
const FUNCTIONS_MAX: usize = 1 << 16;

/// Library name for calls from code outside of all known mappings.
const UNKNOWN: &str = "[unknown]";

/// The kernel handle among the arguments.
fn handle(probe: &Probe, call: &Call) -> Option<u64> {
    let param = probe.params.iter().find(|param| param.kind == ParamKind::Kernel)?;
    Some(call.words[usize::from(param.offset / 8)])
}

/// Whether the text of a call is a kernel's name.
fn names_kernel(probe: &Probe) -> bool {
    matches!(probe.name, "hipModuleGetFunction" | "hipLibraryGetKernel" | "__hipRegisterFunction")
}

/// The handle by which the named kernel is known from now on.
fn defined_handle(probe: &Probe, call: &Call) -> Option<u64> {
    let handle = match (probe.category, probe.name) {
        (Category::Register, "__hipRegisterFunction") => call.words[1],
        (
            Category::Module,
            "hipModuleGetFunction" | "hipLibraryGetKernel" | "hipGetFuncBySymbol" | "hipKernelGetFunction",
        ) if call.ret as u32 == 0 => call.out,
        _ => 0,
    };
    (handle != 0).then_some(handle)
}

/// The module, library or binary from which a function that names a kernel takes it.
fn source(probe: &Probe, call: &Call) -> u64 {
    if probe.category == Category::Register { call.words[0] } else { call.words[1] }
}

/// The module, library or binary that a call unloads.
fn unloaded(probe: &Probe, call: &Call) -> Option<u64> {
    matches!(probe.name, "hipModuleUnload" | "hipLibraryUnload" | "__hipUnregisterFatBinary")
        .then_some(call.words[0])
}
