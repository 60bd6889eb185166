//! Builds tables in the background.
//!
//! A few threads with low priority process requests, the most needed and smallest first (`queue.rs`). A GPU program maps about a hundred libraries, and translating
//! them must not slow it down. A request holds the open file and no other resource of the process, so the process may end
//! meanwhile. On a busy processor a thread with low priority makes hardly any progress, so a caller that waits for results
//! raises the priority ([`Builder::set_urgent`]).

mod pace;
mod queue;

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;

use crate::cache::Cache;
use crate::elf::UnwindInfo;
use crate::error::Error;
use crate::image::Image;
use crate::table::{Table, TableId};
use pace::Pace;
pub use queue::Need;
use queue::{Queue, Taken};

/// The number of threads. One processor needs two, so that small files do not wait for a large one. Beyond four, memory limits the
/// speed of a build, however many processors there are.
const THREADS_MIN: usize = 2;
const THREADS_MAX: usize = 4;

/// A finished request.
#[derive(Debug)]
pub struct Built<K> {
    /// The key of the request.
    pub key: K,
    /// The table, or the reason why there is none.
    pub result: Result<Arc<Table>, Error>,
    /// Whether it came from the cache.
    pub from_cache: bool,
    /// The time that the request took, without its time in the queue, on the monotonic clock.
    pub took: Duration,
}

/// Builds each requested table once. `K` is the caller's key of a file.
///
/// The descriptor polls as readable while there are results to take. Dropping the builder abandons pending requests.
#[derive(Debug)]
pub struct Builder<K> {
    requested: HashSet<K>,
    pending: usize,
    queue: Arc<Queue<K>>,
    results: Receiver<Built<K>>,
    results_ready: Arc<OwnedFd>,
    shared: Arc<Shared>,
    is_urgent: bool,
}

/// The state that all threads share.
#[derive(Debug)]
struct Shared {
    pace: Pace,
    cache: Cache,
    /// Tables in use: files with equal contents share one.
    tables: Mutex<HashMap<TableId, Weak<Table>>>,
}

impl<K: Clone + Eq + Hash + Send + 'static> Builder<K> {
    /// Starts the threads.
    pub fn new(cache: Cache) -> io::Result<Self> {
        let results_ready =
            Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let shared = Arc::new(Shared { pace: Pace::default(), cache, tables: Mutex::default() });
        let (sender, results) = mpsc::channel();
        let processors = thread::available_parallelism().map_or(THREADS_MIN, std::num::NonZero::get);
        let threads = processors.clamp(THREADS_MIN, THREADS_MAX);
        let queue = Arc::new(Queue::new(threads));
        for _ in 0..threads {
            let (shared, queue) = (Arc::clone(&shared), Arc::clone(&queue));
            let (sender, results_ready) = (sender.clone(), Arc::clone(&results_ready));
            thread::Builder::new().name("unwind-tables".into()).spawn(move || {
                shared.pace.join();
                work(&shared, &queue, &sender, &results_ready);
                shared.pace.leave();
            })?;
        }
        Ok(Self {
            requested: HashSet::new(),
            pending: 0,
            queue,
            results,
            results_ready,
            shared,
            is_urgent: false,
        })
    }

    /// Requests the table of a file. Returns false if this key was requested before: each key has one result.
    pub fn request(&mut self, key: K, image: Image, need: Need) -> bool {
        if !self.requested.insert(key.clone()) {
            self.queue.raise(&key, need);
            return false;
        }
        self.queue.add(key, image, need);
        self.pending += 1;
        true
    }

    /// Whether the table for this key was requested. If it is not built yet, it is needed for this, too.
    pub fn needs(&self, key: &K, need: Need) -> bool {
        let is_requested = self.requested.contains(key);
        if is_requested && need > Need::Expected {
            self.queue.raise(key, need);
        }
        is_requested
    }

    /// Forgets a request, so that the key can be requested again. For keys that now stand for another file.
    pub fn forget(&mut self, key: &K) {
        self.requested.remove(key);
    }

    /// Sets whether a caller waits for results. While it does, tables are built with normal priority.
    pub fn set_urgent(&mut self, is_urgent: bool) {
        // Callers repeat the same value often.
        if std::mem::replace(&mut self.is_urgent, is_urgent) != is_urgent {
            self.shared.pace.set_urgent(is_urgent);
        }
    }

    /// The number of results that are not finished or not taken yet.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Takes the finished results, without waiting.
    pub fn completed(&mut self) -> Vec<Built<K>> {
        // The descriptor is reset first: results that are finished after that make it readable again.
        let _ = rustix::io::read(&*self.results_ready, &mut [0; 8]);
        let finished: Vec<_> = self.results.try_iter().collect();
        self.pending -= finished.len();
        finished
    }
}

impl<K> Drop for Builder<K> {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl<K> AsFd for Builder<K> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.results_ready.as_fd()
    }
}

fn work<K: Eq>(shared: &Shared, queue: &Queue<K>, sender: &Sender<Built<K>>, results_ready: &OwnedFd) {
    while let Some(Taken { key, image, large }) = queue.take() {
        let began = Instant::now();
        // Files may be hostile. A panic for one file must not affect the others.
        let done = catch_unwind(AssertUnwindSafe(|| shared.table(&image)));
        let (result, from_cache) = match done.unwrap_or(Err(Error::Panicked)) {
            Ok((table, from_cache)) => (Ok(table), from_cache),
            Err(error) => (Err(error), false),
        };
        drop(large);
        if sender.send(Built { key, result, from_cache, took: began.elapsed() }).is_err() {
            return;
        }
        // The write fails only if the counter is at its maximum, and then the descriptor is readable already.
        let _ = rustix::io::write(results_ready, &1_u64.to_ne_bytes());
    }
}

impl Shared {
    fn table(&self, image: &Image) -> Result<(Arc<Table>, bool), Error> {
        let info = UnwindInfo::read(image)?;
        if let Some(table) = self.in_use(TableId::of(&info)) {
            return Ok((table, true));
        }
        let (table, from_cache) = match self.cache.load(&info) {
            Some(table) => (table, true),
            None => (Table::of(&info)?, false),
        };
        let table = Arc::new(table);
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|_, table| table.strong_count() > 0);
        tables.insert(table.id(), Arc::downgrade(&table));
        drop(tables);
        if !from_cache {
            self.cache.store(&info, &table);
        }
        Ok((table, from_cache))
    }

    fn in_use(&self, id: TableId) -> Option<Arc<Table>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).get(&id)?.upgrade()
    }
}

#[cfg(test)]
mod tests;
