//! A kernel's launch: the AQL packet, the kernel's descriptor, and the registers that a wave begins with.

use crate::decode::Isa;
use crate::memory::{Apertures, Memory, Unmapped};
use crate::wave::{LANES, Wave};

/// Private memory of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scratch {
    /// Its address.
    pub base: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The buffer resource that describes it.
    pub resource: [u32; 4],
}

/// What the command processor knows when it finds a dispatch packet.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Generation of the device.
    pub isa: Isa,
    /// The packet.
    pub packet: [u8; 64],
    /// Address of the packet, for the kernel.
    pub packet_address: u64,
    /// Address of the queue's descriptor (`amd_queue_t`), for the kernel.
    pub queue_address: u64,
    /// Private memory of the queue.
    pub scratch: Scratch,
    /// Upper halves of the addresses of group and private memory in flat addresses.
    pub apertures: [u32; 2],
}

/// Where the driver puts group and private memory for gfx8.
pub const APERTURES: [u32; 2] = [0x2000_0000, 0x2000_0001];

/// Most work items of a group.
const GROUP_MAX: u64 = 1024;

/// Most bytes of group memory.
const LDS_MAX: u32 = 64 << 10;

/// Why a kernel cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The descriptor cannot be read.
    #[error("the kernel's descriptor: {0}")]
    Descriptor(#[from] Unmapped),
    /// A size that no device has.
    #[error("a work group of {0} work items")]
    Group(u64),
    /// More group memory than a device has.
    #[error("{0} bytes of group memory")]
    Lds(u32),
    /// The queue has too little private memory.
    #[error("a wave needs {needed} bytes of private memory, the queue has {has}")]
    Scratch {
        /// Bytes that one wave needs.
        needed: u64,
        /// Bytes of all waves.
        has: u64,
    },
}

/// A launch that can begin.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    launch: Launch,
    /// Work items of a group and of the grid.
    group: [u32; 3],
    grid: [u32; 3],
    /// Groups in each direction.
    pub(crate) groups: [u32; 3],
    pub(crate) lds: u32,
    /// Bytes of private memory of a wave.
    scratch_per_wave: u64,
    private_per_lane: u32,
    entry: u64,
    mode: u32,
    vgprs: usize,
    user_registers: usize,
    /// Bits of COMPUTE_PGM_RSRC2.
    resource_2: u32,
    /// Which user registers the kernel wants.
    properties: u32,
}

/// A work item's place in its group.
type Id = [u32; 3];

impl Plan {
    pub(crate) fn new(launch: Launch, memory: &mut dyn Memory) -> Result<Self, LaunchError> {
        let packet = &launch.packet;
        let half = |at: usize| u32::from(u16::from_le_bytes([packet[at], packet[at + 1]]));
        let group = [half(4), half(6), half(8)].map(|size| size.max(1));
        let grid = [12, 16, 20].map(|at| word(packet, at).max(1));
        let items: u64 = group.iter().map(|&size| u64::from(size)).product();
        if items > GROUP_MAX {
            return Err(LaunchError::Group(items));
        }
        let lds = word(packet, 28);
        if lds > LDS_MAX {
            return Err(LaunchError::Lds(lds));
        }
        let object = u64::from(word(packet, 32)) | u64::from(word(packet, 36)) << 32;
        // The same in amd_kernel_code_t and in the smaller descriptor that came after it.
        let mut descriptor = [0; 64];
        memory.read(object, &mut descriptor)?;
        let entry = u64::from(word(&descriptor, 16)) | u64::from(word(&descriptor, 20)) << 32;
        let [resource_1, resource_2, properties] = [48, 52, 56].map(|at| word(&descriptor, at));
        let private_per_lane = word(packet, 24);
        // Waves have whole units of 1,024 bytes.
        let scratch_per_wave = (u64::from(private_per_lane) * LANES as u64).next_multiple_of(1024);
        if scratch_per_wave > launch.scratch.size {
            return Err(LaunchError::Scratch { needed: scratch_per_wave, has: launch.scratch.size });
        }
        Ok(Self {
            group,
            grid,
            groups: std::array::from_fn(|axis| grid[axis].div_ceil(group[axis])),
            lds,
            scratch_per_wave,
            private_per_lane,
            entry: object.wrapping_add(entry),
            // Rounding and denormals, then DX10_CLAMP and IEEE.
            mode: resource_1 >> 12 & 0xff | (resource_1 >> 21 & 1) << 8 | (resource_1 >> 23 & 1) << 9,
            vgprs: (resource_1 as usize & 63) * 4 + 4,
            user_registers: (resource_2 >> 1 & 31) as usize,
            resource_2,
            properties,
            launch,
        })
    }

