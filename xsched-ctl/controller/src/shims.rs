//! One task for each process with the shim: receives its packets, and answers them.

use std::io;
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::time::timeout;
use xsched_arbiter::ProbedShim;
use xsched_control_api::peer::{PATIENCE, Party, Peer};
use xsched_protocol::wire::{FromShim, Hello, Malformed, PacketKind, Refusal, RefusalReason};
use xsched_symbols::FileId;
use zerocopy::IntoBytes as _;

use super::controller::{Actor, Admitted, Answered, ClientId, Told};
use super::directory;
use super::room::{NotTaken, Room, Shortage};
use super::socket::{Connection, Listener, Packet};
use super::verdicts;
use crate::origin::Order;
use crate::shared::Shared;

/// Packets of one process that are handled before other tasks run.
const TURN: u32 = 64;

/// How long a process may take to show its token. Processes that no BPF program sees never show theirs.
const JOIN_PATIENCE: Duration = Duration::from_millis(100);

/// How long after its connection a process may end.
const DEPARTURE: Duration = Duration::from_millis(500);

/// How long a process waits for its ring while the recorder does not confirm it.
const RECORDER_PATIENCE: Duration = Duration::from_millis(100);

pub(super) async fn accept(shared: Rc<Shared>, listener: Listener) {
    let (room, mut shortage) = (Room::new(), Shortage::default());
    loop {
        match listener.accept().await {
            Ok(mut connection) => match room.take_in(&connection) {
                Ok((peer, occupant)) => {
                    connection.count(occupant);
                    tokio::task::spawn_local(serve(Rc::clone(&shared), connection, peer));
                }
                Err(NotTaken::Gone) => {}
                Err(NotTaken::Full) => {
                    refuse(&connection, RefusalReason::Full);
                    shared.controller.borrow_mut().count_end(Some(RefusalReason::Full), false);
                }
            },
            Err(error) => shortage.pass("another process", &error).await,
        }
    }
}

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The process has ended.
    Gone,
    /// The connection was closed at the other end.
    Closed,
    /// It is refused.
    Refused(RefusalReason),
    /// It does not read, or sends nothing.
    Slow,
    /// The same process has connected again.
    Replaced,
    /// The connection failed.
    Failed(io::Error),
}

async fn serve(shared: Rc<Shared>, connection: Connection, peer: Peer) {
    let end = match greet(&shared, &connection, &peer).await {
        Ok(admitted) => {
            let end = tokio::select! {
                end = attend(&shared, &connection, &peer, admitted.id) => end,
                failed = verdicts::provide(&shared, &connection, admitted.id) => match failed {
                    Ok(never) => match never {},
                    Err(error) => send_failed(error),
                },
                _ = peer.ended() => End::Gone,
                () = admitted.replaced.notified() => End::Replaced,
            };
            shared.with(|controller| controller.leave(admitted.id));
            if let Some(origin) = &shared.origin {
                origin.tell(Order::Leave(admitted.id.number()));
            }
            end
        }
        Err(end) => end,
    };
    if let End::Refused(reason) = end {
        refuse(&connection, reason);
    }
    match &end {
        End::Failed(error) if shared.lines.have_room(peer.party) => {
            tracing::warn!("{}: {error}", peer.describe());
        }
        End::Refused(RefusalReason::Version) if shared.lines.have_room(peer.party) => tracing::warn!(
            "{}: its shim is of another version than this controller, so it is not scheduled: install both from one build",
            peer.describe()
        ),
        end => tracing::debug!("{}: {end:?}", peer.describe()),
    }
    shared.controller.borrow_mut().count_end(
        match end {
            End::Refused(reason) => Some(reason),
            _ => None,
        },
        matches!(end, End::Slow),
    );
    if matches!(end, End::Closed) {
        drop(connection);
        note_departure(&shared, &peer).await;
    }
}

