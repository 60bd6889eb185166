//! The rules by which calls are decided about: where they are from, and that they are read again when they change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use xsched_rules::{Mistakes, Rules};

use super::Shared;
use crate::failure::Failure;
use crate::origin::Order;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Rules that hold.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) rules: Arc<Rules>,
    /// Their text, for processes that decide themselves.
    pub(crate) text: Arc<str>,
}

/// There are no rules.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RulesFileError {
    /// The file cannot be read.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The file is wrong.
    #[error("{}", .cause.of_file(.path))]
    Wrong {
        /// Which one.
        path: PathBuf,
        /// What is wrong in which lines.
        cause: Mistakes,
    },
}

/// What tells one state of a file from another.
type Stamp = Option<(SystemTime, u64)>;

/// Where rules are from.
#[derive(Debug)]
pub(crate) struct RulesFile {
    path: Option<PathBuf>,
    stamp: Stamp,
    current: watch::Sender<Loaded>,
}

impl RulesFile {
    /// Reads the file, if there is one.
    pub(crate) fn load(path: Option<PathBuf>) -> Result<Self, RulesFileError> {
        let stamp = path.as_deref().and_then(stamp);
        let loaded = read(path.as_deref())?;
        Ok(Self { path, stamp, current: watch::Sender::new(loaded) })
    }

    /// What holds now, and what will.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Loaded> {
        self.current.subscribe()
    }

    /// The file, if there is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the file if it has changed, or in any case. What is wrong is said once, and changes nothing.
    fn reread(&mut self, in_any_case: bool) -> Option<Loaded> {
        let path = self.path.as_deref()?;
        let stamp = stamp(path);
        if stamp == self.stamp && !in_any_case {
            return None;
        }
        self.stamp = stamp;
        match read(Some(path)) {
            Ok(loaded) => Some(loaded),
            Err(error) => {
                tracing::error!("the rules stay as they were: {error}");
                None
            }
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Reads a file of rules; without one the built-in ones hold.
pub(super) fn read(path: Option<&Path>) -> Result<Loaded, RulesFileError> {
    let Some(path) = path else {
        return Ok(Loaded { rules: Arc::new(Rules::default()), text: "".into() });
    };
    let text = fs::read_to_string(path)
        .map_err(|cause| RulesFileError::Unreadable { path: path.to_owned(), cause })?;
    let rules =
        Rules::parse(&text).map_err(|cause| RulesFileError::Wrong { path: path.to_owned(), cause })?;
    Ok(Loaded { rules: Arc::new(rules), text: text.into() })
}

/// Sees to it that the rules are those of the file: looks at it again and again, and when SIGHUP says so.
pub(super) async fn follow(shared: &Shared) -> Result<std::convert::Infallible, Failure> {
    let mut hangups = signal(SignalKind::hangup()).map_err(Failure::internal("catching signals"))?;
    let mut looks = tokio::time::interval(LOOK);
    loop {
        let in_any_case = tokio::select! {
            _ = hangups.recv() => true,
            _ = looks.tick() => false,
        };
        let Some(loaded) = shared.rules.borrow_mut().reread(in_any_case) else { continue };
        if let Some(origin) = &shared.origin {
            let (reply, done) = oneshot::channel();
            origin.tell(Order::Rules(Arc::clone(&loaded.rules), reply));
            // If the thread is gone, nobody asks it either.
            let _ = done.await;
        }
        tracing::info!("{} rules hold from now on", loaded.rules.rules().len());
        shared.rules.borrow().current.send_replace(loaded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_file_leaves_the_rules_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        fs::write(&path, "[[rule]]\nlibrary = 'a.so'\naction = 'passthrough'\n").unwrap();
        let mut file = RulesFile::load(Some(path.clone())).unwrap();
        let count = file.current.borrow().rules.rules().len();
        assert!(file.reread(false).is_none(), "nothing has changed");
        fs::write(&path, "[[rule]]\nlibrary = 'a.so'\naction = 'pass'\n").unwrap();
        assert!(file.reread(false).is_none(), "it is wrong");
        fs::write(&path, "profile = 'compat'\n").unwrap();
        let loaded = file.reread(false).unwrap();
        assert_ne!(loaded.rules.rules().len(), count);
        assert!(file.reread(true).is_some(), "in any case");
        fs::remove_file(&path).unwrap();
        assert!(file.reread(false).is_none());
        let error = RulesFile::load(Some(path)).unwrap_err();
        assert!(matches!(error, RulesFileError::Unreadable { .. }), "{error}");
    }
}
