//! Launches by a configuration, which the deferred call owns with its attributes.

use std::slice;

use crate::api::Id;
use crate::defer::deferrable::launch::{Shape, checked, is_resident, own_arguments_with};
use crate::hip::owned::Owner;
use crate::hip::real::KernelRef;
use crate::planted::{Bug, is_planted};
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::Stopped;

/// Words of `hipLaunchConfig_t` and `HIP_LAUNCH_CONFIG`: grid and block (three), shared memory, stream, attributes and
/// their number.
const CONFIG_WORDS: usize = 7;
/// The word with the attributes' address.
const CONFIG_ATTRIBUTES: usize = 5;

/// `hipLaunchAttributeCooperative`, `hipLaunchAttributePriority`
const COOPERATIVE: u32 = 2;
const PRIORITY: u32 = 8;
/// High, normal, low.
const PRIORITIES: std::ops::RangeInclusive<i32> = -1..=1;

/// Words of `hipLaunchAttribute`: its id, and a value of 64 bytes. All releases that have these functions have this
/// size; the values of 32 bytes in earlier headers were those of graph nodes only.
const ATTRIBUTE_WORDS: usize = 9;
/// A launch with more attributes waits in place.
const ATTRIBUTES_MAX: usize = 16;

type Attribute = [u64; ATTRIBUTE_WORDS];

pub(super) fn own<O: Owner>(call: &Stopped<'_>, copy: &RuntimeCopy, device: i32) -> Option<O> {
    let config = call.size(0) as *const [u64; CONFIG_WORDS];
    if config.is_null() {
        return None;
    }
    // SAFETY: the application gives a configuration.
    let mut words = unsafe { config.read() };
    let half = |index: usize| (words[index / 2] >> (32 * (index % 2))) as u32;
    let dimensions = |first| [half(first), half(first + 1), half(first + 2)];
    let is_runtime = call.id() == Id::hipLaunchKernelExC;
    // The driver's structure has 32 bits of shared memory, and the word's other half is not read.
    let (named, shared_bytes) = if is_runtime {
        (KernelRef::Handle(call.size(1)), words[3])
    } else {
        (KernelRef::Function(call.size(1)), words[3] & u64::from(u32::MAX))
    };
    // Arguments in a buffer: the runtime of ROCm 7.0 does not read them here.
    if !is_runtime && call.size(3) != 0 {
        return None;
    }
    let shape = Shape { grid: dimensions(0), block: dimensions(3), shared_bytes };
    let kernel = checked(copy, device, named, shape)?;
    // SAFETY: as many attributes as the configuration says.
    let attributes = unsafe { attributes_at(words[CONFIG_ATTRIBUTES], words[6] as u32)? };
    if !attributes.is_empty() {
        // ROCm 7.0 refuses a launch with attributes unless one of them makes it cooperative.
        (makes_cooperative(attributes)? || is_planted(Bug::UncheckedLaunch)).then_some(())?;
        is_resident(call, copy, device, named, shape)?;
    }
    let capacity = CONFIG_WORDS + attributes.as_flattened().len();
    let mut owned: O = own_arguments_with(call, &kernel, 2, None, capacity)?;
    if !attributes.is_empty() {
        words[CONFIG_ATTRIBUTES] = owned.keep(attributes.as_flattened())?;
        words[CONFIG_ATTRIBUTES + 1] -= u64::from(is_planted(Bug::LostAttribute));
    }
    owned.own_words(0, &words)?;
    Some(owned)
}

/// A configuration's attributes; None if there are too many, or their address is null.
///
/// # Safety
/// The address must point to so many attributes, for as long as the call is stopped.
unsafe fn attributes_at<'a>(address: u64, count: u32) -> Option<&'a [Attribute]> {
    match count as usize {
        0 => Some(&[]),
        count @ 1..=ATTRIBUTES_MAX if address != 0 => {
            // SAFETY: the caller's promise.
            Some(unsafe { slice::from_raw_parts(address as *const Attribute, count) })
        }
        _ => None,
    }
}

/// Whether these make a launch cooperative; None if it is not known that the runtime takes all of them.
fn makes_cooperative(attributes: &[Attribute]) -> Option<bool> {
    attributes.iter().try_fold(false, |makes, attribute| {
        let value = attribute[1] as u32;
        match attribute[0] as u32 {
            COOPERATIVE => Some(makes || value != 0),
            PRIORITY if PRIORITIES.contains(&value.cast_signed()) => Some(makes),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(id: u32, value: u32) -> Attribute {
        let mut words = [0; ATTRIBUTE_WORDS];
        (words[0], words[1]) = (id.into(), value.into());
        words
    }

    /// `hipLaunchAttributeClusterDimension`
    const CLUSTER: u32 = 4;

    #[test]
    fn all_attributes_are_checked_and_unknown_ones_wait() {
        let (cooperative, not) = (attribute(COOPERATIVE, 1), attribute(COOPERATIVE, 0));
        let (usual, wild) = (attribute(PRIORITY, 0), attribute(PRIORITY, 7));
        assert_eq!(makes_cooperative(&[usual, not, cooperative]), Some(true));
        assert_eq!(makes_cooperative(&[usual, not]), Some(false));
        assert_eq!(makes_cooperative(&[cooperative, wild]), None);
        assert_eq!(makes_cooperative(&[cooperative, attribute(CLUSTER, 1)]), None);
    }

    #[test]
    fn as_many_attributes_are_read_as_the_configuration_has() {
        let all = [attribute(COOPERATIVE, 1), attribute(PRIORITY, 1)];
        let address = all.as_ptr() as u64;
        // SAFETY: two of them are there, or the address is not read.
        unsafe {
            assert_eq!(attributes_at(address, 2), Some(&all[..]));
            assert_eq!(attributes_at(0, 0), Some(&[][..]));
            assert_eq!(attributes_at(0, 1), None);
            assert_eq!(attributes_at(address, ATTRIBUTES_MAX as u32 + 1), None);
        }
    }
}
