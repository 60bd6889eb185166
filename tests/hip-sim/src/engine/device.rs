//! One device: of this process alone, or shared with every process that names it.
//!
//! What is shared is the timeline: which packet runs when (`schedule`), in memory that all of them have mapped (`region`).
//! There is no server and no lock. Whoever posts a packet, waits for one or sees one end plays the schedule up to now and
//! wakes those whose packets it has started. If that process is stopped, those who wait look themselves a little later.

use core::num::NonZeroU32;
use core::sync::atomic::Ordering;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rustix::thread::futex;
use rustix::time::Timespec;

use self::file::{Access, Mapping};
use self::region::{Region, Snapshot};
use super::schedule::{DEPTH, Packet, Part, Progress, Schedule};
use super::{Gate, HwQueue, Patience, clock, eager};
use crate::config::{self, Sharing};
use crate::{boundary, inherited};

mod file;
mod members;
mod region;
mod signals;
mod words;

pub(crate) use signals::Signal;

/// Those who wait look themselves this long after whoever should have woken them.
const GRACE_NS: u64 = 500_000;
/// And at least so often, in case the kernel woke the guard of a stopped process.
const LOOK_NS: u64 = 10_000_000;

/// So many processes that one finds not a single queue; its calls fail.
const NO_QUEUE: &str = "the device has more hardware queues than its processes use";

/// See the module.
pub(crate) struct Device {
    index: usize,
    mapping: Mapping,
    /// This process's number on the device.
    member: OnceLock<usize>,
    snapshot: Mutex<Snapshot>,
    pools: Mutex<Pools>,
    signals: signals::Used,
    /// By which others know this process's memory.
    proof: words::Proof,
    looks: words::Looks,
}

/// This process's hardware queues, made when first needed.
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
    /// That with the fewest streams.
    fn least_used(&self) -> Option<&Arc<HwQueue>> {
        self.queues.iter().min_by_key(|queue| queue.streams())
    }
}

/// The hardware queues that a stream's packets go to.
#[derive(Clone)]
pub(crate) struct HwQueues {
    pub(super) compute: Arc<HwQueue>,
    /// Copies to the device and the rest, copies from the device.
    pub(super) copy: [Arc<HwQueue>; 2],
}

/// What a look at the schedule shows of one packet.
struct Look {
    start_ns: Option<u64>,
    /// If it is behind a gate that was found shut: how many queues are.
    held: Option<usize>,
    next_ns: Option<u64>,
}

impl Device {
    /// The device with an index, as the environment describes it.
    pub(crate) fn open(index: usize) -> Arc<Self> {
        let device = match &config::get().sharing {
            // Null mode never gets as far as the device.
            _ if config::get().null => None,
            Sharing::Off => None,
            Sharing::Name(name) => {
                let (folder, prefix) = (folder_of_named(), prefix_of_named());
                file::delete_left_behind(&folder, &prefix);
                Self::shared(index, &folder.join(format!("{prefix}{name}.{index}")), Access::User)
            }
            Sharing::Path(path) => {
                let mut path = path.clone().into_os_string();
                path.push(format!(".{index}"));
                Self::shared(index, path.as_ref(), Access::Anybody)
            }
        };
        device.unwrap_or_else(|| Self::private(index))
    }

    /// A device that no other process sees.
    pub(crate) fn private(index: usize) -> Arc<Self> {
        let device = Self::on(index, Mapping::private(capacity()));
        device.member.set(0).expect("it is new");
        Arc::new(device)
    }

    /// None, with a word on stderr, if it cannot be had.
    fn shared(index: usize, path: &std::path::Path, access: Access) -> Option<Arc<Self>> {
        let mapping = Mapping::shared(path, access, capacity())
            .inspect_err(|error| eprintln!("hip-sim: device {index} is not shared: {error}"))
            .ok()?;
        let device = Arc::new(Self::on(index, mapping));
        if device.region().capacity() != capacity() {
            let [units, engines] = device.region().capacity();
            eprintln!("hip-sim: device {index} was made with {units} compute units, {engines} copy engines");
        }
        if members::join(&device).is_none() {
            eprintln!("hip-sim: device {index} is not shared: {} processes have it", region::MEMBERS);
            return None;
        }
        tidy_up_at_exit(&device);
        Some(device)
    }

