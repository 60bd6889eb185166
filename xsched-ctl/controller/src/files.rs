//! What the controller reads from files. It reads all of them at its start and after SIGHUP, and the rules on call
//! chains also when their file changes.
//!
//! A separate thread reads them again: a file system or a name service may block it, and the controller must not wait.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, mpsc as orders};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc as news;
use tokio::sync::oneshot;
use xsched_terminal::Internal;

use super::asked::Asked;
use super::config::Config;
use super::notify::{Manager, reloading};
use super::rules::{Loaded, Source};
use super::users::Users;
use crate::cgroup_version::Cgroups;
use crate::error::ServeError;
use crate::origin::Order;
use crate::shared::Shared;

/// How often the file of rules is checked for changes.
const LOOK: Duration = Duration::from_secs(1);

/// Everything that the controller reads from files.
#[derive(Debug)]
pub(super) struct Reading {
    /// The configuration, with the command line's overrides.
    pub(super) config: Config,
    pub(super) users: Users,
    pub(super) rules: Loaded,
    /// Where the rules come from.
    pub(super) source: Source,
}

impl Reading {
    /// Reads everything, or returns the mistakes in each file.
    pub(super) fn read(asked: &Asked) -> Result<Self, Vec<ServeError>> {
        let (config, error) = asked.examine();
        let read = Source::read(config.rules.clone()).map_err(ServeError::Rules);
        match (error.map(ServeError::Config), read) {
            (None, Ok((source, rules))) => {
                let users = Users::read(&config.user_names() | &rules.user_names());
                Ok(Self { config, users, rules, source })
            }
            // Report the mistakes of both files at once, so that they can be corrected together.
            (error, read) => Err(error.into_iter().chain(read.err()).collect()),
        }
    }
}

/// What the thread has read.
enum News {
    /// The file of rules has changed: the new rules, and the users.
    Rules(Loaded, Users),
    /// Everything, because it was asked for.
    Everything(Result<Box<Reading>, Vec<ServeError>>),
}

/// SIGHUP, which does not end the controller from here on.
pub(super) fn hangups() -> Result<Signal, ServeError> {
    Ok(signal(SignalKind::hangup()).map_err(Internal::at("catching signals"))?)
}

/// Applies what files say, whenever they are read again. `names` are the users that the configuration names.
pub(super) async fn follow(
    shared: &Shared,
    manager: &Manager,
    asked: Asked,
    source: Source,
    names: BTreeSet<String>,
    mut hangups: Signal,
) -> Result<Infallible, ServeError> {
    let (order, orders) = orders::channel();
    let (tell, mut news) = news::unbounded_channel();
    thread::Builder::new()
        .name("xsched-files".to_owned())
        .spawn(move || read_on(&asked, source, names, &orders, &tell))
        .map_err(Internal::at("starting the thread that reads files"))?;
    loop {
        tokio::select! {
            _ = hangups.recv() => {
                manager.tell(&reloading());
                // If the thread has ended, the receive below fails.
                let _ = order.send(());
            }
            read = news.recv() => match read {
                Some(News::Rules(rules, users)) => {
                    let warnings = rules.warnings(&users, Cgroups::here());
                    shared.with(|controller| controller.replace_users(users));
                    adopt_rules(shared, rules).await;
                    for warning in warnings {
                        tracing::warn!("{warning}");
                    }
                }
                Some(News::Everything(read)) => manager.tell(&format!("READY=1\nSTATUS={}", adopt(shared, read).await)),
                None => return Err(Internal::at("reloading files")(std::io::ErrorKind::BrokenPipe.into()).into()),
            },
        }
    }
}

/// The thread: reads everything on request, and the rules when their file has changed. Ends with the controller.
fn read_on(
    asked: &Asked,
    mut source: Source,
    mut names: BTreeSet<String>,
    orders: &orders::Receiver<()>,
    tell: &news::UnboundedSender<News>,
) {
    loop {
        let read = match orders.recv_timeout(LOOK) {
            Ok(()) => {
                // Several requests in the meantime need one answer.
                while orders.try_recv().is_ok() {}
                let read = Reading::read(asked).map(Box::new);
                if let Ok(read) = &read {
                    (source, names) = (read.source.clone(), read.config.user_names());
                }
                Some(News::Everything(read))
            }
            Err(orders::RecvTimeoutError::Timeout) => source.reread().map(|rules| {
                let users = Users::read(&names | &rules.user_names());
                News::Rules(rules, users)
            }),
            Err(orders::RecvTimeoutError::Disconnected) => return,
        };
        if read.is_some_and(|read| tell.send(read).is_err()) {
            return;
        }
    }
}

/// Applies what was read, or logs why not; returns the status for the service manager.
async fn adopt(shared: &Shared, read: Result<Box<Reading>, Vec<ServeError>>) -> &'static str {
    let reading = match read {
        Ok(reading) => *reading,
        Err(errors) => {
            for line in errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n").lines() {
                tracing::error!("keeping the previous settings: {line}");
            }
            return "reloaded files have mistakes; the previous settings remain";
        }
    };
    let Reading { config, users, rules, source: _ } = reading;
    let changes = shared.with(|controller| controller.reconfigure(config, users));
    tracing::info!("reloaded files: {}", shared.controller.borrow().describe());
    for change in changes.effective {
        tracing::info!("{change}");
    }
    for change in changes.not_effective {
        tracing::warn!("{change}");
    }
    adopt_rules(shared, rules).await;
    for warning in shared.controller.borrow().warnings(&shared.rules.borrow()) {
        tracing::warn!("{warning}");
    }
    "reloaded files"
}

async fn adopt_rules(shared: &Shared, rules: Loaded) {
    let is_same = {
        let held = shared.rules.borrow();
        held.path == rules.path && held.text == rules.text
    };
    if is_same {
        return;
    }
    if let Some(origin) = &shared.origin {
        let (reply, done) = oneshot::channel();
        origin.tell(Order::Rules(Arc::clone(&rules.rules), reply));
        // If the thread has ended, no call is asked about any more.
        let _ = done.await;
    }
    tracing::info!("{} rules on calls apply from now on", rules.rules.rules().len());
    shared.rules.send_replace(rules);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_of_all_files_are_reported_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (config, rules) = (folder.path().join("c.toml"), folder.path().join("r.toml"));
        let asked = Asked::for_file(&config);
        std::fs::write(&config, "rules = 'r.toml'\nrool = 1\n").unwrap();
        std::fs::write(&rules, "profil = 'compat'\n").unwrap();
        let errors = Reading::read(&asked).unwrap_err();
        assert!(matches!(errors[..], [ServeError::Config(_), ServeError::Rules(_)]), "{errors:?}");
        std::fs::write(&config, "rules = 'r.toml'\n").unwrap();
        assert_eq!(Reading::read(&asked).unwrap_err().len(), 1);
        std::fs::write(&rules, "profile = 'compat'\n").unwrap();
        let reading = Reading::read(&asked).unwrap();
        assert_eq!((reading.rules.path, reading.config.file), (Some(rules), Some(config)));
    }
}
