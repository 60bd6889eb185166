//! Queues: each has a thread, which watches its doorbell and takes one packet after the other.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::abi::DOORBELL_BYTES;
use crate::log;
use crate::packet::{Device, Orders, Outcome, Place, Worker};

/// Looks at a doorbell without a rest, then with rests that become longer.
const LOOKS: u32 = 200;
const REST_MIN: Duration = Duration::from_micros(20);
const REST_MAX: Duration = Duration::from_micros(500);

#[derive(Debug)]
struct Queue {
    orders: Arc<Orders>,
    thread: JoinHandle<()>,
}

/// The page of doorbells, mapped here and where the thunk wants it.
#[derive(Debug)]
struct Doorbells {
    file: OwnedFd,
    first: *mut AtomicU64,
}

// SAFETY: a mapping that stays, of atomics.
unsafe impl Send for Doorbells {}
// SAFETY: as above.
unsafe impl Sync for Doorbells {}

impl Doorbells {
    fn new() -> Result<Self, Errno> {
        let file = memfd_create(c"doorbells", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, DOORBELL_BYTES as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: anywhere, so nothing is replaced.
        let first = unsafe { mmap(ptr::null_mut(), DOORBELL_BYTES, protection, MapFlags::SHARED, &file, 0) }?;
        Ok(Self { file, first: first.cast() })
    }

    fn get(&self, id: u32) -> Option<&'static AtomicU64> {
        let is_there = (id as usize) < DOORBELL_BYTES / 8;
        // SAFETY: inside of the mapping, which stays for ever.
        is_there.then(|| unsafe { &*self.first.add(id as usize) })
    }
}

/// All queues of a process.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    queues: Mutex<BTreeMap<u32, Queue>>,
    doorbells: OnceLock<Doorbells>,
}

impl Queues {
    fn doorbells(&self) -> Result<&Doorbells, Errno> {
        if self.doorbells.get().is_none() {
            // Another thread may be faster; its page is as good.
            let _ = self.doorbells.set(Doorbells::new()?);
        }
        self.doorbells.get().ok_or(Errno::NOMEM)
    }

    /// Begins to serve a queue; returns its number, which is that of its doorbell.
    pub(crate) fn create(&self, device: Device, place: Place) -> Result<u32, Errno> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let id = (1..DOORBELL_BYTES as u32 / 8).find(|id| !queues.contains_key(id)).ok_or(Errno::NOMEM)?;
        let doorbell = self.doorbells()?.get(id).ok_or(Errno::NOMEM)?;
        // The index of the last packet is written there, and the first one is 0.
        doorbell.store(u64::MAX, Ordering::Relaxed);
        let orders =
            Arc::new(Orders { is_over: AtomicBool::new(false), is_suspended: AtomicBool::new(false) });
        let worker = Worker::new(device, id, place, Arc::clone(&orders));
        let thread = without_signals(|| {
            let name = format!("kfd-queue-{id}");
            thread::Builder::new().name(name).spawn(move || serve(worker, doorbell))
        });
        let thread = thread.map_err(|_| Errno::AGAIN)?;
        queues.insert(id, Queue { orders, thread });
        Ok(id)
    }

    pub(crate) fn destroy(&self, id: u32) -> Result<(), Errno> {
        let queue = self.queues.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let queue = queue.ok_or(Errno::INVAL)?;
        queue.orders.is_over.store(true, Ordering::Release);
        if queue.thread.join().is_err() {
            log::complain(format_args!("the thread of queue {id} has panicked"));
        }
        Ok(())
    }

    /// Suspends a queue or lets it go on.
    pub(crate) fn update(&self, id: u32, is_active: bool) -> Result<(), Errno> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.get(&id).ok_or(Errno::INVAL)?;
        queue.orders.is_suspended.store(!is_active, Ordering::Release);
        Ok(())
    }

    /// Puts the page of doorbells where the thunk wants it.
    pub(crate) fn map_doorbells(&self, at: *mut c_void, size: usize) -> Result<*mut c_void, Errno> {
        let file = &self.doorbells()?.file;
        let fixed = if at.is_null() { MapFlags::empty() } else { MapFlags::FIXED };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the thunk has reserved the address with a mapping of its own, or wants any.
        unsafe { mmap(at, size.min(DOORBELL_BYTES), protection, MapFlags::SHARED | fixed, file, 0) }
    }
}

/// Starts a thread that handles none of the program's signals.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` fills the set; `pthread_sigmask` reads it and writes the old one.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = start();
    // SAFETY: the old set, as `pthread_sigmask` wrote it.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    started
}

/// Takes packets until the queue is destroyed or broken.
fn serve(mut worker: Worker, doorbell: &AtomicU64) {
    let (mut looks, mut rest) = (0, REST_MIN);
    while !worker.is_over() {
        match worker.take(doorbell.load(Ordering::Acquire)) {
            Outcome::Done => (looks, rest) = (0, REST_MIN),
            Outcome::Nothing if looks < LOOKS => {
                looks += 1;
                thread::yield_now();
            }
            Outcome::Nothing => {
                thread::sleep(rest);
                rest = (rest * 2).min(REST_MAX);
            }
            Outcome::Broken => return,
        }
    }
}