    pub(crate) fn isa(&self) -> Isa {
        self.launch.isa
    }

    pub(crate) fn apertures(&self) -> Apertures {
        let [group, private] = self.launch.apertures;
        Apertures { group, private }
    }

    pub(crate) fn private_base(&self) -> u64 {
        self.launch.scratch.base
    }

    pub(crate) fn group_count(&self) -> u64 {
        self.groups.iter().map(|&count| u64::from(count)).product()
    }

    /// Waves of a whole group.
    pub(crate) fn waves_per_group(&self) -> u64 {
        let items: u64 = self.group.iter().map(|&size| u64::from(size)).product();
        items.div_ceil(LANES as u64)
    }

    /// How many groups can be resident, by the queue's private memory.
    pub(crate) fn resident_max(&self) -> u64 {
        let needed = self.scratch_per_wave * self.waves_per_group();
        self.launch.scratch.size.checked_div(needed).unwrap_or(u64::MAX).max(1)
    }

    /// The waves of a group. `slot`: which part of the private memory they use.
    pub(crate) fn waves(&self, number: u64, slot: u64) -> Vec<Wave> {
        let id = split(number, self.groups);
        // Groups at the end of the grid may be smaller.
        let size: [u32; 3] = std::array::from_fn(|axis| {
            let begin = u64::from(id[axis]) * u64::from(self.group[axis]);
            u64::from(self.grid[axis]).saturating_sub(begin).min(u64::from(self.group[axis])) as u32
        });
        let items: u64 = size.iter().map(|&size| u64::from(size)).product();
        let waves = items.div_ceil(LANES as u64);
        (0..waves).map(|wave| self.wave(id, size, items, (wave, waves), slot)).collect()
    }

    fn wave(&self, id: Id, size: Id, items: u64, (index, waves): (u64, u64), slot: u64) -> Wave {
        let mut wave = Wave::new(self.vgprs, self.mode, self.entry, index as u32, self.apertures());
        let first = index * LANES as u64;
        let active = (items - first).min(LANES as u64);
        wave.set_pair(crate::decode::operand::EXEC, u64::MAX >> (64 - active));
        for lane in 0..active as usize {
            let item = split(first + lane as u64, size);
            let axes = (self.resource_2 >> 11 & 3).min(2) as usize + 1;
            for (register, &place) in wave.vgpr.iter_mut().zip(&item[..axes]) {
                register[lane] = place;
            }
        }
        let user = self.user_words();
        let count = user.len().min(16);
        wave.sgpr[..count].copy_from_slice(&user[..count]);
        let offset = (slot * self.waves_per_group() + index) * self.scratch_per_wave;
        let is_wanted = |bit: u32| self.resource_2 >> bit & 1 != 0;
        let info = u32::from(index == 0) << 31 | waves as u32;
        let system = [(7, id[0]), (8, id[1]), (9, id[2]), (10, info), (0, offset as u32)];
        let values = system.into_iter().filter(|&(bit, _)| is_wanted(bit)).map(|(_, value)| value);
        for (register, value) in (self.user_registers..).zip(values) {
            wave.sgpr[register] = value;
        }
        wave
    }

    /// The user registers, in the order of the bits that ask for them.
    fn user_words(&self) -> Vec<u32> {
        let pair = |value: u64| vec![value as u32, (value >> 32) as u32];
        let packet = &self.launch.packet;
        let kernarg = u64::from(word(packet, 40)) | u64::from(word(packet, 44)) << 32;
        let groups = |axis: usize| vec![self.groups[axis]];
        [
            self.launch.scratch.resource.to_vec(),
            pair(self.launch.packet_address),
            pair(self.launch.queue_address),
            pair(kernarg),
            // No dispatch id.
            pair(0),
            match self.launch.isa {
                // Where flat private memory begins behind the queue's, and its bytes for each lane.
                Isa::Gfx8 => vec![0, self.private_per_lane],
                // Where it begins.
                Isa::Gfx9 => pair(self.launch.scratch.base),
            },
            vec![self.private_per_lane],
            groups(0),
            groups(1),
            groups(2),
        ]
        .into_iter()
        .enumerate()
        .filter(|&(bit, _)| self.properties >> bit & 1 != 0)
        .flat_map(|(_, words)| words)
        .collect()
    }
}

/// The coordinates of the `number`th element, with the first axis fastest.
fn split(number: u64, size: Id) -> Id {
    let [x, y] = [size[0].max(1), size[1].max(1)].map(u64::from);
    [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32]
}

/// A dword of a structure; both structures are longer than any offset that is asked for.
fn word(bytes: &[u8; 64], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