/// Names a process that goes on without its connection. The kernel closes the connection of a process that ends just before
/// that process counts as ended.
async fn note_departure(shared: &Shared, peer: &Peer) {
    // Whether a process has ended is not known of one from outside of this pid namespace.
    if peer.pidfd().is_none() {
        return;
    }
    let has_ended = timeout(DEPARTURE, peer.ended()).await.is_ok();
    if !has_ended && peer.is_alive() && shared.lines.have_room(peer.party) {
        tracing::info!(
            "{} has closed its connection and goes on, so it is not scheduled: it has closed all descriptors, or executed \
             another program; if it still launches, it connects again within a second",
            peer.describe()
        );
    }
}

fn refuse(connection: &Connection, reason: RefusalReason) {
    let refusal = Refusal { kind: PacketKind::Refusal as u32, reason: reason as u32 };
    // A client that does not read this sees the connection end.
    let _ = connection.send(refusal.as_bytes(), &[]);
}

/// Receives a process's first packet, and admits it.
async fn greet(shared: &Shared, connection: &Connection, peer: &Peer) -> Result<Admitted, End> {
    let mut packet = Packet::new();
    let hello = match timeout(PATIENCE, receive(connection, &mut packet)).await {
        Err(_) => return Err(End::Slow),
        Ok(received) => match received? {
            FromShim::Hello(hello) => hello,
            _ => return Err(End::Refused(RefusalReason::Malformed)),
        },
    };
    check_version(&hello)?;
    let shim = find_shim(shared, peer).await;
    directory::learn(shared, peer.uid).await;
    // Its id may belong to another process by now, which must not be replaced by one that has ended.
    if !peer.is_alive() {
        return Err(End::Gone);
    }
    // It may have executed another program, in which its shim was looked for.
    if connection.is_closed() {
        return Err(End::Closed);
    }
    let admitted = shared.with(|controller| controller.admit(peer, &hello, shim)).map_err(End::Refused)?;
    // What was read by its id may also be another process's.
    if !peer.is_alive() {
        shared.with(|controller| controller.leave(admitted.id));
        return Err(End::Gone);
    }
    let sent = {
        let controller = shared.controller.borrow();
        let descriptors = [controller.page_fd()];
        connection.send(admitted.welcome.as_bytes(), &descriptors)
    };
    sent.map_err(|error| {
        shared.with(|controller| controller.leave(admitted.id));
        send_failed(error)
    })?;
    if peer.pid == 0 && !shared.has_strangers.replace(true) {
        tracing::warn!(
            "a process comes from outside of this pid namespace: no `executable` or `cgroup` matches it, and it reports over the \
             socket; run the controller in the host's pid namespace (`hostPID: true`, `--pid=host`)"
        );
    }
    Ok(admitted)
}

/// Looks for a process's shim and has it probed, on separate threads: the time depends on the process and on the
/// kernel, and all other processes would wait. Each party has one search at a time.
async fn find_shim(shared: &Shared, peer: &Peer) -> Option<ProbedShim> {
    let search = shared.controller.borrow().search(peer)?;
    let found = timeout(PATIENCE, async {
        let turn = shared.searches.take(Actor::of(peer)).await;
        // If the waiting task gives up, the thread keeps the turn until it is done.
        let (found, turn) = on_thread(peer, move || (search.run(), turn)).await?;
        let found = found.inspect_err(|error| tracing::debug!("{}: {error}", peer.describe())).ok()?;
        if !shared.controller.borrow_mut().may_probe(peer, found.id()) {
            tracing::debug!("{}: its party uses too many builds of the shim", peer.describe());
            return None;
        }
        let written = shared.written.as_ref().map(AsyncFd::get_ref);
        let (id, watched) = (found.id(), written.zip(found.unprobed()));
        let watched = watched.filter(|(written, file)| written.watch(id, file)).map(|(written, _)| written);
        let (probed, _turn) = on_thread(peer, move || (found.probe(), turn)).await?;
        if watched.is_some_and(|written| !written.watches(id)) {
            let_go(shared, id);
            return None;
        }
        probed.inspect_err(|error| tracing::debug!("{}: {error}", peer.describe())).ok()
    });
    found.await.unwrap_or_else(|_| {
        if shared.lines.have_room(peer.party) {
            tracing::warn!(
                "{}: looking for its shim takes too long: it reports over the socket",
                peer.describe()
            );
        }
        None
    })
}

