//! Code: modules and libraries of kernels, the registration before `main`, and functions reached by name.

use super::super::Return;
use super::row::{kernel, pointer};
use crate::probe::Category::{Module, Register};
use crate::probe::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::new("hipModuleLoad", Module, &[]).text(1).out(0).vital(),
    Probe::new("hipModuleLoadData", Module, &[pointer("image", 1)]).out(0).vital(),
    Probe::new("hipModuleLoadDataEx", Module, &[pointer("image", 1)]).out(0).vital(),
    Probe::new("hipModuleLoadFatBinary", Module, &[pointer("image", 1)]).out(0).vital(),
    Probe::new("hipModuleUnload", Module, &[pointer("module", 0)]).vital(),
    Probe::new("hipModuleGetFunction", Module, &[pointer("module", 1)]).text(2).out(0).vital(),
    Probe::new("hipModuleGetGlobal", Module, &[pointer("module", 2)]).text(3).out(0),
    Probe::new("hipGetFuncBySymbol", Module, &[kernel(1)]).out(0).vital(),
    Probe::new("hipLibraryLoadData", Module, &[pointer("image", 1)]).out(0).vital(),
    Probe::new("hipLibraryLoadFromFile", Module, &[]).text(1).out(0).vital(),
    Probe::new("hipLibraryUnload", Module, &[pointer("module", 0)]).vital(),
    Probe::new("hipLibraryGetKernel", Module, &[pointer("module", 1)]).text(2).out(0).vital(),
    Probe::new("hipKernelGetFunction", Module, &[kernel(1)]).out(0).vital(),
    Probe::new("hipGetProcAddress", Module, &[]).text(0).out(1),
    Probe::new("hipGetProcAddress_spt", Module, &[]).text(0).out(1),
    Probe::new("hipGetDriverEntryPoint", Module, &[]).text(0).out(1),
    Probe::new("hipGetDriverEntryPoint_spt", Module, &[]).text(0).out(1),
    Probe::new("__hipRegisterFatBinary", Register, &[]).returns(Return::Pointer).vital(),
    Probe::new("__hipRegisterFunction", Register, &[pointer("binary", 0), pointer("handle", 1)])
        .text(3)
        .returns(Return::Void)
        .vital(),
    Probe::new("__hipUnregisterFatBinary", Register, &[pointer("binary", 0)]).returns(Return::Void).vital(),
];
