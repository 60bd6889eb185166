//! A recording that is kept in memory, limited to its last part.
//!
//! The timeline is cut into segments, each a complete trace
//! ([`Timeline::restart`](crate::timeline::Timeline::restart)). When they exceed the limit, the oldest are dropped. A
//! dump writes the kept segments to a file while recording continues: on request, after a slow launch, and at the end.

mod dumps;
mod segments;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::call::RuntimeCall;
use crate::error::TracerError;
use crate::output::{Compression, Kept};
use dumps::Dumps;
pub(crate) use dumps::Written;
use xsched_terminal::duration;

use segments::Segments;

/// How long after a dump a slow launch causes no further one.
const SLOW_DUMP_INTERVAL: Duration = Duration::from_secs(10);

/// What has been written into the timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item<'a> {
    Hip(&'a RuntimeCall),
    Driver,
    /// A result of scheduling, which is not a call.
    Scheduling,
}

/// The kept part of a recording.
pub struct FlightRecorder {
    segments: Segments,
    dumps: Dumps,
    slow_ns: Option<u64>,
    wanted: Option<String>,
    last_slow: Option<Instant>,
    /// Slow launches that caused no dump because one was recent.
    unheeded: u64,
    notices: Vec<String>,
}

impl FlightRecorder {
    /// Keeps nothing yet; dumps will go to `path`, `path.1` and so on.
    pub(crate) fn new(
        path: PathBuf,
        compression: Option<Compression>,
        settings: Kept,
    ) -> Result<Self, TracerError> {
        Ok(Self {
            segments: Segments::new(settings.size_max),
            dumps: Dumps::claim(path, compression)?,
            slow_ns: settings.slow_ns,
            wanted: None,
            last_slow: None,
            unheeded: 0,
            notices: Vec::new(),
        })
    }

    /// Notes what has been written into the current segment, which has `len` bytes now. Returns whether the segment
    /// must be closed.
    pub(crate) fn written(&mut self, item: Item<'_>, len: usize) -> bool {
        if !matches!(item, Item::Scheduling) {
            self.segments.count_call();
        }
        if let (Some(slow_ns), Item::Hip(call)) = (self.slow_ns, item)
            && call.is_launch()
            && let Some(duration_ns) = call.duration_ns()
            && duration_ns > slow_ns
        {
            self.slow_launch(call, duration_ns);
        }
        self.segments.is_large_enough(len)
    }

    fn slow_launch(&mut self, call: &RuntimeCall, duration_ns: u64) {
        if self.last_slow.is_some_and(|last| last.elapsed() < SLOW_DUMP_INTERVAL) {
            self.unheeded += 1;
            return;
        }
        self.last_slow = Some(Instant::now());
        let kernel = call.kernel.as_deref().unwrap_or("a kernel");
        self.want(format!("{} of {kernel} took {}", call.probe.name, duration(Some(duration_ns))));
    }

    pub(crate) fn close(&mut self, segment: Vec<u8>) {
        self.segments.push(segment);
    }

    /// Number of calls in dropped segments.
    pub(crate) fn let_go(&self) -> u64 {
        self.segments.let_go()
    }

    /// Requests a dump; it begins when the previous one is done.
    pub(crate) fn want(&mut self, reason: String) {
        self.wanted.get_or_insert(reason);
    }

    /// The reason for a dump that should begin now.
    pub(crate) async fn take_wanted(&mut self) -> Option<String> {
        self.notices.extend(self.dumps.ended().await);
        if self.dumps.is_under_way() { None } else { self.wanted.take() }
    }

    /// Begins to write everything that is kept, and the current segment.
    pub(crate) fn dump(&mut self, current: &[u8], reason: String) {
        self.dumps.begin(self.segments.with(current), reason);
    }

    /// Waits for the dump in progress, if there is one, and writes what is kept to the next file.
    pub(crate) async fn finish(mut self, current: &[u8]) -> Result<(Written, Vec<String>), TracerError> {
        self.notices.extend(self.dumps.wait().await);
        if self.unheeded > 0 {
            self.notices.push(format!(
                "{} more slow launches came within {} s of the dump for one and caused none",
                self.unheeded,
                SLOW_DUMP_INTERVAL.as_secs()
            ));
        }
        let written = self.dumps.finish(self.segments.with(current)).await?;
        Ok((written, self.notices))
    }

    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::call;

    #[tokio::test]
    async fn a_slow_launch_causes_a_dump_and_the_next_one_soon_after_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Kept { size_max: 1 << 20, slow_ns: Some(1000) };
        let mut recorder = FlightRecorder::new(dir.path().join("f"), None, settings).unwrap();
        let mut slow = call("hipLaunchKernel");
        slow.end_ns = Some(1000);
        recorder.written(Item::Hip(&slow), 0);
        assert_eq!(recorder.take_wanted().await, None, "not slower than the limit");
        slow.end_ns = Some(1001);
        slow.kernel = Some("gemm".into());
        recorder.written(Item::Hip(&slow), 0);
        recorder.written(Item::Hip(&slow), 0);
        assert_eq!(recorder.take_wanted().await.as_deref(), Some("hipLaunchKernel of gemm took 1.00 us"));
        assert_eq!((recorder.take_wanted().await, recorder.unheeded), (None, 1));
        let mut copy = call("hipMemcpy");
        copy.end_ns = Some(1_000_000);
        recorder.written(Item::Hip(&copy), 0);
        assert_eq!(recorder.take_wanted().await, None, "only launches count");
    }

    #[tokio::test]
    async fn only_calls_are_counted_in_dropped_segments() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Kept { size_max: 1 << 20, slow_ns: None };
        let mut recorder = FlightRecorder::new(dir.path().join("f"), None, settings).unwrap();
        let call = call("hipLaunchKernel");
        for item in [Item::Hip(&call), Item::Scheduling, Item::Driver, Item::Scheduling] {
            recorder.written(item, 0);
        }
        recorder.close(vec![0; 2 << 20]);
        assert_eq!(recorder.let_go(), 2);
    }
}
