//! One task for each connected command: reads its requests and answers them.

use std::io::{self, Write as _};
use std::rc::Rc;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;
use xsched_control_api::{
    answer::{Answer, Explained, Reason},
    peer::{PATIENCE, Peer},
    request::{REQUEST_LEN_MAX, Request},
};
use xsched_protocol::wire::RefusalReason;

use super::controller::{Actor, Attendance};
use super::directory;
use super::room::{NotTaken, Occupant, Room, Shortage};
use crate::origin::Order;
use crate::shared::Shared;

pub(super) async fn accept(shared: Rc<Shared>, listener: UnixListener) {
    let (room, mut shortage) = (Room::new(), Shortage::default());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match room.take_in(&stream) {
                Ok((peer, occupant)) => {
                    tokio::task::spawn_local(serve(Rc::clone(&shared), stream, peer, occupant));
                }
                Err(NotTaken::Gone) => {}
                Err(NotTaken::Full) => {
                    // A client that does not read this sees the connection end.
                    let _ = stream
                        .into_std()
                        .and_then(|mut stream| stream.write_all(&as_line(&too_many_connections())?));
                    shared.controller.borrow_mut().count_end(Some(RefusalReason::Full), false);
                }
            },
            Err(error) => shortage.pass("another command", &error).await,
        }
    }
}

async fn serve(shared: Rc<Shared>, stream: UnixStream, peer: Peer, _occupant: Occupant) {
    let actor = Actor::of(&peer);
    let mut attendance = Attendance::default();
    let end = serve_requests(&shared, stream, actor, &mut attendance).await;
    shared.with(|controller| controller.part(&attendance));
    if let Err(error) = end {
        tracing::debug!("{}: {error}", peer.describe());
    }
}

async fn serve_requests(
    shared: &Shared,
    stream: UnixStream,
    actor: Actor,
    attendance: &mut Attendance,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let read = (&mut stream).take(REQUEST_LEN_MAX as u64).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(());
        }
        let is_whole = line.ends_with(b"\n");
        let request = serde_json::from_slice::<Request>(&line);
        if matches!(request, Ok(Request::Run { .. })) {
            // A ceiling may apply to its user's name.
            directory::learn(shared, actor.uid).await;
        }
        // Privileged users do not wait.
        let turn = if actor.is_privileged() { None } else { Some(shared.orders.take(actor).await) };
        let answer = match request {
            Ok(request) if is_whole => answer(shared, actor, request, attendance, turn.is_some()).await,
            Ok(_) => malformed("a request ends with a line feed"),
            Err(error) => malformed(&error.to_string()),
        };
        // An answer may be long, and a client may ask again and again: let other tasks run before the next one is made.
        tokio::task::yield_now().await;
        // A client that does not read its answer in time is disconnected.
        timeout(PATIENCE, stream.write_all(&as_line(&answer)?)).await??;
        drop(turn);
        if matches!(answer, Answer::Refused { reason: Reason::Malformed, .. }) {
            return Ok(());
        }
    }
}

/// Answers a request. If `takes_turns`, log lines are limited too.
async fn answer(
    shared: &Shared,
    actor: Actor,
    request: Request,
    attendance: &mut Attendance,
    takes_turns: bool,
) -> Answer {
    let explained = if let Request::Explain { pid } = request { Some(pid) } else { None };
    let is_change = request.is_change();
    let answer = shared.with(|controller| controller.order(actor, request, attendance));
    if takes_turns && (is_change || matches!(answer, Answer::Refused { .. })) {
        shared.lines.pay(actor.party).await;
    }
    match (explained, answer) {
        (Some(pid), Answer::Run { .. }) => explain(shared, pid).await,
        (_, answer) => answer,
    }
}

fn as_line(answer: &Answer) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    Ok(text)
}

fn too_many_connections() -> Answer {
    let message = "this user has too many connections to the controller";
    Answer::Refused { reason: Reason::Full, message: message.to_owned() }
}

async fn explain(shared: &Shared, pid: u32) -> Answer {
    let refuse = |reason, message: &str| Answer::Refused { reason, message: message.to_owned() };
    let Some(origin) = &shared.origin else {
        return refuse(
            Reason::Unavailable,
            "this controller has no BPF programs that see calls: processes decide themselves, by the immediate caller",
        );
    };
    let (reply, answer) = tokio::sync::oneshot::channel();
    origin.tell(Order::Explain(pid, reply));
    match answer.await {
        Ok(Some(explained)) => {
            let file = shared.rules.borrow().path.as_ref().map(|path| path.display().to_string());
            Answer::Explained(Explained { file, ..explained })
        }
        Ok(None) => refuse(
            Reason::Unavailable,
            "no BPF program sees this process: it decides about its calls itself, by the immediate caller",
        ),
        Err(_) => refuse(Reason::Failed, "the thread that decides about calls has ended"),
    }
}

fn malformed(message: &str) -> Answer {
    Answer::Refused { reason: Reason::Malformed, message: format!("malformed request: {message}") }
}
