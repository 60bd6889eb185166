//! One device, private to this process or shared with every process that names it.
//!
//! The shared state is the timeline: which packet runs when (`schedule`), in memory that all processes have
//! mapped (`region`). There is no server and no lock. A process that posts a packet, waits for one or sees
//! one end advances the schedule to the current time. It then wakes the processes whose packets it has
//! started. If that process is stopped, the waiting processes advance the schedule themselves a little later.

use core::num::NonZeroU32;
use core::sync::atomic::Ordering;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rustix::thread::futex;
use rustix::time::Timespec;

use self::file::{Access, Mapping};
use self::region::{Region, Snapshot};
use super::schedule::{DEPTH, Packet, Part, Progress, Schedule};
use super::{Gate, HwQueue, PollInterval, clock, spin_then_sleep};
use crate::config::{self, Sharing};
use crate::{boundary, fork};

mod file;
mod members;
mod region;
mod signals;
mod words;

pub(crate) use signals::Signal;

/// Waiting processes advance the schedule themselves if no wake-up came for this long after the packet's
/// start.
const GRACE_NS: u64 = 500_000;
/// They do so at least this often, because the kernel may have woken the guard of a stopped process instead.
const POLL_NS: u64 = 10_000_000;

/// A process that gets no queue at all: its calls fail.
const NO_QUEUE: &str = "the device has more hardware queues than its processes use";

/// A simulated device.
pub(crate) struct Device {
    index: usize,
    mapping: Mapping,
    /// This process's member number on the device.
    member: OnceLock<usize>,
    snapshot: Mutex<Snapshot>,
    pools: Mutex<Pools>,
    signals: signals::Used,
    /// Lets other processes check that they read this process's memory.
    proof: words::Proof,
    last_checks: words::LastChecks,
}

/// This process's hardware queues, created when first needed.
#[derive(Default)]
struct Pools {
    compute: Vec<Pool>,
    copy: Vec<Arc<HwQueue>>,
}

/// Queues for streams of one priority.
struct Pool {
    priority: i32,
    queues: Vec<Arc<HwQueue>>,
}

impl Pool {
    /// The queue with the fewest streams.
    fn least_used(&self) -> Option<&Arc<HwQueue>> {
        self.queues.iter().min_by_key(|queue| queue.streams())
    }
}

/// The hardware queues for a stream's packets.
#[derive(Clone)]
pub(crate) struct HwQueues {
    pub(super) compute: Arc<HwQueue>,
    /// Index 1: copies from the device; index 0: all others.
    pub(super) copy: [Arc<HwQueue>; 2],
}

/// The state of one packet in the schedule.
struct PacketStatus {
    start_ns: Option<u64>,
    /// If the packet is behind a closed gate: the number of queues that are.
    closed_gates: Option<usize>,
    next_ns: Option<u64>,
}

impl Device {
    /// The device with an index, as the environment describes it.
    pub(crate) fn open(index: usize) -> Arc<Self> {
        let device = match &config::get().sharing {
            // Null mode never uses the device.
            _ if config::get().null => None,
            Sharing::Off => None,
            Sharing::Name(name) => {
                let (folder, prefix) = (named_folder(), named_prefix());
                file::delete_left_behind(&folder, &prefix);
                Self::shared(index, &folder.join(format!("{prefix}{name}.{index}")), Access::User)
            }
            Sharing::Path(path) => {
                let mut path = path.clone().into_os_string();
                path.push(format!(".{index}"));
                Self::shared(index, path.as_ref(), Access::AnyUser)
            }
        };
        device.unwrap_or_else(|| Self::private(index))
    }

    /// A device that is not shared with any process.
    pub(crate) fn private(index: usize) -> Arc<Self> {
        let device = Self::on(index, Mapping::private(capacity()));
        device.member.set(0).expect("it is new");
        Arc::new(device)
    }

    /// None, with a message on stderr, if the device cannot be shared.
    fn shared(index: usize, path: &std::path::Path, access: Access) -> Option<Arc<Self>> {
        let mapping = Mapping::shared(path, access, capacity())
            .inspect_err(|error| eprintln!("hip-sim: device {index} is not shared: {error}"))
            .ok()?;
        let device = Arc::new(Self::on(index, mapping));
        if device.region().capacity() != capacity() {
            let [units, engines] = device.region().capacity();
            eprintln!(
                "hip-sim: device {index} was created with {units} compute units, {engines} copy engines"
            );
        }
        if members::join(&device).is_none() {
            eprintln!("hip-sim: device {index} is not shared: {} processes use it already", region::MEMBERS);
            return None;
        }
        tidy_up_at_exit(&device);
        Some(device)
    }

    fn on(index: usize, mapping: Mapping) -> Self {
        let (member, pools, signals) = (OnceLock::new(), Mutex::default(), signals::Used::default());
        let (snapshot, proof) = (Mutex::new(Snapshot::new()), words::Proof::new());
        Self {
            index,
            mapping,
            member,
            snapshot,
            pools,
            signals,
            proof,
            last_checks: words::LastChecks::new(),
        }
    }

