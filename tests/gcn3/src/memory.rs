//! Memory as kernels see it: by virtual address.

/// No memory is behind an address, or it may not be used like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory at {address:#x}")]
pub struct Unmapped {
    /// The first such address.
    pub address: u64,
}

/// Ranges of flat addresses that are not memory, by the upper halves of their addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Apertures {
    pub(crate) group: u32,
    pub(crate) private: u32,
}

/// Memory that kernels use. Other processors may use it at the same time.
pub trait Memory {
    /// Reads bytes.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Unmapped>;

    /// Writes bytes.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Unmapped>;

    /// Replaces a naturally aligned word of 4 bytes by `f` of it, in one step for others; returns what was there.
    fn update_u32(&mut self, address: u64, f: &mut dyn FnMut(u32) -> u32) -> Result<u32, Unmapped>;

    /// The same with 8 bytes.
    fn update_u64(&mut self, address: u64, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Unmapped>;

    /// The device's clock, as `s_memtime` reads it.
    fn clock(&mut self) -> u64 {
        0
    }

    /// Reads a dword, which may be unaligned.
    fn read_u32(&mut self, address: u64) -> Result<u32, Unmapped> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Writes a dword, which may be unaligned.
    fn write_u32(&mut self, address: u64, value: u32) -> Result<(), Unmapped> {
        self.write(address, &value.to_le_bytes())
    }

    /// Reads 8 bytes, which may be unaligned.
    fn read_u64(&mut self, address: u64) -> Result<u64, Unmapped> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// One block of memory in this process: for tests, and for programs that run kernels without a device.
#[derive(Debug)]
pub struct Block {
    base: u64,
    bytes: Vec<u8>,
}

impl Block {
    /// Zeroed memory at an address.
    pub fn new(base: u64, size: usize) -> Self {
        Self { base, bytes: vec![0; size] }
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn at(&mut self, address: u64, size: usize) -> Result<&mut [u8], Unmapped> {
        let offset = address.checked_sub(self.base).ok_or(Unmapped { address })?;
        let begin = usize::try_from(offset).map_err(|_| Unmapped { address })?;
        let end = begin.checked_add(size).ok_or(Unmapped { address })?;
        self.bytes.get_mut(begin..end).ok_or(Unmapped { address })
    }
}

impl Memory for Block {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Unmapped> {
        bytes.copy_from_slice(self.at(address, bytes.len())?);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Unmapped> {
        self.at(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn update_u32(&mut self, address: u64, f: &mut dyn FnMut(u32) -> u32) -> Result<u32, Unmapped> {
        let old = self.read_u32(address)?;
        self.write(address, &f(old).to_le_bytes())?;
        Ok(old)
    }

    fn update_u64(&mut self, address: u64, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Unmapped> {
        let old = self.read_u64(address)?;
        self.write(address, &f(old).to_le_bytes())?;
        Ok(old)
    }
}
