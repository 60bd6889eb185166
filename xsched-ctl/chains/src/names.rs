//! Names for the addresses of processes: libraries, functions, and the library to which a call belongs.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use xsched_abi::ChainEnd;
use xsched_rules::Rules;
use xsched_symbols::{
    Backing, Change, ElfError, Mapping, NameError, Processes, are_files_opening, is_shim, short_name,
};

use crate::chain::{Chain, Frame, GENERATED, Label};
use crate::perf_map::PerfMaps;

/// Names of functions and chains, as far as they are known.
pub struct Names {
    rules: Rules,
    label: Label,
    perf_maps: PerfMaps,
    /// Results by address, for each process. Cleared whenever the process's mappings change.
    known: HashMap<u32, Functions>,
    /// A name was not found because its file is still being opened.
    is_unanswered: bool,
}

/// Functions by the mapping (its own address in memory) and by address. Calls and chains are not named in the order of their
/// times, and another library may have been at an address before.
type Functions = HashMap<(usize, u64), Placed>;

/// A function and its mapping, which is kept alive so that its address stays unique.
struct Placed {
    function: Function,
    _mapping: Option<Arc<Mapping>>,
}

/// The code around an address.
#[derive(Clone)]
pub struct Function {
    /// File name of the library or executable; a name in brackets for code that is in no file.
    pub library: Arc<str>,
    /// Demangled.
    pub symbol: Option<Arc<str>>,
    /// Without parameters.
    pub name: Option<Arc<str>>,
    /// The origin of its calls if nothing is known about its callers.
    pub origin: Arc<str>,
}

impl Names {
    /// Nothing is known yet; the library to which a call belongs is decided by `rules`, and chains show their frames as `label`
    /// says.
    pub fn new(rules: Rules, label: Label) -> Self {
        Self { rules, label, perf_maps: PerfMaps::default(), known: HashMap::new(), is_unanswered: false }
    }

    /// Notes a change in a process.
    pub fn changed(&mut self, change: &Change) {
        match change {
            Change::Mapped { pid, .. } | Change::Found { pid } | Change::Forked { pid, .. } => {
                self.known.remove(pid);
            }
            Change::Executed { pid } | Change::Exited { pid } => {
                self.known.remove(pid);
                self.perf_maps.forget(*pid);
            }
            Change::Renamed { .. } | Change::Lost { .. } => {}
        }
    }

    /// A process ended some time ago: nothing more of it is named. Chains may have been since it was seen to end.
    pub fn ended(&mut self, pid: u32) {
        self.known.remove(&pid);
        self.perf_maps.forget(pid);
    }

    /// Whether a name was missing since this was last asked, because its file is still being opened and names may wait for it.
    pub fn take_unanswered(&mut self) -> bool {
        std::mem::take(&mut self.is_unanswered) && are_files_opening()
    }

    /// Names the addresses of a chain, each with whether a signal interrupted there.
    pub fn chain(
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
        let of_shim = frames.iter().take_while(|frame| is_shim(Path::new(&*frame.library))).count();
        // Between the program and the runtime. A thread of the shim's has no others but the C library's.
        if frames.get(of_shim).is_some() {
            frames.drain(..of_shim);
        }
        let origin = self.rules.origin(frames.iter().map(|frame| &frame.library)).cloned();
        Chain::new(frames, end, origin, self.label)
    }

    /// The function around an address.
    pub fn function(&mut self, processes: &mut Processes, pid: u32, address: u64, time_ns: u64) -> Function {
        let known = self.known.entry(pid).or_default();
        let mapping =
            processes.find(pid, time_ns).and_then(|process| process.code_at(address, time_ns)).cloned();
        let key = (mapping.as_ref().map_or(0, |mapping| Arc::as_ptr(mapping) as usize), address);
        if let Some(placed) = known.get(&key) {
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
            symbol => symbol,
        };
        // The file may be opened later. It may just have been, between the two questions above.
        let is_unanswered = match &symbol {
            Some(Err(NameError::Unanswered)) => true,
            Some(Err(NameError::NoSymbol)) => location.as_ref().is_some_and(|at| !at.is_in_module()),
            _ => false,
        };
        let symbol = symbol.and_then(Result::ok);
        let library: Arc<str> =
            location.map_or_else(|| UNKNOWN.into(), |location| location.mapping.library().into());
        let function = Function {
            // The chain is the immediate caller alone.
            origin: self.rules.origin([&library]).unwrap_or(&library).clone(),
            library,
            name: symbol.as_ref().map(|symbol| short_name(&symbol.mangled).into()),
            symbol: symbol.map(|symbol| symbol.demangled),
        };
        if is_unanswered {
            self.is_unanswered = true;
            return function;
        }
        if known.len() >= FUNCTIONS_MAX {
            known.clear();
        }
        known.insert(key, Placed { function: function.clone(), _mapping: mapping });
        function
    }

    /// A function of generated code. It is not cached: other code may be generated at the same address.
    fn generated(&mut self, pid: u32, address: u64) -> Function {
        let library: Arc<str> = GENERATED.into();
        let name = self.perf_maps.name(pid, address);
        let origin = self.rules.origin([&library]).unwrap_or(&library).clone();
        Function { origin, library, symbol: name.clone(), name }
    }
}

/// Limit on cached addresses for each process.
const FUNCTIONS_MAX: usize = 1 << 16;

/// Library name for calls from code outside of all known mappings.
const UNKNOWN: &str = "[unknown]";