    fn on(index: usize, mapping: Mapping) -> Self {
        let (member, pools, signals) = (OnceLock::new(), Mutex::default(), signals::Used::default());
        let (snapshot, proof) = (Mutex::new(Snapshot::new()), words::Proof::new());
        Self { index, mapping, member, snapshot, pools, signals, proof, looks: words::Looks::new() }
    }

    fn region(&self) -> &Region {
        self.mapping.region()
    }

    /// Its number among the machine's devices.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Compute units; those of whoever made the device.
    pub(crate) fn compute_units(&self) -> u64 {
        self.region().capacity()[Part::Compute as usize]
    }

    /// Hardware queues for a new stream. To compute, of its priority: one without streams, else a new one as long as there
    /// are fewer than allowed, else that with the fewest streams, as clr 6.3 picks them. The stream leaves it when it ends.
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
        // With fewer than allowed if the device has no more.
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

    /// None if the device has no more.
    fn take_queue(self: &Arc<Self>, part: Part) -> Option<Arc<HwQueue>> {
        let member = self.member();
        let (index, _) = self.transact(|schedule, _| {
            let index = schedule.take_queue(member, part, |queue| self.region().posted(queue));
            (index.is_some(), index)
        });
        let index = index?;
        // A dead owner's waiters.
        self.region().queues[index].waiting.store(0, Ordering::Relaxed);
        Some(Arc::new(HwQueue::new(Arc::clone(self), index, self.region().posted(index))))
    }

    fn member(&self) -> usize {
        *self.member.get().expect("set before anything is posted")
    }

    /// Plays the schedule up to now, changes it, and makes the result the present. The change may be tried several times;
    /// it says whether it has changed anything.
    fn transact<R>(&self, mut change: impl FnMut(&mut Schedule, u64) -> (bool, R)) -> (R, Progress) {
        let region = self.region();
        let capacity = region.capacity();
        let mut snapshot = self.last_seen();
        loop {
            region.read(&mut snapshot);
            let now_ns = clock::now_ns();
            let present = words::Present::new(self);
            let mut progress = snapshot.schedule.advance(now_ns, capacity, &present);
            let (has_changed, result) = change(&mut snapshot.schedule, now_ns);
            if has_changed {
                progress = progress.and(snapshot.schedule.advance(now_ns, capacity, &present));
            }
            let is_present = !has_changed && !progress.has_changed();
            if is_present || region.commit(&snapshot, self.member()) {
                drop(snapshot);
                self.wake(&progress);
                return (result, progress);
            }
        }
    }

    /// Rings the bells of queues whose packets were started and are waited for.
    fn wake(&self, progress: &Progress) {
        // The commit before, or a waiter's bit: one of the two sees the other. Pairs with the fence in `wait_start`.
        core::sync::atomic::fence(Ordering::SeqCst);
        for &(queue, granted) in &progress.granted {
            let slot = &self.region().queues[queue];
            if let Some(waited_for) = NonZeroU32::new(slot.waiting.load(Ordering::Relaxed) & granted) {
                slot.bell.fetch_add(1, Ordering::Release);
                let _ = futex::wake_bitset(&slot.bell, futex::Flags::empty(), i32::MAX as u32, waited_for);
            }
        }
    }

    /// Ends what a dead member left.
    fn remove_member(&self, member: usize) {
        self.transact(|schedule, now_ns| (schedule.remove_member(member, now_ns), ()));
    }

    /// Starts what may start by now.
    pub(super) fn play(&self) {
        self.transact(|_, _| (false, ()));
    }

    /// Starts what was to start by then, which is past.
    pub(super) fn play_to(&self, time_ns: u64) {
        if !self.last_seen().schedule.is_played_to(time_ns) {
            self.play();
        }
    }

