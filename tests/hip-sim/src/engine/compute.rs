//! The device's compute part: kernels occupy it one after another, whichever queue they come from.

use std::sync::Mutex;

use super::Span;

/// A timeline that is handed out piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Compute {
    busy_until_ns: Mutex<u64>,
}

impl Compute {
    /// The first free piece of `duration_ns` that begins no earlier than `ready_ns`.
    ///
    /// It may begin in the past: a thread that woke up late must not stretch the simulated time.
    pub(crate) fn reserve(&self, ready_ns: u64, duration_ns: u64) -> Span {
        let mut busy_until_ns = self.busy_until_ns.lock().expect("no holder panics");
        let start_ns = ready_ns.max(*busy_until_ns);
        let end_ns = start_ns + duration_ns;
        *busy_until_ns = end_ns;
        Span { start_ns, end_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_two_queues_do_not_overlap() {
        let compute = Compute::default();
        assert_eq!(compute.reserve(100, 50), Span { start_ns: 100, end_ns: 150 });
        assert_eq!(compute.reserve(120, 10), Span { start_ns: 150, end_ns: 160 });
    }

    #[test]
    fn an_idle_device_starts_at_once() {
        let compute = Compute::default();
        compute.reserve(0, 10);
        assert_eq!(compute.reserve(500, 10), Span { start_ns: 500, end_ns: 510 });
    }
}