    fn region(&self) -> &Region {
        self.mapping.region()
    }

    /// The device's index on the machine.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Compute units, as the creator of the device set them.
    pub(crate) fn compute_units(&self) -> u64 {
        self.region().capacity()[Part::Compute as usize]
    }

    /// Hardware queues for a new stream. For compute, a queue of its priority, chosen as
    /// [clr](https://github.com/ROCm/clr/blob/fe70c0d6b08e/rocclr/device/rocm/rocdevice.cpp) 6.3 does: one
    /// without streams, else a new one while fewer than allowed exist, else the one with the fewest streams.
    /// The stream leaves its queue when it ends.
    pub(crate) fn queues_for_stream(self: &Arc<Self>, priority: i32) -> HwQueues {
        let mut pools = self.pools.lock().expect("no holder panics");
        let position = pools.compute.iter().position(|pool| pool.priority == priority).unwrap_or_else(|| {
            pools.compute.push(Pool { priority, queues: Vec::new() });
            pools.compute.len() - 1
        });
        let pool = &mut pools.compute[position];
        let is_any_unused = pool.least_used().is_some_and(|queue| queue.streams() == 0);
        if !is_any_unused
            && pool.queues.len() < config::get().queues
            && let Some(queue) = self.take_queue(Part::Compute)
        {
            pool.queues.push(queue);
        }
        // Fewer queues than allowed exist if the device has no more.
        let compute = Arc::clone(pool.least_used().expect(NO_QUEUE));
        compute.enter();
        while pools.copy.len() < config::get().copy_engines.min(2)
            && let Some(queue) = self.take_queue(Part::Copy)
        {
            pools.copy.push(queue);
        }
        assert!(!pools.copy.is_empty(), "{NO_QUEUE}");
        let copy = [0, 1].map(|direction| Arc::clone(&pools.copy[direction % pools.copy.len()]));
        HwQueues { compute, copy }
    }

    /// None if the device has no more queues.
    fn take_queue(self: &Arc<Self>, part: Part) -> Option<Arc<HwQueue>> {
        let member = self.member();
        let (index, _) = self.transact(|schedule, _| {
            let index = schedule.take_queue(member, part, |queue| self.region().posted(queue));
            (index.is_some(), index)
        });
        let index = index?;
        // Discards waiting bits of a dead owner.
        self.region().queues[index].waiting.store(0, Ordering::Relaxed);
        Some(Arc::new(HwQueue::new(Arc::clone(self), index, self.region().posted(index))))
    }

    fn member(&self) -> usize {
        *self.member.get().expect("set before anything is posted")
    }

    /// Advances the schedule to the current time, applies a change, and publishes the result. The change may
    /// run several times; it returns whether it has changed anything.
    fn transact<R>(&self, mut change: impl FnMut(&mut Schedule, u64) -> (bool, R)) -> (R, Progress) {
        let region = self.region();
        let capacity = region.capacity();
        let mut snapshot = self.last_seen();
        loop {
            region.read(&mut snapshot);
            let now_ns = clock::now_ns();
            let packets = words::RegionPackets::new(self);
            let mut progress = snapshot.schedule.advance(now_ns, capacity, &packets);
            let (has_changed, result) = change(&mut snapshot.schedule, now_ns);
            if has_changed {
                progress = progress.and(snapshot.schedule.advance(now_ns, capacity, &packets));
            }
            let is_present = !has_changed && !progress.has_changed();
            if is_present || region.commit(&snapshot, self.member()) {
                drop(snapshot);
                self.wake(&progress);
                return (result, progress);
            }
        }
    }

    /// Rings the bells of queues whose started packets have waiters.
    fn wake(&self, progress: &Progress) {
        // Either this thread sees the waiter's bit, or the waiter sees the commit. Pairs with the fence in
        // `wait_start`.
        core::sync::atomic::fence(Ordering::SeqCst);
        for &(queue, granted) in &progress.granted {
            let slot = &self.region().queues[queue];
            if let Some(waited_for) = NonZeroU32::new(slot.waiting.load(Ordering::Relaxed) & granted) {
                slot.bell.fetch_add(1, Ordering::Release);
                let _ = futex::wake_bitset(&slot.bell, futex::Flags::empty(), i32::MAX as u32, waited_for);
            }
        }
    }

    /// Removes the queues of a dead member.
    fn remove_member(&self, member: usize) {
        self.transact(|schedule, now_ns| (schedule.remove_member(member, now_ns), ()));
    }

    /// Starts every packet that may start by now.
    pub(super) fn play(&self) {
        self.transact(|_, _| (false, ()));
    }

    /// Starts every packet that was due by a time in the past.
    pub(super) fn play_to(&self, time_ns: u64) {
        if !self.last_seen().schedule.is_played_to(time_ns) {
            self.play();
        }
    }