    /// The schedule as this process last saw it, or made it. What has started there has started.
    fn last_seen(&self) -> MutexGuard<'_, Snapshot> {
        eager::lock(&self.snapshot)
    }

    pub(super) fn post(&self, queue: usize, packet: Packet, gate: Option<Gate>) -> u64 {
        let ticket = self.region().post(queue, packet, gate);
        self.play();
        ticket
    }

    fn look(&self, queue: usize, ticket: u64) -> Look {
        let ((start_ns, held), progress) = self.transact(|schedule, _| {
            let held = schedule.is_held(queue, ticket).then(|| schedule.held());
            (false, (schedule.start_ns(queue, ticket), held))
        });
        Look { start_ns, held, next_ns: progress.next_ns }
    }

    /// Sleeps until a packet has started; when it did, on the timeline.
    pub(super) fn wait_start(&self, queue: usize, ticket: u64) -> u64 {
        // Most often whoever posted the packets behind it has found out.
        let seen_ns = self.last_seen().schedule.start_ns(queue, ticket);
        if let Some(start_ns) = seen_ns.or_else(|| self.look(queue, ticket).start_ns) {
            return start_ns;
        }
        let slot = &self.region().queues[queue];
        let bit = NonZeroU32::new(1 << (ticket % DEPTH)).expect("a bit is not zero");
        slot.waiting.fetch_or(bit.get(), Ordering::Relaxed);
        let mut patience = None;
        let start_ns = loop {
            let bell = slot.bell.load(Ordering::Acquire);
            // The bit, or whoever commits: one of the two sees the other. Pairs with the fence in `wake`.
            core::sync::atomic::fence(Ordering::SeqCst);
            let look = self.look(queue, ticket);
            if let Some(start_ns) = look.start_ns {
                break start_ns;
            }
            let timeout_ns = if let Some(held) = look.held {
                let Some(interval) = patience.get_or_insert_with(Patience::new).interval() else {
                    std::thread::yield_now();
                    continue;
                };
                // Who looks plays for all: together they look as often as one alone would.
                clock::now_ns() + held as u64 * interval.as_nanos() as u64
            } else {
                let latest_ns = clock::now_ns() + LOOK_NS;
                look.next_ns.map_or(latest_ns, |next_ns| latest_ns.min(next_ns + GRACE_NS))
            };
            let timeout = clock::timespec(timeout_ns);
            if self.sleep(&slot.bell, bell, &timeout, bit).is_err() && look.held.is_none() {
                members::remove_dead(self);
            }
        };
        slot.waiting.fetch_and(!bit.get(), Ordering::Relaxed);
        start_ns
    }

    /// An error if nobody rang until then.
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

/// Where devices lie that have a name only.
fn folder_of_named() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if memory.is_dir() { memory } else { runtime.unwrap_or_else(std::env::temp_dir) }
}

/// How the files of this user's begin there.
fn prefix_of_named() -> String {
    format!("hip-sim-{}-", rustix::process::geteuid().as_raw())
}

/// Devices whose file goes with their last user.
static SHARED: Mutex<Vec<Arc<Device>>> = Mutex::new(Vec::new());

fn tidy_up_at_exit(device: &Arc<Device>) {
    let mut shared = SHARED.lock().expect("no holder panics");
    if shared.is_empty() {
        // SAFETY: the function is this library's, which stays loaded: it holds running threads.
        unsafe { libc::atexit(tidy_up) };
    }
    shared.push(Arc::clone(device));
}

extern "C" fn tidy_up() {
    // A forked child's exit is not its parent's.
    if inherited::is_so() {
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
    fn streams_share_what_there_is_when_the_device_has_no_more_queues() {
        let device = Device::private(0);
        let first = device.queues_for_stream(0);
        while device.take_queue(Part::Compute).is_some() {}
        let second = device.queues_for_stream(0);
        assert!(Arc::ptr_eq(&first.compute, &second.compute));
    }
}
