//! Gives tables to the programs on a thread of its own.
//!
//! A system call that adds to a map of maps returns when all programs have ended that may have seen the state before. That takes the
//! kernel 8 to 30 ms, and a table of 2.7 million rows needs some calls of that kind. Meanwhile the ring buffers would not be read.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use xsched_unwind::{Table, TableId};

use super::rows::{LoadError, Loaded};

/// Where the programs have a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The thread is about to write it.
    Coming,
    There(Loaded),
    /// There was no space for it.
    Nowhere,
}

type Outcome = (TableId, Result<Loaded, LoadError>);

pub(super) struct Loader {
    tables: Sender<Arc<Table>>,
    outcomes: Receiver<Outcome>,
    /// Files of equal content share a table.
    places: HashMap<TableId, Place>,
}

impl Loader {
    /// Starts the thread, on which `load` writes each table. It ends with the loader.
    pub(super) fn start(
        mut load: impl FnMut(&Table) -> Result<Loaded, LoadError> + Send + 'static,
    ) -> io::Result<Self> {
        let (tables, requested) = mpsc::channel::<Arc<Table>>();
        let (sender, outcomes) = mpsc::channel();
        thread::Builder::new().name("xsched-rows".to_owned()).spawn(move || {
            while let Ok(table) = requested.recv() {
                if sender.send((table.id(), load(&table))).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { tables, outcomes, places: HashMap::new() })
    }

    /// Whether a table was given to the thread before.
    pub(super) fn has(&self, table: TableId) -> bool {
        self.places.contains_key(&table)
    }

    /// Has a table written, once.
    pub(super) fn load(&mut self, table: &Arc<Table>) {
        if !self.has(table.id()) {
            // The thread has gone only if it panicked.
            let is_taken = self.tables.send(Arc::clone(table)).is_ok();
            self.places.insert(table.id(), if is_taken { Place::Coming } else { Place::Nowhere });
        }
    }

    /// Where the programs have a table.
    pub(super) fn place(&self, table: TableId) -> Place {
        self.places.get(&table).copied().unwrap_or(Place::Nowhere)
    }

    /// Takes in what the thread has done since the last call: how many tables it has written, and what became of the others.
    pub(super) fn collect(&mut self) -> (usize, Vec<LoadError>) {
        let (mut written, mut errors) = (0, Vec::new());
        while let Ok((table, outcome)) = self.outcomes.try_recv() {
            let place = match outcome {
                Ok(loaded) => {
                    written += 1;
                    Place::There(loaded)
                }
                // Stacks that lead there are still walked in user space.
                Err(error) => {
                    errors.push(error);
                    Place::Nowhere
                }
            };
            self.places.insert(table, place);
        }
        (written, errors)
    }
}
