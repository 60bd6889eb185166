//! A simple model of time: how long kernels last on a device of so many SIMDs at a clock rate.
//!
//! An instruction of a wave takes a SIMD four cycles, whatever it does: a SIMD has 16 lanes, and memory is as fast as registers. A wave
//! has its SIMD to itself until it ends, and waves take turns in the order in which their kernels ended in this program. So a kernel
//! that fills the device keeps later ones waiting, of other queues as well. What a wave does between two sleeps to see whether it may go
//! on takes no time.

/// Cycles of a wave's instruction.
const CYCLES: u64 = 4;

/// When the SIMDs of a device are free.
#[derive(Clone, Debug)]
pub struct Simds {
    /// In nanoseconds of the device's time.
    free_at: Vec<u64>,
    mhz: u64,
}

impl Simds {
    /// All are free. At least one, at 1 MHz or more.
    pub fn new(count: usize, mhz: u64) -> Self {
        Self { free_at: vec![0; count.max(1)], mhz: mhz.max(1) }
    }

    /// Lets a kernel's waves, given by their instructions, take turns with those before, from `now` on. When the first of them begins,
    /// and the last ends, in nanoseconds.
    ///
    /// # Panics
    ///
    /// Never: there is a SIMD.
    pub fn occupy(&mut self, now: u64, waves: &[u64]) -> (u64, u64) {
        let (mut begin, mut end) = (None, now);
        for instructions in waves {
            let free = self.free_at.iter_mut().min().expect("there is at least one");
            let at = now.max(*free);
            *free = at + instructions * CYCLES * 1000 / self.mhz;
            begin.get_or_insert(at);
            end = end.max(*free);
        }
        (begin.unwrap_or(now), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_share_the_simds_and_kernels_wait_for_those_before() {
        let mut simds = Simds::new(2, 1000);
        // 250,000 instructions of four cycles last a millisecond.
        assert_eq!(simds.occupy(0, &[250_000]), (0, 1_000_000));
        // One is free; the second wave waits for either.
        assert_eq!(simds.occupy(500_000, &[250_000, 250_000]), (500_000, 2_000_000));
        assert_eq!(simds.occupy(3_000_000, &[25, 50]), (3_000_000, 3_000_200));
        assert_eq!(
            simds.occupy(9_000_000, &[]),
            (9_000_000, 9_000_000),
            "a kernel without waves ends at once"
        );
    }

    #[test]
    fn a_kernel_that_fills_the_device_keeps_one_of_another_queue_waiting() {
        let mut simds = Simds::new(1, 250);
        assert_eq!(simds.occupy(0, &[125_000]), (0, 2_000_000));
        assert_eq!(simds.occupy(100_000, &[6_250]), (2_000_000, 2_100_000));
    }
}
