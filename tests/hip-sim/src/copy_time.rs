//! Time that copies and fills take, from a latency and a bandwidth, and the part of the device that they
//! occupy.

use crate::config::CopyTime;
use crate::engine::Work;

/// Bytes that one compute unit moves in a copy within the device: smaller copies leave the other units free.
const BYTES_PER_UNIT: u64 = 64 << 10;

impl CopyTime {
    /// The work of a copy to or from the host, on a copy engine.
    pub(crate) fn over_link(&self, size: usize, is_from_device: bool) -> Work {
        Work::Copy { is_from_device, duration_ns: self.ns(size, self.link_gb_s) }
    }

    /// The work of a copy or fill within the device: a kernel, as in the genuine runtime.
    pub(crate) fn on_device(&self, size: usize) -> Work {
        let units = (size as u64).div_ceil(BYTES_PER_UNIT);
        Work::Kernel { units, duration_ns: self.ns(size, self.memory_gb_s) }
    }

    fn ns(&self, size: usize, gb_s: f64) -> u64 {
        self.latency.as_nanos() as u64 + (size as f64 / gb_s) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_copy_takes_its_latency_and_its_transfer_time() {
        let time = CopyTime { latency: Duration::from_micros(5), link_gb_s: 50.0, memory_gb_s: 1000.0 };
        let copy = |is_from_device, duration_ns| Work::Copy { is_from_device, duration_ns };
        assert_eq!(time.over_link(0, true), copy(true, 5_000));
        assert_eq!(time.over_link(1_000_000, false), copy(false, 25_000));
        assert_eq!(time.on_device(1_000_000), Work::Kernel { units: 16, duration_ns: 6_000 });
    }
}