/// Removes the probe from a shim. Returns the party that it counted for, if it was counted.
pub(super) fn let_go(shared: &Shared, shim: FileId) -> Option<Party> {
    if let Some(written) = &shared.written {
        written.get_ref().forget(shim);
    }
    if let Some(origin) = &shared.origin {
        origin.tell(Order::LetGo(shim));
    }
    shared.controller.borrow_mut().unprobe(shim)
}

/// Waits until probed shims are written, and removes their probes: the probe's breakpoint stands for the old
/// instruction, and processes that load the file would run that.
pub(super) async fn next_written(shared: &Shared) {
    let Some(written) = &shared.written else { return std::future::pending().await };
    // This fails only for a closed epoll; then there are no notifications.
    let Ok(mut ready) = written.readable().await else { return std::future::pending().await };
    ready.clear_ready();
    for shim in written.get_ref().take() {
        let brought_by = let_go(shared, shim);
        if shared.lines.have_room(brought_by.unwrap_or(Party::User(0))) {
            tracing::warn!(
                "a shim in use is being overwritten (inode {}): processes that have it loaded may crash; install it with \
                 `install` or `mv`, which keep the old file for them",
                shim.inode
            );
        }
    }
}

/// Runs `work` for a process on a separate thread; none if no thread could be started.
pub(super) async fn on_thread<T: Send + 'static>(
    peer: &Peer,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = oneshot::channel();
    let thread = std::thread::Builder::new().name("xsched-reader".to_owned()).spawn(move || {
        // The task may have stopped waiting.
        let _ = tell.send(work());
    });
    thread
        .inspect_err(|error| {
            tracing::warn!("{}: cannot start a thread to read its files: {error}", peer.describe());
        })
        .ok()?;
    told.await.ok()
}

fn check_version(hello: &Hello) -> Result<(), End> {
    let own = (xsched_protocol::wire::WIRE_VERSION, xsched_protocol::arbiter_page::PAGE_VERSION);
    if (hello.version, hello.page_version) == own {
        Ok(())
    } else {
        Err(End::Refused(RefusalReason::Version))
    }
}

