//! Detects processes that are moved to other cgroups, or whose nice value changes. The kernel sends no notification of
//! that, so both are read once a second, on a separate thread: a read may block while cgroups are created and removed.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc as questions;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc as answers;
use tokio::time::MissedTickBehavior;
use xsched_terminal::Internal;

use super::controller::ClientId;
use super::subject::{Seen, look_at};
use crate::error::ServeError;
use crate::shared::Shared;

/// How often cgroups are read.
const LOOK: Duration = Duration::from_secs(1);

/// Keeps the controller's knowledge of cgroups up to date.
pub(super) async fn follow(shared: &Shared) -> Result<Infallible, ServeError> {
    let (ask, asked) = questions::channel();
    let (tell, mut told) = answers::unbounded_channel();
    thread::Builder::new()
        .name("xsched-cgroups".to_owned())
        .spawn(move || {
            for processes in asked {
                if tell.send(read(processes)).is_err() {
                    return;
                }
            }
        })
        .map_err(Internal::at("starting the thread that reads cgroups"))?;
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let processes = shared.controller.borrow().present();
        // If the thread has ended, the receive below fails.
        let _ = ask.send(processes);
        let Some(read) = told.recv().await else {
            return Err(Internal::at("reading cgroups")(io::ErrorKind::BrokenPipe.into()).into());
        };
        if shared.with(|controller| controller.learn_cgroups(read)) {
            shared.subjects.send_replace(());
        }
    }
}

/// Reads cgroups and nice values of these processes; leaves out those that cannot be read.
fn read(processes: Vec<(ClientId, u32)>) -> Vec<(ClientId, Seen)> {
    processes.into_iter().filter_map(|(id, pid)| Some((id, look_at(pid)?))).collect()
}
