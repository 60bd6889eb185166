//! The properties that the device reports: the shape of an MI300X, under the name of a simulation.

use core::ffi::c_char;

use zerocopy::FromZeros;

use crate::abi::{hipDeviceProp_tR0000, hipDeviceProp_tR0600};
use crate::devices::Device;
use crate::{code_object, config, devices, memory, version};

/// Bus of the machine's first device; those of the other devices follow.
const FIRST_PCI_BUS: usize = 0xc1;
pub(crate) const MAX_THREADS_PER_BLOCK: u32 = 1024;
pub(crate) const MAX_THREADS_PER_COMPUTE_UNIT: i32 = 2048;
const MAX_GRID: [i32; 3] = [i32::MAX, 65_536, 65_536];
const CLOCK_KHZ: i32 = 2_100_000;
const MEMORY_CLOCK_KHZ: i32 = 1_300_000;
const MEMORY_BUS_BITS: i32 = 8192;
const L2_SIZE: i32 = 4 << 20;
const REGISTERS: i32 = 65_536;
const WALL_CLOCK_KHZ: i32 = 100_000;
pub(crate) const PITCH_ALIGNMENT: usize = 256;

/// Compute units of the calling thread's device, as set by the process that created the shared device.
pub(crate) fn compute_units() -> i32 {
    let units = devices::of_this_thread().map_or(0, |device| device.engine.compute_units());
    i32::try_from(units).unwrap_or(i32::MAX)
}

/// Local data share of a compute unit; one block may use all of it.
pub(crate) fn lds_size() -> usize {
    config::get().lds_kib << 10
}

/// Names the simulation, so that no report mistakes it for hardware.
pub(crate) fn name() -> String {
    format!("hip-sim {}", config::get().arch)
}

/// `gfx942` is 9.4, `gfx1030` is 10.3: the digits before the last one, in two parts.
pub(crate) fn compute_capability() -> (i32, i32) {
    capability_of(&config::get().arch)
}

/// Digits of the processor, without feature settings.
fn digits_of(arch: &str) -> &str {
    arch.trim_start_matches("gfx").split(':').next().unwrap_or_default()
}

fn capability_of(arch: &str) -> (i32, i32) {
    let digits = digits_of(arch);
    let split = digits.len().saturating_sub(2);
    let major = digits.get(..split).and_then(|s| s.parse().ok()).unwrap_or(0);
    let minor = digits.get(split..split + 1).and_then(|s| s.parse().ok()).unwrap_or(0);
    (major, minor)
}

/// Wavefront size: 64 on data-centre parts, 32 from gfx10 on.
fn warp_size() -> i32 {
    if compute_capability().0 >= 10 { 32 } else { 64 }
}

/// Domain and bus of a physical device, and its number among the partitions there.
fn pci_address(physical: usize) -> (usize, usize, usize) {
    let partitions = config::get().partitions;
    let bus = FIRST_PCI_BUS + physical / partitions;
    (bus >> 8, bus & 0xff, physical % partitions)
}

/// Domain, bus, device, function. The address belongs to a physical device, whatever its ordinal. Releases before 6.2 do not
/// print the number of a partition.
pub(crate) fn pci_bus_id(physical: usize) -> String {
    let (domain, bus, partition) = pci_address(physical);
    let function = if version::release() < 60_200_000 { 0 } else { partition };
    format!("{domain:04x}:{bus:02x}:00.{function:x}")
}

/// Unique within the machine; it belongs to a physical device.
pub(crate) fn uuid(physical: usize) -> [c_char; 16] {
    text(&format!("HIPSIM{:09}", physical + 1))
}

/// Fills a C array of characters, always terminated.
fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (slot, byte) in out[..N - 1].iter_mut().zip(text.bytes()) {
        *slot = byte.cast_signed();
    }
    out
}

/// Fills the fields that both layouts share, under the same names.
macro_rules! shared_fields {
    ($prop:ident, $device:ident) => {
        let (major, minor) = compute_capability();
        $prop.name = text(&name());
        $prop.gcnArchName = text(&code_object::device_target());
        $prop.totalGlobalMem = memory::known().total_size();
        $prop.sharedMemPerBlock = lds_size();
        $prop.maxSharedMemoryPerMultiProcessor = lds_size();
        $prop.regsPerBlock = REGISTERS;
        $prop.warpSize = warp_size();
        $prop.memPitch = i32::MAX as usize;
        $prop.maxThreadsPerBlock = MAX_THREADS_PER_BLOCK.cast_signed();
        $prop.maxThreadsDim = [MAX_THREADS_PER_BLOCK.cast_signed(); 3];
        $prop.maxGridSize = MAX_GRID;
        $prop.clockRate = CLOCK_KHZ;
        $prop.clockInstructionRate = WALL_CLOCK_KHZ;
        $prop.memoryClockRate = MEMORY_CLOCK_KHZ;
        $prop.memoryBusWidth = MEMORY_BUS_BITS;
        $prop.totalConstMem = i32::MAX as usize;
        $prop.major = major;
        $prop.minor = minor;
        $prop.textureAlignment = PITCH_ALIGNMENT;
        $prop.texturePitchAlignment = PITCH_ALIGNMENT;
        $prop.multiProcessorCount = i32::try_from($device.engine.compute_units()).unwrap_or(i32::MAX);
        $prop.l2CacheSize = L2_SIZE;
        $prop.maxThreadsPerMultiProcessor = MAX_THREADS_PER_COMPUTE_UNIT;
        $prop.canMapHostMemory = 1;
        $prop.concurrentKernels = 1;
        $prop.cooperativeLaunch = 1;
        $prop.managedMemory = 1;
        $prop.ECCEnabled = 1;
        $prop.isLargeBar = 1;
        let (domain, bus, _) = pci_address($device.physical);
        $prop.pciDomainID = domain as i32;
        $prop.pciBusID = bus as i32;
    };
}

