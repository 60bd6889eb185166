//! Code: modules and libraries of kernels, and functions reached by name.

use super::super::row::{kernel, pointer};
use crate::probe::Category::Module;
use crate::probe::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::new("cuModuleLoad", Module, &[]).text(1).out(0).vital(),
    Probe::new("cuModuleLoadData", Module, &[pointer("image", 1)]).out(0).vital(),
    Probe::new("cuModuleLoadDataEx", Module, &[pointer("image", 1)]).out(0).vital(),
    Probe::new("cuModuleLoadFatBinary", Module, &[pointer("image", 1)]).out(0).vital(),
    Probe::new("cuModuleUnload", Module, &[pointer("module", 0)]).vital(),
    Probe::new("cuModuleGetFunction", Module, &[pointer("module", 1)]).text(2).out(0).vital(),
    Probe::new("cuModuleGetGlobal_v2", Module, &[pointer("module", 2)]).text(3).out(0),
    Probe::new("cuLibraryLoadData", Module, &[pointer("image", 1)]).out(0).vital(),
    Probe::new("cuLibraryLoadFromFile", Module, &[]).text(1).out(0).vital(),
    Probe::new("cuLibraryUnload", Module, &[pointer("module", 0)]).vital(),
    Probe::new("cuLibraryGetKernel", Module, &[pointer("module", 1)]).text(2).out(0).vital(),
    Probe::new("cuLibraryGetModule", Module, &[pointer("library", 1)]).out(0),
    Probe::new("cuKernelGetFunction", Module, &[kernel(1)]).out(0).vital(),
    // They name kernels that were looked up before the recording began.
    Probe::new("cuFuncGetName", Module, &[kernel(1)]).returned_text(0).vital(),
    Probe::new("cuKernelGetName", Module, &[kernel(1)]).returned_text(0).vital(),
];
