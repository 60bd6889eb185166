//! Exported symbols: one for almost every function, and the exceptions of the genuine library.

use crate::api_list::{Function, Table};

/// A symbol of the library and the table entry that it jumps through.
pub(crate) struct Export {
    pub(crate) symbol: String,
    pub(crate) table: Table,
    pub(crate) index: usize,
    /// Version node: the release that first had the function.
    pub(crate) version: (u32, u32),
    /// First major that exports the symbol. It can differ from the version's major, see `EXTRA`.
    pub(crate) since_major: u32,
}

/// Exports whose symbol is not the function's name: (symbol, function, version, first major).
///
/// The four mangled names are functions that a C++ header declares without `extern "C"`: the list gives three
/// of them no version because no C symbol exists. Programs built before 6.0 import `hipGetDeviceProperties`
/// and `hipChooseDevice`. They pass the old structure, so these symbols lead to the `R0000` entries.
const EXTRA: [(&str, &str, (u32, u32), u32); 7] = [
    (
        "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j",
        "hipExtModuleLaunchKernel",
        (4, 2),
        4,
    ),
    (
        "_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_",
        "hipHccModuleLaunchKernel",
        (4, 2),
        4,
    ),
    ("_Z22hipCreateSurfaceObjectPP13__hip_surfacePK15hipResourceDesc", "hipCreateSurfaceObject", (4, 2), 4),
    ("_Z23hipDestroySurfaceObjectP13__hip_surface", "hipDestroySurfaceObject", (4, 2), 4),
    ("hipGetDeviceProperties", "hipGetDevicePropertiesR0000", (4, 2), 4),
    ("hipChooseDevice", "hipChooseDeviceR0000", (4, 2), 4),
    ("hipChooseDeviceR0600", "hipChooseDevice", (6, 0), 6),
];

/// Every export, C symbols first. A function without a version has no C symbol of its own: three are in
/// `EXTRA` under their mangled names, and `hipExternalMemoryGetMappedMipmappedArray` is reachable through the
/// dispatch table only.
pub(crate) fn of(functions: &[Function]) -> Vec<Export> {
    let plain = functions.iter().filter(|f| !is_extra(&f.name)).filter_map(|f| {
        let version = f.version?;
        // C symbols that HIP 6 added to the oldest version node.
        let is_late = f.name == "hipExtModuleLaunchKernel" || f.name.ends_with("R0000");
        let since_major = if is_late { 6 } else { version.0 };
        Some(Export { symbol: f.name.clone(), table: f.table, index: f.index, version, since_major })
    });
    let extra = EXTRA.iter().map(|(symbol, function, version, since_major)| {
        let target = functions
            .iter()
            .find(|f| f.name == *function)
            .unwrap_or_else(|| panic!("`{function}` is not in the list"));
        Export {
            symbol: (*symbol).to_owned(),
            table: target.table,
            index: target.index,
            version: *version,
            since_major: *since_major,
        }
    });
    plain.chain(extra).collect()
}

/// Whether an extra export already has this name.
fn is_extra(name: &str) -> bool {
    EXTRA.iter().any(|(symbol, ..)| *symbol == name)
}