/// Properties in the layout since 6.0; fields not named here are zero, which means "no" or "none".
pub(crate) fn r0600(device: &Device) -> hipDeviceProp_tR0600 {
    let mut prop = hipDeviceProp_tR0600::new_zeroed();
    shared_fields!(prop, device);
    prop.uuid = uuid(device.physical);
    prop.sharedMemPerMultiprocessor = lds_size();
    prop.sharedMemPerBlockOptin = lds_size();
    prop.regsPerMultiprocessor = REGISTERS;
    prop.maxBlocksPerMultiProcessor = MAX_THREADS_PER_COMPUTE_UNIT / warp_size();
    prop.streamPrioritiesSupported = 1;
    prop.unifiedAddressing = 1;
    prop.hostRegisterSupported = 1;
    prop.asyncEngineCount = i32::try_from(config::get().copy_engines).unwrap_or(i32::MAX);
    prop
}

/// Properties in the layout before 6.0.
pub(crate) fn r0000(device: &Device) -> hipDeviceProp_tR0000 {
    let mut prop = hipDeviceProp_tR0000::new_zeroed();
    shared_fields!(prop, device);
    prop.gcnArch = digits_of(&config::get().arch).parse().unwrap_or(0);
    prop
}

/// `hipDeviceAttribute_t`, in the headers' numbering since 5.0; none for numbers outside of it.
///
/// Attributes missing from the list are zero: they are not supported, or concern textures and surfaces, which
/// are not modelled.
pub(crate) fn attribute(attribute: u32, device: &Device) -> Option<i32> {
    let prop = r0600(device);
    let value = match attribute {
        0 => prop.ECCEnabled,
        2 => prop.asyncEngineCount,
        3 => prop.canMapHostMemory,
        5 => prop.clockRate,
        8 => prop.concurrentKernels,
        10 => prop.cooperativeLaunch,
        19 => prop.l2CacheSize,
        23 => prop.major,
        24 => prop.managedMemory,
        25 => prop.maxBlocksPerMultiProcessor,
        26..=28 => prop.maxThreadsDim[attribute as usize - 26],
        29..=31 => prop.maxGridSize[attribute as usize - 29],
        56 => prop.maxThreadsPerBlock,
        57 => prop.maxThreadsPerMultiProcessor,
        58 => prop.memPitch as i32,
        59 => prop.memoryBusWidth,
        60 => prop.memoryClockRate,
        61 => prop.minor,
        63 | 10_015 => prop.multiProcessorCount,
        67 => prop.pciBusID,
        69 => prop.pciDomainID,
        71 => prop.regsPerBlock,
        72 => prop.regsPerMultiprocessor,
        74..=76 | 10_002 => lds_size() as i32,
        78 => prop.streamPrioritiesSupported,
        81 | 82 => PITCH_ALIGNMENT as i32,
        83 => prop.totalConstMem as i32,
        84 => i32::try_from(prop.totalGlobalMem).unwrap_or(i32::MAX),
        85 => prop.unifiedAddressing,
        87 => prop.warpSize,
        90 => prop.hostRegisterSupported,
        10_000 | 10_017 => WALL_CLOCK_KHZ,
        10_011 => prop.isLargeBar,
        // hipDeviceAttributeCanUseStreamWaitValue
        10_013 => 1,
        0..=91 | 10_000..=10_017 => 0,
        _ => return None,
    };
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_hold_the_same_values() {
        let device = &devices::all()[0];
        let (new, old) = (r0600(device), r0000(device));
        assert_eq!(new.name, old.name);
        assert_eq!(new.gcnArchName, old.gcnArchName);
        assert_eq!(attribute(63, &devices::all()[0]), Some(new.multiProcessorCount));
        assert_eq!(attribute(87, &devices::all()[0]), Some(old.warpSize));
    }

    #[test]
    fn attributes_outside_the_enumeration_are_unknown() {
        assert_eq!(attribute(92, &devices::all()[0]), None);
        assert_eq!(attribute(10_018, &devices::all()[0]), None);
        assert_eq!(attribute(10_013, &devices::all()[0]), Some(1));
        assert_eq!(attribute(39, &devices::all()[0]), Some(0));
    }

    #[test]
    fn the_capability_is_derived_from_the_name() {
        assert_eq!(capability_of("gfx942"), (9, 4));
        assert_eq!(capability_of("gfx90a"), (9, 0));
        assert_eq!(capability_of("gfx1030"), (10, 3));
    }
}
