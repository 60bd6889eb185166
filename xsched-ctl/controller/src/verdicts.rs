//! How a process gets the verdicts on its calls: a verdict page that BPF programs write, or the rules, by which it
//! decides itself.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use tokio::sync::{oneshot, watch};
use xsched_control_api::peer::Peer;
use xsched_protocol::{
    verdict::VERDICT_SLOTS,
    wire::{Domain, KernelName, PacketKind, Rules, SchedulingDomain, Settings, Verdicts},
};
use xsched_rules::Caller;
use xsched_terminal::one_line;
use zerocopy::IntoBytes as _;

use super::controller::{Actor, ClientId, Heard};
use super::rules::Loaded;
use super::shims::on_thread;
use super::socket::{Connection, Packet};
use super::subject::Subject;
use crate::origin::{JoinError, Newcomer, Order, Page};
use crate::shared::Shared;

/// How long a process may take to show its token before it gets the rules instead.
const JOIN_PATIENCE: Duration = Duration::from_secs(1);

/// Sends a process what it needs, now and whenever rules change. Ends only if the process does not read.
pub(super) async fn provide(
    shared: &Shared,
    connection: &Connection,
    id: ClientId,
) -> Result<std::convert::Infallible, io::Error> {
    let (mut rules, mut subjects) = (shared.rules.subscribe(), shared.subjects.subscribe());
    // A process that is too late decides about its calls itself.
    shared.has_joined(id, JOIN_PATIENCE).await;
    let Some((subject, heard)) = shared.controller.borrow().identity(id) else {
        std::future::pending().await
    };
    let mut caller = caller(&subject);
    let mut page = match heard {
        Some(heard) => page(shared, id, &subject, heard, &caller).await,
        None => None,
    };
    let has_page = page.is_some();
    loop {
        let loaded = rules.borrow_and_update().clone();
        // After a change of the rules the generation in the page changes, which is enough. The process can make the thread that closes
        // the last descriptor of its page wait, as those of an epoll instance in `wake.rs` of the arbiter: so none is kept for it.
        if let Some(page) = page.take() {
            send_page(connection, &page)?;
        }
        // Also beside a page: the shim for CUDA decides itself, and the programs serve the one for HIP in the same process.
        send_rules(connection, &loaded, &names(shared, id), shared.rule_names.hand_out(&loaded.rules))?;
        tokio::select! {
            changed = rules.changed() => if changed.is_err() {
                std::future::pending::<()>().await;
            },
            other = changed_caller(shared, id, &caller, &mut subjects) => {
                caller = other;
                if let (Some(origin), true) = (&shared.origin, has_page) {
                    origin.tell(Order::Caller(id.number(), Box::new(caller.clone())));
                }
            }
        }
    }
}

/// Waits until different rules may match a process; returns its new attributes.
async fn changed_caller(
    shared: &Shared,
    id: ClientId,
    caller: &Caller,
    subjects: &mut watch::Receiver<()>,
) -> Caller {
    loop {
        if subjects.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        let subject = shared.controller.borrow().identity(id).map(|(subject, _)| subject);
        if let Some(other) = subject.as_ref().map(self::caller).filter(|other| other != caller) {
            return other;
        }
    }
}

/// What rules may ask about a process.
fn caller(subject: &Subject) -> Caller {
    Caller {
        executable: subject.executable.to_string_lossy().into_owned(),
        users: std::iter::once(subject.uid.to_string()).chain(subject.users.iter().cloned()).collect(),
        cgroups: subject.cgroups().map(str::to_owned).collect(),
    }
}

async fn page(
    shared: &Shared,
    id: ClientId,
    subject: &Subject,
    heard: Heard,
    caller: &Caller,
) -> Option<OwnedFd> {
    let origin = shared.origin.as_ref()?;
    let (reply, answer) = oneshot::channel();
    let Heard { tgid, shim, runtime, party } = heard;
    let (key, pid, caller) = (id.number(), subject.pid, caller.clone());
    let newcomer = Newcomer { key, pid, tgid, party, shim, runtime, caller };
    origin.tell(Order::Join(Box::new(newcomer), reply));
    match answer.await {
        Ok(Ok(Page { map })) => Some(map),
        // It is another version of the shim, or has ended, or there is another shim.
        Ok(Err(
            error @ (JoinError::NoFunction(_) | JoinError::Unreadable { .. } | JoinError::Taken { .. }),
        )) => {
            tracing::debug!("a process decides about its calls itself: {error}");
            None
        }
        Ok(Err(error)) => {
            tracing::warn!("process {} decides about its calls itself: {error}", subject.pid);
            None
        }
        // The thread has ended.
        Err(_) => None,
    }
}

