//! The checks before a launch.

use super::geometry::Geometry;
use crate::abi::hipLaunchAttribute;
use crate::error::HipError;
use crate::kernel::{Kernel, Passed};
use crate::properties::{self, MAX_THREADS_PER_BLOCK, MAX_THREADS_PER_COMPUTE_UNIT, compute_units};

/// Whether all blocks must be resident at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Residency {
    Any,
    Cooperative,
}

/// `hipLaunchAttributeCooperative`
const ATTRIBUTE_COOPERATIVE: u32 = 2;

impl Residency {
    /// From a configuration's attributes. As in
    /// [clr](https://github.com/ROCm/clr/blob/81bf49751168/hipamd/src/hip_module.cpp) (7.0), one cooperative
    /// attribute makes the launch cooperative, whatever the others are. A launch with attributes but without
    /// a cooperative one is refused.
    ///
    /// # Safety
    ///
    /// `attributes` is null or an array of `count` elements.
    pub(super) unsafe fn from_attributes(
        attributes: *const hipLaunchAttribute,
        count: u32,
    ) -> Result<Self, HipError> {
        if count == 0 {
            return Ok(Self::Any);
        }
        if attributes.is_null() {
            return Err(HipError::InvalidConfiguration);
        }
        // SAFETY: the caller upholds this function's contract.
        let all = unsafe { core::slice::from_raw_parts(attributes, count as usize) };
        let is_cooperative = all.iter().any(|one| one.id == ATTRIBUTE_COOPERATIVE && one.value != 0);
        is_cooperative.then_some(Self::Cooperative).ok_or(HipError::InvalidConfiguration)
    }
}

/// The genuine runtime's checks, in its order.
pub(super) fn check(
    kernel: &Kernel,
    geometry: &Geometry,
    passed: Passed,
    residency: Residency,
) -> Result<(), HipError> {
    geometry.check()?;
    let threads = geometry.threads_per_block();
    if threads > u64::from(MAX_THREADS_PER_BLOCK) {
        return Err(HipError::InvalidValue);
    }
    if matches!(passed, Passed::Pointers(p) if p.is_null()) && !kernel.arguments.is_empty() {
        return Err(HipError::InvalidValue);
    }
    if threads > u64::from(kernel.max_threads_per_block) {
        return Err(HipError::LaunchFailure);
    }
    if geometry.lds_size + kernel.lds_size > properties::lds_size() {
        return Err(HipError::InvalidValue);
    }
    let resident = u64::from((MAX_THREADS_PER_COMPUTE_UNIT * compute_units()).unsigned_abs()) / threads;
    if residency == Residency::Cooperative && geometry.blocks()? > resident {
        return Err(HipError::CooperativeLaunchTooLarge);
    }
    Ok(())
}
