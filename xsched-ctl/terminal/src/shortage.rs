//! What the machine, a container or a shell gives this process too little of: descriptors, memory, threads. Any operation can fail
//! for that, and it is neither the kernel's fault nor this program's.

use std::error::Error;
use std::io;

use crate::causes::chain;
use crate::{ExitCode, Internal};

/// Something that is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// This process may open no more files.
    Descriptors,
    /// The machine may.
    MachineDescriptors,
    /// Memory, locked memory or addresses.
    Memory,
    /// Threads or processes.
    Threads,
}

impl Shortage {
    /// The shortage that has caused an error, if one has.
    pub fn behind(error: &(dyn Error + 'static)) -> Option<Self> {
        let numbers = chain(error).filter_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error());
        numbers.last().and_then(|number| match number {
            libc::EMFILE => Some(Self::Descriptors),
            libc::ENFILE => Some(Self::MachineDescriptors),
            libc::ENOMEM => Some(Self::Memory),
            libc::EAGAIN if chain(error).any(<dyn Error>::is::<Internal>) => Some(Self::Threads),
            _ => None,
        })
    }

    /// What to do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Descriptors => {
                "this process may open too few files: raise the limit (`ulimit -n 4096`, `LimitNOFILE=` of a service)"
            }
            Self::MachineDescriptors => {
                "the machine has no more open files: close some, or raise fs.file-max (`sysctl fs.file-max`)"
            }
            Self::Memory => {
                "memory is short, or limited for this process (`ulimit -v`, `ulimit -l`, the container's limit); a smaller \
                 `--ring-size` takes less"
            }
            Self::Threads => {
                "this user or container may start no more threads: raise the limit (`ulimit -u`, `pids.max`)"
            }
        }
    }

    /// The exit code of a command that fails for it.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::Shortage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_recognised_below_any_error() {
        let internal = |number| Internal::at("starting threads")(io::Error::from_raw_os_error(number));
        let behind = |number| Shortage::behind(&internal(number));
        assert_eq!(behind(libc::EMFILE), Some(Shortage::Descriptors));
        assert_eq!(behind(libc::ENOMEM), Some(Shortage::Memory));
        assert_eq!(behind(libc::EAGAIN), Some(Shortage::Threads));
        assert_eq!(Shortage::behind(&io::Error::from_raw_os_error(libc::EAGAIN)), None);
        assert_eq!(behind(libc::EPERM), None);
    }
}
