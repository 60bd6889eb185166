//! The programs at AMD's kernel driver: at its own functions where the module has BTF and the kernel permits it,
//! otherwise at the tracepoints of ioctl(2). See `xsched_abi::driver`.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use aya::maps::{Array, HashMap, MapData};
use aya::programs::trace_point::TracePointLink;
use xsched_abi::{Device, DriverConfig, PendingIoctl};
use xsched_bpf::{
    BpfError, keys, map_value,
    sys::{self, Direction, Purpose},
};
use xsched_programs::{KernelTypes, TypesError};

use super::attach::Probes;
use super::maps::take;
use super::object::Programs;

/// The kernel module behind all of the driver's devices.
const MODULE: &str = "amdgpu";

/// Which program is attached to which function.
const FUNCTIONS: [(&str, &str, Direction); 4] = [
    // Returns first: a call without its entry is not recorded, one without its return would stay in progress.
    ("driver_leave", "kfd_ioctl", Direction::Return),
    ("driver_leave", "amdgpu_drm_ioctl", Direction::Return),
    ("kfd_enter", "kfd_ioctl", Direction::Enter),
    ("dri_enter", "amdgpu_drm_ioctl", Direction::Enter),
];

/// Why the driver's own functions cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum FunctionsError {
    #[error(transparent)]
    Types(#[from] TypesError),
    #[error(transparent)]
    Refused(#[from] BpfError),
}

/// The programs for the driver's functions, loaded.
pub(crate) struct FunctionPrograms([OwnedFd; FUNCTIONS.len()]);

impl FunctionPrograms {
    /// Loads them for the module as it is loaded now. Must run before the maps are taken out of `programs`.
    pub(crate) fn load(programs: &Programs, types: &KernelTypes) -> Result<Self, FunctionsError> {
        let ids = types.module_functions(MODULE, &FUNCTIONS.map(|(_, function, _)| function))?;
        let btf = sys::module_btf(MODULE).map_err(|cause| TypesError::Module { module: MODULE, cause })?;
        let load = |(program, direction, type_id)| {
            programs.load_as(program, Purpose::ModuleFunction { direction, btf: btf.as_fd(), type_id })
        };
        let mut loaded = Vec::with_capacity(FUNCTIONS.len());
        for ((program, _, direction), type_id) in FUNCTIONS.into_iter().zip(ids) {
            loaded.push(load((program, direction, type_id))?);
        }
        Ok(Self(loaded.try_into().expect("one program is loaded for each function")))
    }

    pub(crate) fn attach(&self) -> Result<DriverLinks, BpfError> {
        let attach = |(program, (name, function, _)): (&OwnedFd, (&'static str, &str, Direction))| {
            sys::link_function(program.as_fd()).map_err(|cause| BpfError::Attach {
                program: name,
                path: PathBuf::from(MODULE).join(function),
                cause,
            })
        };
        let links: Result<_, _> = self.0.iter().zip(FUNCTIONS).map(attach).collect();
        links.map(|links| DriverLinks::Functions { _links: links })
    }
}

/// The links through which driver calls reach the programs. Dropping it detaches them.
pub(crate) enum DriverLinks {
    /// The driver's own functions.
    Functions {
        /// One for each function.
        _links: Vec<OwnedFd>,
    },
    /// The tracepoints of ioctl(2). Entries are detached first.
    Syscalls { _enter: TracePointLink, _leave: TracePointLink },
}

impl Probes {
    pub(crate) fn attach_ioctl(&mut self) -> Result<DriverLinks, BpfError> {
        let leave = self.attach_tracepoint("ioctl_leave", "syscalls", "sys_exit_ioctl")?;
        let enter = self.attach_tracepoint("ioctl_enter", "syscalls", "sys_enter_ioctl")?;
        Ok(DriverLinks::Syscalls { _enter: enter, _leave: leave })
    }
}

map_value!(ConfigValue, DriverConfig);
map_value!(PendingValue, PendingIoctl);

/// The maps that only the programs at the driver use.
pub(crate) struct DriverMaps {
    config: Array<MapData, ConfigValue>,
    devices: HashMap<MapData, u32, u32>,
    ioctls: HashMap<MapData, u64, PendingValue>,
}

impl DriverMaps {
    /// Takes the maps. Must run after [`FunctionPrograms::load`].
    pub(crate) fn take(programs: &mut Programs) -> Result<Self, BpfError> {
        Ok(Self {
            config: take(programs, "DRIVER")?,
            devices: take(programs, "DRIVER_DEVICES")?,
            ioctls: take(programs, "IOCTLS")?,
        })
    }

    /// Tells the programs what to report, and where to find it.
    pub(crate) fn configure(&mut self, config: DriverConfig) -> Result<(), BpfError> {
        self.config.set(0, ConfigValue(config), 0).map_err(|cause| BpfError::Map { map: "DRIVER", cause })
    }

    pub(crate) fn list(&mut self, number: u32, device: Device) -> Result<(), BpfError> {
        self.devices
            .insert(number, device as u32, 0)
            .map_err(|cause| BpfError::Map { map: "DRIVER_DEVICES", cause })
    }

    /// Takes the calls in progress of the processes that `whose` selects.
    pub(crate) fn take_pending(&mut self, mut whose: impl FnMut(u32) -> bool) -> Vec<PendingIoctl> {
        let mut taken = Vec::new();
        for thread in keys(&self.ioctls) {
            if let Ok(value) = self.ioctls.get(&thread, 0)
                && whose(value.0.tgid)
            {
                let _ = self.ioctls.remove(&thread);
                taken.push(value.0);
            }
        }
        taken
    }
}

/// The result of an attempt to load programs for the driver's functions on this machine, for `doctor`.
pub fn try_driver_functions(programs: &Programs) -> Result<(), FunctionsError> {
    FunctionPrograms::load(programs, &KernelTypes::read()?)?.attach().map(drop).map_err(Into::into)
}
