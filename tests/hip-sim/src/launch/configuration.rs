//! Call configurations: they carry the values of `<<<..>>>` to the kernel's host stub, which compiled code
//! calls next.

use core::cell::RefCell;

use crate::abi::{dim3, hipError_t, hipStream_t};
use crate::boundary::{self, write};
use crate::error::HipError;

/// The values of `<<<..>>>`, between the caller and the kernel's host stub.
#[derive(Clone, Copy)]
pub(super) struct Configuration {
    pub(super) grid: dim3,
    pub(super) block: dim3,
    pub(super) lds_size: usize,
    pub(super) stream: hipStream_t,
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn push(configuration: Configuration) -> Result<(), HipError> {
    CONFIGURATIONS
        .try_with(|stack| stack.borrow_mut().push(configuration))
        .map_err(|_| HipError::Deinitialized)
}

/// Removes the configuration that was pushed last.
pub(super) fn pop() -> Result<Configuration, HipError> {
    let popped = CONFIGURATIONS.try_with(|stack| stack.borrow_mut().pop());
    popped.ok().flatten().ok_or(HipError::MissingConfiguration)
}

/// `__hipPushCallConfiguration`
pub(crate) unsafe extern "C" fn push_call_configuration(
    grid: dim3,
    block: dim3,
    lds_size: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| push(Configuration { grid, block, lds_size, stream }))
}

/// `__hipPopCallConfiguration`
pub(crate) unsafe extern "C" fn pop_call_configuration(
    grid: *mut dim3,
    block: *mut dim3,
    lds_size: *mut usize,
    stream: *mut hipStream_t,
) -> hipError_t {
    boundary::call(|| {
        let configuration = pop()?;
        // SAFETY: the compiler's stub passes writable out-parameters.
        unsafe {
            write(grid, configuration.grid)?;
            write(block, configuration.block)?;
            write(lds_size, configuration.lds_size)?;
            write(stream, configuration.stream)
        }
    })
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;

    const GRID: dim3 = dim3 { x: 1, y: 2, z: 3 };
    const BLOCK: dim3 = dim3 { x: 4, y: 5, z: 6 };

    #[test]
    fn call_configurations_are_a_stack() {
        let (mut grid, mut block, mut lds_size, mut stream) =
            (dim3::default(), dim3::default(), 0, ptr::null_mut());
        // SAFETY: local out-parameters.
        unsafe {
            let (grid, block, lds_size, stream) =
                (&raw mut grid, &raw mut block, &raw mut lds_size, &raw mut stream);
            assert_eq!(push_call_configuration(GRID, BLOCK, 7, ptr::null_mut()), 0);
            assert_eq!(pop_call_configuration(grid, block, lds_size, stream), 0);
            assert_eq!(
                pop_call_configuration(grid, block, lds_size, stream),
                HipError::MissingConfiguration.code()
            );
        }
        assert_eq!((grid, block, lds_size), (GRID, BLOCK, 7));
    }
}