    /// The schedule as this process last read or wrote it. A packet that has started there has started.
    fn last_seen(&self) -> MutexGuard<'_, Snapshot> {
        spin_then_sleep::lock(&self.snapshot)
    }

    pub(super) fn post(&self, queue: usize, packet: Packet, gate: Option<Gate>) -> u64 {
        let ticket = self.region().post(queue, packet, gate);
        self.play();
        ticket
    }

    fn status(&self, queue: usize, ticket: u64) -> PacketStatus {
        let ((start_ns, closed_gates), progress) = self.transact(|schedule, _| {
            let closed_gates = schedule.is_at_closed_gate(queue, ticket).then(|| schedule.closed_gates());
            (false, (schedule.start_ns(queue, ticket), closed_gates))
        });
        PacketStatus { start_ns, closed_gates, next_ns: progress.next_ns }
    }

    /// Sleeps until a packet has started; returns its start on the timeline.
    pub(super) fn wait_start(&self, queue: usize, ticket: u64) -> u64 {
        // Usually the process that posted the packets behind it has already advanced the schedule.
        let seen_ns = self.last_seen().schedule.start_ns(queue, ticket);
        if let Some(start_ns) = seen_ns.or_else(|| self.status(queue, ticket).start_ns) {
            return start_ns;
        }
        let slot = &self.region().queues[queue];
        let bit = NonZeroU32::new(1 << (ticket % DEPTH)).expect("a bit is not zero");
        slot.waiting.fetch_or(bit.get(), Ordering::Relaxed);
        let mut poll_interval = None;
        let start_ns = loop {
            let bell = slot.bell.load(Ordering::Acquire);
            // Either this thread sees the commit, or the committing thread sees the bit. Pairs with the fence
            // in `wake`.
            core::sync::atomic::fence(Ordering::SeqCst);
            let status = self.status(queue, ticket);
            if let Some(start_ns) = status.start_ns {
                break start_ns;
            }
            let timeout_ns = if let Some(closed_gates) = status.closed_gates {
                let Some(interval) = poll_interval.get_or_insert_with(PollInterval::new).interval() else {
                    std::thread::yield_now();
                    continue;
                };
                // A process advances the schedule for all of them, so each polls less often: together they
                // poll as often as one alone.
                clock::now_ns() + closed_gates as u64 * interval.as_nanos() as u64
            } else {
                let latest_ns = clock::now_ns() + POLL_NS;
                status.next_ns.map_or(latest_ns, |next_ns| latest_ns.min(next_ns + GRACE_NS))
            };
            let timeout = clock::timespec(timeout_ns);
            if self.sleep(&slot.bell, bell, &timeout, bit).is_err() && status.closed_gates.is_none() {
                members::remove_dead(self);
            }
        };
        slot.waiting.fetch_and(!bit.get(), Ordering::Relaxed);
        start_ns
    }

    /// An error if no wake-up came before the timeout.
    fn sleep(
        &self,
        bell: &core::sync::atomic::AtomicU32,
        value: u32,
        until: &Timespec,
        bit: NonZeroU32,
    ) -> Result<(), rustix::io::Errno> {
        let flags = if self.mapping.is_shared() { futex::Flags::empty() } else { futex::Flags::PRIVATE };
        futex::wait_bitset(bell, flags, value, Some(until), bit)
    }
}

fn capacity() -> [u64; 2] {
    let config = config::get();
    [config.compute_units as u64, config.copy_engines as u64]
}

/// The folder for devices that are named without a path.
fn named_folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if memory.is_dir() { memory } else { runtime.unwrap_or_else(std::env::temp_dir) }
}

/// The prefix of this user's file names there.
fn named_prefix() -> String {
    format!("hip-sim-{}-", rustix::process::geteuid().as_raw())
}

/// Devices whose file is deleted by the last user.
static SHARED: Mutex<Vec<Arc<Device>>> = Mutex::new(Vec::new());

fn tidy_up_at_exit(device: &Arc<Device>) {
    let mut shared = SHARED.lock().expect("no holder panics");
    if shared.is_empty() {
        // SAFETY: the function belongs to this library, which stays loaded because its threads run.
        unsafe { libc::atexit(tidy_up) };
    }
    shared.push(Arc::clone(device));
}

extern "C" fn tidy_up() {
    // A forked child's exit is not its parent's.
    if fork::is_forked_child() {
        return;
    }
    boundary::value((), || {
        for device in SHARED.lock().expect("no holder panics").iter() {
            device.mapping.tidy_up();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_the_existing_queues_when_the_device_has_no_more() {
        let device = Device::private(0);
        let first = device.queues_for_stream(0);
        while device.take_queue(Part::Compute).is_some() {}
        let second = device.queues_for_stream(0);
        assert!(Arc::ptr_eq(&first.compute, &second.compute));
    }
}