/// Handles a process's packets until it ends.
async fn attend(shared: &Shared, connection: &Connection, peer: &Peer, id: ClientId) -> End {
    let mut packet = Packet::new();
    let (mut turn, mut has_told) = (0, false);
    loop {
        let recording_changed = shared.recording.notified();
        if let Err(end) = send_recording_state(shared, connection, id).await {
            return end;
        }
        let result = tokio::select! {
            said = receive(connection, &mut packet) => match said {
                Ok(said) => {
                    turn += weight(&said);
                    has_told |= matches!(said, FromShim::Domain(_) | FromShim::KernelName(_));
                    take(shared, connection, peer, id, &said, &mut packet).await
                }
                Err(end) => Err(end),
            },
            () = recording_changed => continue,
        };
        if let Err(end) = result {
            return end;
        }
        if turn >= TURN {
            turn = 0;
            if std::mem::take(&mut has_told) {
                verdicts::heard(shared).await;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// How many ordinary packets this one counts for. Opening a claim looks at the page and all claims, and so do hints, which may
/// change all levels. A domain causes all verdicts of its process to be made again.
fn weight(said: &FromShim) -> u32 {
    if matches!(said, FromShim::OpenClaim(_) | FromShim::Hints(_) | FromShim::Domain(_)) { TURN } else { 1 }
}

/// Gives a process a ring when a recording starts, and notifies it when none is left.
async fn send_recording_state(shared: &Shared, connection: &Connection, id: ClientId) -> Result<(), End> {
    let told = shared.controller.borrow_mut().events_for(id);
    let Some(Told { events, ring, is_announced }) = told else { return Ok(()) };
    if let Some(is_announced) = is_announced {
        // A recorder that does not confirm in time misses calls, and counts them; the process must not wait for it.
        let _ = timeout(RECORDER_PATIENCE, is_announced).await;
    }
    let descriptors: Vec<_> = ring.iter().map(|memory| memory.as_fd()).collect();
    connection.send(events.as_bytes(), &descriptors).map_err(send_failed)
}

async fn take(
    shared: &Shared,
    connection: &Connection,
    peer: &Peer,
    id: ClientId,
    said: &FromShim,
    packet: &mut Packet,
) -> Result<(), End> {
    match said {
        FromShim::Hello(_) => return Err(End::Refused(RefusalReason::Malformed)),
        FromShim::OpenClaim(wanted) => {
            wait_until_joined(shared, connection, peer, id).await;
            let Answered { opened, descriptors, no_gate } =
                shared.with(|controller| controller.open(id, wanted)).map_err(End::Refused)?;
            if let Some(error) = &no_gate
                && shared.lines.have_room(peer.party)
            {
                tracing::warn!("{}: no gate page, so it controls its gate itself: {error}", peer.describe());
            }
            // The process has them now; the controller does not need them.
            let descriptors: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
            connection.send(opened.as_bytes(), &descriptors).map_err(send_failed)?;
        }
        FromShim::Reported(report) => shared.with(|controller| controller.report(id, report)),
        FromShim::Usage(usage) => shared.with(|controller| controller.usage(id, usage)),
        FromShim::OriginName(said) => shared.controller.borrow_mut().name_origin(id, said),
        FromShim::OriginUsage(said) => shared.controller.borrow_mut().divide(id, said),
        FromShim::Domain(said) => verdicts::domain(shared, id, said),
        FromShim::KernelName(said) => verdicts::kernel(shared, id, said),
        FromShim::Hints(said) => {
            // Each change ranks a device's claims again, so a user makes one at a time, as by commands.
            let turn = shared.orders.take(Actor::of(peer)).await;
            shared.with(|controller| controller.rehint(id, said));
            tokio::task::yield_now().await;
            drop(turn);
        }
        FromShim::Settings(_) => verdicts::settings(shared, connection, peer, id, packet)
            .await
            .map_err(|_| End::Refused(RefusalReason::Malformed))?,
    }
    Ok(())
}

/// Waits for a process to show its token; after `JOIN_PATIENCE` the controller reports for it.
async fn wait_until_joined(shared: &Shared, connection: &Connection, peer: &Peer, id: ClientId) {
    if !shared.has_joined(id, JOIN_PATIENCE).await
        && !connection.is_closed()
        && shared.with(|controller| controller.speak_for(id))
        && shared.lines.have_room(peer.party)
    {
        tracing::warn!(
            "{} did not report its token through the probe: it reports over the socket",
            peer.describe()
        );
    }
}

async fn receive(connection: &Connection, packet: &mut Packet) -> Result<FromShim, End> {
    connection.receive(packet).await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => End::Closed,
        io::ErrorKind::InvalidData => End::Refused(RefusalReason::Malformed),
        _ => End::Failed(error),
    })?;
    if packet.bytes().is_empty() {
        return Err(End::Closed);
    }
    FromShim::parse_beginning(packet.bytes(), packet.len()).map_err(|malformed| {
        tracing::debug!("refused: {malformed}");
        End::Refused(match malformed {
            Malformed::Version(_) => RefusalReason::Version,
            _ => RefusalReason::Malformed,
        })
    })
}

fn send_failed(error: io::Error) -> End {
    match error.kind() {
        io::ErrorKind::WouldBlock => End::Slow,
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => End::Closed,
        _ => End::Failed(error),
    }
}
