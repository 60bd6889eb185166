//! Which partition of an accelerator a device is, where the runtime does not say.
//!
//! `hipDeviceGetPCIBusId` prints a partition's number as its function since ROCm 6.2, and 0 for all of them before. The number is
//! the driver's, and HSA has it in the address of each agent. The runtime's devices are HSA's GPUs in their order, of which a
//! variable selects some. Then processes agree on the key, whatever they see of the machine and whichever runtime they use.

use std::ffi::c_void;
use std::ptr::NonNull;

use xsched_preload::env;
use xsched_protocol::arbiter_page::device_key;

use crate::hip::real;
use crate::runtime;
use crate::runtime::copies::RuntimeCopy;

/// The first release that prints the number.
const PRINTED_SINCE: i32 = 60_200_000;

/// The part of a key that names the partition.
const PARTITION: u64 = 0xff;

/// `HSA_AGENT_INFO_DEVICE`, `HSA_DEVICE_TYPE_GPU`
const DEVICE_TYPE: u32 = 17;
const GPU: u32 = 1;
/// `HSA_AMD_AGENT_INFO_BDFID`, `HSA_AMD_AGENT_INFO_DOMAIN`
const ADDRESS: u32 = 0xa006;
const DOMAIN: u32 = 0xa00f;

/// `hsa_agent_get_info`; an agent is a structure of one word.
type Ask = unsafe extern "C" fn(u64, u32, *mut c_void) -> u32;
type OnAgent = unsafe extern "C" fn(u64, *mut c_void) -> u32;
/// `hsa_iterate_agents`
type Iterate = unsafe extern "C" fn(OnAgent, *mut c_void) -> u32;

/// The key of a device for which the runtime has printed an address with this key.
pub(crate) fn key_of(copy: &RuntimeCopy, device: i32, printed: u64) -> u64 {
    if real::version(copy).is_none_or(|version| version >= PRINTED_SINCE) {
        return printed;
    }
    let (visible, count) = (env::visible_devices(), real::device_count(copy).unwrap_or(0));
    resolve(&gpus().unwrap_or_default(), visible.as_deref(), count, device, printed)
}

/// What is printed counts if the order of the runtime's devices is not understood.
fn resolve(gpus: &[u64], visible: Option<&str>, count: i32, device: i32, printed: u64) -> u64 {
    let selected = select(gpus, visible);
    let found = usize::try_from(device).ok().and_then(|device| selected.get(device).copied());
    let is_it =
        |key: &u64| usize::try_from(count) == Ok(selected.len()) && (*key ^ printed) & !PARTITION == 0;
    found.filter(is_it).unwrap_or(printed)
}

/// The runtime's devices, by its variable: indices up to the first that is none; one that is repeated counts once.
fn select(gpus: &[u64], visible: Option<&str>) -> Vec<u64> {
    let Some(visible) = visible else { return gpus.to_vec() };
    let mut indices: Vec<usize> = Vec::new();
    for word in visible.split(',') {
        match word.parse() {
            Ok(index) if index < gpus.len() && !word.starts_with('+') => {
                if !indices.contains(&index) {
                    indices.push(index);
                }
            }
            _ => break,
        }
    }
    indices.into_iter().map(|index| gpus[index]).collect()
}

/// Keys of HSA's GPUs, in their order.
fn gpus() -> Option<Vec<u64>> {
    let find = |name| runtime::definition_in_library(b"libhsa-runtime64.so", name);
    // SAFETY: HSA's types of these functions.
    let (iterate, ask) = unsafe {
        (
            std::mem::transmute::<NonNull<c_void>, Iterate>(find(c"hsa_iterate_agents")?),
            std::mem::transmute::<NonNull<c_void>, Ask>(find(c"hsa_agent_get_info")?),
        )
    };
    let mut found = (ask, Vec::new());
    // SAFETY: the callback gets back this variable, which no other thread uses meanwhile. HSA answers with an error where no
    // runtime has initialised it.
    (unsafe { iterate(note, (&raw mut found).cast()) } == 0).then_some(found.1)
}

/// Notes an agent's key if it is a GPU.
unsafe extern "C" fn note(agent: u64, found: *mut c_void) -> u32 {
    // SAFETY: `gpus` has passed it.
    let (ask, keys) = unsafe { &mut *found.cast::<(Ask, Vec<u64>)>() };
    let word = |attribute| {
        let mut value = 0_u32;
        // SAFETY: an agent of HSA's, and a variable for the answer, which has 32 bits.
        let code = unsafe { ask(agent, attribute, (&raw mut value).cast()) };
        (code == 0).then_some(value)
    };
    if word(DEVICE_TYPE) == Some(GPU) {
        let (address, domain) = (word(ADDRESS).unwrap_or(0), word(DOMAIN).unwrap_or(0));
        keys.push(device_key(domain, address >> 8 & 0xff, address >> 3 & 0x1f, address & 7));
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_found_by_the_order_of_the_runtimes_devices() {
        let accelerator = |bus| move |partition| device_key(0, bus, 0, partition);
        let (first, second) = (accelerator(0xc1), accelerator(0xc2));
        let gpus: Vec<_> = (0..4).map(first).chain((0..4).map(second)).collect();
        let of =
            |visible: Option<&str>, count, device, printed| resolve(&gpus, visible, count, device, printed);
        assert_eq!((of(None, 8, 3, first(0)), of(None, 8, 6, second(0))), (first(3), second(2)));
        assert_eq!(of(Some("6"), 1, 0, second(0)), second(2));
        assert_eq!(of(Some("5,2,5,9,1"), 2, 1, first(0)), first(2));
        // Another order than the variable says, a device that is not there, or no list: what the runtime prints.
        assert_eq!(of(Some("6"), 1, 0, first(0)), first(0));
        assert_eq!(of(Some("GPU-1234"), 1, 0, first(0)), first(0));
        assert_eq!(of(None, 7, 3, first(0)), first(0));
        assert_eq!(resolve(&[], None, 1, 0, first(0)), first(0));
    }
}
