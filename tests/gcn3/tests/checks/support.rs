//! Kernels for tests: loaded into a block of memory, and launched.

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use xsched_gcn3::{APERTURES, Block, Fault, Isa, Launch, Memory as _, Run, Scratch, Step};

/// Where the tests' memory begins, with room for all.
pub(crate) const BASE: u64 = 0x10_0000;
const SIZE: usize = 16 << 20;

/// Parts of it.
const PACKET: u64 = BASE;
const ARGUMENTS: u64 = BASE + 0x1000;
const CODE: u64 = BASE + 0x1_0000;
const SCRATCH: u64 = BASE + (4 << 20);
const SCRATCH_SIZE: u64 = 4 << 20;
const BUFFERS: u64 = BASE + (8 << 20);

/// Where the driver puts group and private memory for gfx9.
const APERTURES_9: [u32; 2] = [0x1_0000, 0x2_0000];

/// Memory with a code object and arguments.
pub(crate) struct Device {
    isa: Isa,
    pub(crate) memory: Block,
    code: Vec<u8>,
    arguments: Vec<u8>,
    buffers: u64,
}

impl Device {
    /// Loads a code object.
    pub(crate) fn with_code(isa: Isa, code: Vec<u8>) -> Self {
        let mut memory = Block::new(BASE, SIZE);
        let file = object::File::parse(&*code).unwrap();
        for segment in file.segments() {
            memory.write(CODE + segment.address(), segment.data().unwrap()).unwrap();
        }
        Self { isa, memory, code, arguments: Vec::new(), buffers: BUFFERS }
    }

    /// Adds an argument, at its natural alignment.
    pub(crate) fn argument(&mut self, bytes: &[u8]) -> &mut Self {
        let aligned = self.arguments.len().next_multiple_of(bytes.len());
        self.arguments.resize(aligned, 0);
        self.arguments.extend_from_slice(bytes);
        self
    }

    /// Adds an argument that points to a new buffer; returns its address.
    pub(crate) fn buffer<const N: usize>(&mut self, values: impl IntoIterator<Item = [u8; N]>) -> u64 {
        let bytes: Vec<u8> = values.into_iter().flatten().collect();
        let address = self.buffers;
        self.memory.write(address, &bytes).unwrap();
        self.buffers += (bytes.len() as u64).next_multiple_of(256);
        self.argument(&address.to_le_bytes());
        address
    }

    /// What a buffer contains.
    pub(crate) fn read<const N: usize>(&mut self, address: u64, count: usize) -> Vec<[u8; N]> {
        let mut values = vec![[0; N]; count];
        for (index, value) in values.iter_mut().enumerate() {
            self.memory.read(address + (index * N) as u64, value).unwrap();
        }
        values
    }

    /// Where a kernel's descriptor is.
    pub(crate) fn descriptor(&self, kernel: &str) -> u64 {
        let file = object::File::parse(&*self.code).unwrap();
        let name = format!("{kernel}.kd");
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok(&name)).expect(&name);
        CODE + symbol.address()
    }

    /// A launch of a kernel: sizes of the grid and of a group.
    pub(crate) fn launch(&mut self, kernel: &str, grid: [u32; 3], group: [u16; 3]) -> Launch {
        let descriptor = self.descriptor(kernel);
        let mut arguments = self.arguments.clone();
        // Behind the explicit arguments: how many groups there are, and how large they are.
        let hidden = arguments.len().next_multiple_of(8);
        arguments.resize(hidden + 256, 0);
        self.memory.write(ARGUMENTS, &arguments).unwrap();
        let mut sizes = [0; 8];
        self.memory.read(descriptor, &mut sizes).unwrap();
        let [group_memory, private_memory] = [&sizes[..4], &sizes[4..]];
        let mut packet = [0; 64];
        packet[0] = 2;
        for axis in 0..3 {
            packet[4 + axis * 2..][..2].copy_from_slice(&group[axis].to_le_bytes());
            packet[12 + axis * 4..][..4].copy_from_slice(&grid[axis].to_le_bytes());
        }
        packet[24..28].copy_from_slice(private_memory);
        packet[28..32].copy_from_slice(group_memory);
        packet[32..40].copy_from_slice(&descriptor.to_le_bytes());
        packet[40..48].copy_from_slice(&ARGUMENTS.to_le_bytes());
        self.memory.write(PACKET, &packet).unwrap();
        let apertures = if self.isa == Isa::Gfx8 { APERTURES } else { APERTURES_9 };
        // The queue's descriptor has the apertures.
        self.memory.write(PACKET + 64 + 64, &apertures[0].to_le_bytes()).unwrap();
        self.memory.write(PACKET + 64 + 68, &apertures[1].to_le_bytes()).unwrap();
        Launch {
            isa: self.isa,
            packet,
            packet_address: PACKET,
            queue_address: PACKET + 64,
            scratch: Scratch {
                base: SCRATCH,
                size: SCRATCH_SIZE,
                // Swizzled, elements of 4 bytes, 64 lanes, the lane as index.
                resource: [
                    SCRATCH as u32,
                    (SCRATCH >> 32) as u32 | 1 << 31,
                    SCRATCH_SIZE as u32,
                    1 << 19 | 3 << 21 | 1 << 23 | 4 << 15,
                ],
            },
            apertures,
        }
    }

    /// Runs a kernel to its end; returns the instructions that it executed.
    pub(crate) fn run(&mut self, kernel: &str, grid: [u32; 3], group: [u16; 3]) -> u64 {
        self.try_run(kernel, grid, group).unwrap_or_else(|fault| panic!("{fault}"))
    }

    pub(crate) fn try_run(&mut self, kernel: &str, grid: [u32; 3], group: [u16; 3]) -> Result<u64, Fault> {
        let launch = self.launch(kernel, grid, group);
        let mut run = Run::new(launch, &mut self.memory).unwrap();
        for _ in 0..10_000 {
            if run.step(&mut self.memory, 100_000)? == Step::Done {
                return Ok(run.executed());
            }
        }
        panic!("{kernel} does not end");
    }
}
