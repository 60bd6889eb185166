//! Processes that are moved to other cgroups. Nobody is told of that, so it is read once a second, on a thread of its own: the
//! kernel may keep whoever reads it waiting while cgroups come and go.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc as questions;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc as answers;
use tokio::time::MissedTickBehavior;
use xsched_terminal::Internal;

use super::Shared;
use super::controller::ClientId;
use super::subject::cgroup_of;
use crate::ServeError;

/// How often.
const LOOK: Duration = Duration::from_secs(1);

/// Sees to it that processes stand as their cgroups do.
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
        // That the thread has ended is found out below.
        let _ = ask.send(processes);
        let Some(read) = told.recv().await else {
            return Err(Internal::at("reading cgroups")(io::ErrorKind::BrokenPipe.into()).into());
        };
        if shared.with(|controller| controller.learn_cgroups(read)) {
            shared.subjects.send_replace(());
        }
    }
}

/// In which cgroups these are; not those that cannot be read.
fn read(processes: Vec<(ClientId, u32)>) -> Vec<(ClientId, String)> {
    processes.into_iter().filter_map(|(id, pid)| Some((id, cgroup_of(pid)?))).collect()
}
