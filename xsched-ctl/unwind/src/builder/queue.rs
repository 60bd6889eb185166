//! The order of builds: what a stack waits for comes first, and a small file before a large one.
//!
//! A stack of a GPU program leads through a dozen small libraries and one of a gigabyte. It is whole when the last table is there,
//! but most stacks do not lead into the giant. One thread is therefore kept free of large files: a small one never waits for
//! seconds until all threads have built giants.

use std::cmp::Reverse;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::image::Image;

/// Why a table is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Stacks are likely to lead there.
    Expected,
    /// A stack leads there and waits.
    Waiting,
}

/// Bytes from which a file is large. Tables of smaller ones take less than a tenth of a second.
pub(super) const LARGE: u64 = 64 << 20;

/// Requests that no thread has taken yet.
#[derive(Debug)]
pub(super) struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Condvar,
    /// Most large files that are built at once.
    large_max: usize,
}

#[derive(Debug)]
struct State<K> {
    requests: Vec<Request<K>>,
    large_taken: usize,
    is_closed: bool,
}

#[derive(Debug)]
struct Request<K> {
    key: K,
    image: Image,
    bytes: u64,
    need: Need,
}

impl<K> Request<K> {
    fn is_large(&self) -> bool {
        self.bytes >= LARGE
    }
}

impl<K: Eq> Queue<K> {
    /// For this many threads.
    pub(super) fn new(threads: usize) -> Self {
        let state = State { requests: Vec::new(), large_taken: 0, is_closed: false };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            large_max: threads.saturating_sub(1).max(1),
        }
    }

    pub(super) fn add(&self, key: K, image: Image, need: Need) {
        // A file that cannot be asked for its size is refused in no time.
        let bytes = image.len().unwrap_or(0);
        self.change(|state| state.requests.push(Request { key, image, bytes, need }));
    }

    /// A request that is still queued is needed for this, too.
    pub(super) fn raise(&self, key: &K, need: Need) {
        let mut state = self.lock();
        if let Some(request) = state.requests.iter_mut().find(|request| request.key == *key) {
            request.need = request.need.max(need);
        }
    }

    /// The next request, as soon as there is one; none when the queue is closed.
    pub(super) fn take(&self) -> Option<Taken<'_, K>> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(Request { key, image, bytes, .. }) = state.take(self.large_max) {
                // Not `then_some`: what is not used would be dropped here, which takes the lock.
                let large = (bytes >= LARGE).then(|| Large(self));
                return Some(Taken { key, image, large });
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<K> Queue<K> {
    /// Drops all requests, and ends the threads.
    pub(super) fn close(&self) {
        self.change(|state| {
            state.is_closed = true;
            state.requests.clear();
        });
    }

    /// Changes what threads may take.
    fn change(&self, change: impl FnOnce(&mut State<K>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> State<K> {
    fn take(&mut self, large_max: usize) -> Option<Request<K>> {
        let takes_large = self.large_taken < large_max;
        let candidates = self.requests.iter().enumerate();
        let (index, _) = candidates
            .filter(|(_, request)| takes_large || !request.is_large())
            .min_by_key(|(_, request)| (Reverse(request.need), request.bytes))?;
        let request = self.requests.remove(index);
        self.large_taken += usize::from(request.is_large());
        Some(request)
    }
}

/// A request that a thread has taken.
#[derive(Debug)]
pub(super) struct Taken<'a, K> {
    pub(super) key: K,
    pub(super) image: Image,
    /// To be kept while a large file is built.
    pub(super) large: Option<Large<'a, K>>,
}

/// A large file that is being built.
#[derive(Debug)]
pub(super) struct Large<'a, K>(&'a Queue<K>);

impl<K> Drop for Large<'_, K> {
    fn drop(&mut self) {
        self.0.change(|state| state.large_taken -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with nothing in it.
    fn file(bytes: u64) -> Image {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file.into()
    }

    #[test]
    fn what_a_stack_waits_for_comes_first_and_small_before_large() {
        let queue = Queue::new(2);
        queue.add("giant", file(1 << 30), Need::Expected);
        queue.add("small", file(1 << 10), Need::Expected);
        queue.add("medium", file(1 << 20), Need::Expected);
        queue.add("wanted", file(1 << 21), Need::Expected);
        queue.raise(&"wanted", Need::Waiting);
        queue.raise(&"wanted", Need::Expected);
        queue.raise(&"unknown", Need::Waiting);
        let order: Vec<_> = (0..4).map(|_| queue.take().unwrap().key).collect();
        assert_eq!(order, ["wanted", "small", "medium", "giant"]);
    }

    #[test]
    fn one_thread_is_kept_free_of_large_files() {
        let queue = Queue::new(2);
        for giant in ["giant", "another"] {
            queue.add(giant, file(LARGE), Need::Waiting);
        }
        let first = queue.take().unwrap();
        queue.add("small", file(1), Need::Expected);
        assert_eq!((first.key, queue.take().unwrap().key), ("giant", "small"));
        drop(first.large);
        assert_eq!(queue.take().unwrap().key, "another");
        queue.close();
        assert!(queue.take().is_none());
    }
}
