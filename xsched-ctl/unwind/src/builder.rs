//! Builds tables in the background.
//!
//! A few threads of low priority take requests in the order in which they came: a GPU program maps some hundred
//! libraries, and must not feel that they are translated. They hold the open file and nothing of the process, so it
//! makes no difference whether that still runs. On a processor that is busy with other things low priority is next to nothing,
//! so whoever waits for a result says so.

mod pace;

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

/// Most threads, however many processors there are: a build is bound by memory.
const THREADS_MAX: usize = 4;

/// A finished request.
#[derive(Debug)]
pub struct Built<K> {
    /// As it was requested.
    pub key: K,
    /// The table; or why there is none.
    pub result: Result<Arc<Table>, Error>,
    /// Whether it came from the cache.
    pub from_cache: bool,
    /// Time from taking the request up to its end, of the monotonic clock.
    pub took: Duration,
}

/// Builds each requested table once. `K` is how the caller tells files apart.
///
/// Its descriptor polls as readable while results wait to be taken. Dropping it abandons what is still to be built.
#[derive(Debug)]
pub struct Builder<K> {
    requested: HashSet<K>,
    pending: usize,
    requests: Sender<(K, Image)>,
    results: Receiver<Built<K>>,
    waiting: Arc<OwnedFd>,
    workshop: Arc<Workshop>,
    is_hurried: bool,
}

/// What the threads share.
#[derive(Debug)]
struct Workshop {
    pace: Pace,
    cache: Cache,
    /// Tables that are in use: files of equal content share one.
    tables: Mutex<HashMap<TableId, Weak<Table>>>,
}

impl<K: Clone + Eq + Hash + Send + 'static> Builder<K> {
    /// Starts the threads.
    pub fn new(cache: Cache) -> io::Result<Self> {
        let waiting = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let workshop = Arc::new(Workshop { pace: Pace::default(), cache, tables: Mutex::default() });
        let (requests, queue) = mpsc::channel();
        let (sender, results) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let threads = thread::available_parallelism().map_or(1, |count| count.get().min(THREADS_MAX));
        for _ in 0..threads {
            let (workshop, queue) = (Arc::clone(&workshop), Arc::clone(&queue));
            let (sender, waiting) = (sender.clone(), Arc::clone(&waiting));
            thread::Builder::new().name("unwind-tables".into()).spawn(move || {
                workshop.pace.join();
                work(&workshop, &queue, &sender, &waiting);
                workshop.pace.leave();
            })?;
        }
        Ok(Self {
            requested: HashSet::new(),
            pending: 0,
            requests,
            results,
            waiting,
            workshop,
            is_hurried: false,
        })
    }

    /// Asks for the table of a file. False if this key has been requested before: its result comes, or came, once.
    pub fn request(&mut self, key: K, image: Image) -> bool {
        if !self.requested.insert(key.clone()) {
            return false;
        }
        // Sending succeeds: the threads end only after this end of the channel.
        self.pending += usize::from(self.requests.send((key, image)).is_ok());
        true
    }

    /// Forgets that a key was requested, so that it can be again. For keys that mean something else by now.
    pub fn forget(&mut self, key: &K) {
        self.requested.remove(key);
    }

    /// Says whether somebody waits for results: until that is taken back, they are built with the priority of other work.
    pub fn hurry(&mut self, is_hurried: bool) {
        // It is said again and again.
        if std::mem::replace(&mut self.is_hurried, is_hurried) != is_hurried {
            self.workshop.pace.hurry(is_hurried);
        }
    }

    /// How many results are still to come.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Takes what has been finished, without waiting.
    pub fn completed(&mut self) -> Vec<Built<K>> {
        // First the descriptor: what is finished after this makes it readable again.
        let _ = rustix::io::read(&*self.waiting, &mut [0; 8]);
        let finished: Vec<_> = self.results.try_iter().collect();
        self.pending -= finished.len();
        finished
    }
}

impl<K> AsFd for Builder<K> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waiting.as_fd()
    }
}

fn work<K>(
    workshop: &Workshop,
    queue: &Mutex<Receiver<(K, Image)>>,
    sender: &Sender<Built<K>>,
    waiting: &OwnedFd,
) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((key, image)) = next else { return };
        let began = Instant::now();
        // Files are hostile at worst; a defect met in one must not cost the others.
        let done = catch_unwind(AssertUnwindSafe(|| workshop.table(&image)));
        let (result, from_cache) = match done.unwrap_or(Err(Error::Panicked)) {
            Ok((table, from_cache)) => (Ok(table), from_cache),
            Err(error) => (Err(error), false),
        };
        if sender.send(Built { key, result, from_cache, took: began.elapsed() }).is_err() {
            return;
        }
        // Fails only when the counter is full, and then it is readable anyway.
        let _ = rustix::io::write(waiting, &1_u64.to_ne_bytes());
    }
}

impl Workshop {
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