fn send_page(connection: &Connection, page: &OwnedFd) -> io::Result<()> {
    let kind = PacketKind::Verdicts as u32;
    let packet = Verdicts { kind, slots: VERDICT_SLOTS as u32 };
    connection.send(packet.as_bytes(), &[page.as_fd()])
}

fn names(shared: &Shared, id: ClientId) -> Vec<String> {
    shared.controller.borrow().identity(id).map_or(Vec::new(), |(subject, _)| subject.users)
}

/// Sends the rules with the names of the process's user: the process knows only the number, and the name may be known
/// to a network service only.
fn send_rules(connection: &Connection, loaded: &Loaded, users: &[String], first_rule: u16) -> io::Result<()> {
    let text = sealed(&format!("{}{}", loaded.text, users.join("\n")))?;
    let (kind, len) = (PacketKind::Rules as u32, loaded.text.len() as u32);
    let packet = Rules { kind, len, first_rule: first_rule.into() };
    connection.send(packet.as_bytes(), &[text.as_fd()])
}

/// A memory file that can no longer be changed.
fn sealed(text: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("xsched-rules", flags)?);
    file.write_all(text.as_bytes())?;
    // The receiver reads from the current position.
    file.rewind()?;
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(file.into())
}

/// A library has declared what its calls are.
pub(super) fn domain(shared: &Shared, id: ClientId, said: &Domain) {
    let (Some(origin), Some(domain)) = (&shared.origin, SchedulingDomain::from_number(said.domain)) else {
        return;
    };
    let path = String::from_utf8_lossy(said.text());
    let library = path.rsplit('/').next().unwrap_or_default().to_owned();
    origin.tell(Order::Domain(id.number(), library, domain));
}

/// The user of a process has rules for it. They are read on a thread: there may be many, and all other processes would
/// wait. Each party has the rules of one process read, and kept in memory, at a time.
///
/// # Errors
/// They are no text.
pub(super) async fn settings(
    shared: &Shared,
    connection: &Connection,
    peer: &Peer,
    id: ClientId,
    packet: &mut Packet,
) -> io::Result<()> {
    let turn = shared.readings.take(Actor::of(peer)).await;
    let text = connection.tail(packet, size_of::<Settings>())?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    // If the waiting task gives up, the thread keeps the turn until it is done.
    match on_thread(peer, move || (xsched_rules::Rules::parse(&text), turn)).await {
        Some((Ok(rules), _turn)) => {
            if let Some(origin) = &shared.origin {
                origin.tell(Order::Settings(id.number(), Box::new(rules)));
                heard(shared).await;
            }
        }
        // Parts of the message come from the process, which must neither add lines to the log nor cause too many.
        Some((Err(error), _)) if shared.lines.have_room(peer.party) => {
            tracing::warn!("a process's own rules are ignored: {}", one_line(&error.to_string()));
        }
        Some((Err(_), _)) | None => {}
    }
    Ok(())
}

/// Waits until the deciding thread has handled everything sent so far: a process that sends much waits, and nothing
/// piles up.
pub(super) async fn heard(shared: &Shared) {
    if let Some(origin) = &shared.origin {
        let (reply, answer) = oneshot::channel();
        origin.tell(Order::Heard(reply));
        // A thread that has ended handles nothing more.
        let _ = answer.await;
    }
}

/// A process has given a kernel a number.
pub(super) fn kernel(shared: &Shared, id: ClientId, said: &KernelName) {
    if let Some(origin) = &shared.origin {
        let name = String::from_utf8_lossy(said.text()).into_owned();
        origin.tell(Order::Kernel(id.number(), said.id, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_rules_cannot_be_changed() {
        let file = File::from(sealed("profile = 'compat'").unwrap());
        assert!((&file).write_all(b"x").is_err());
        assert!(file.set_len(0).is_err());
        assert_eq!(std::os::unix::fs::FileExt::read_at(&file, &mut [0; 64], 0).unwrap(), 18);
    }
}
