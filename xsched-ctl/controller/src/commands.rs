//! One task for each connected command: reads its requests and answers them.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, recv};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, Interest,
    ReadBuf,
};
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
use super::foreign;
use super::room::{NotTaken, Occupant, Room, Shortage};
use crate::origin::Order;
use crate::shared::Shared;

pub(super) async fn accept(shared: Rc<Shared>, listener: UnixListener) {
    let (room, mut shortage) = (Room::new(), Shortage::default());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match room.take_in(&stream) {
                Ok((peer, occupant)) => {
                    let stream = Stream { stream: Some(stream), occupant: Some(occupant) };
                    tokio::task::spawn_local(serve(Rc::clone(&shared), stream, peer));
                }
                Err(NotTaken::Gone) => drop(Stream { stream: Some(stream), occupant: None }),
                Err(NotTaken::Full) => {
                    // A client that does not read this sees the connection end.
                    let _ = as_line(&too_many_connections()).and_then(|line| stream.try_write(&line));
                    drop(Stream { stream: Some(stream), occupant: None });
                    shared.controller.borrow_mut().count_end(Some(RefusalReason::Full), false);
                }
            },
            Err(error) => shortage.pass("another command", &error).await,
        }
    }
}

/// The connection of one command, from which no descriptors are taken: see `foreign.rs`.
struct Stream {
    /// There until it is dropped.
    stream: Option<UnixStream>,
    /// Counted until it is closed.
    occupant: Option<Occupant>,
}

impl Stream {
    fn stream(&self) -> &UnixStream {
        self.stream.as_ref().expect("only `drop` takes it")
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream().poll_read_ready(context))?;
            let room = buffer.initialize_unfilled();
            let read = self.stream().try_io(Interest::READABLE, || {
                let len = foreign::peek(self.stream(), room)?;
                // What was looked at, and not what has come since.
                Ok(recv(self.stream(), &mut room[..len], RecvFlags::DONTWAIT)?.1)
            });
            match read {
                Ok(len) => buffer.advance(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Poll::Ready(Err(error)),
            }
            return Poll::Ready(Ok(()));
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.stream.as_mut().expect("only `drop` takes it")).poll_write(context, bytes)
    }

    /// Nothing is kept.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// It is closed when it is dropped.
    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // This fails only if the runtime does not know it, which has made it.
        let socket = self.stream.take().and_then(|stream| stream.into_std().ok());
        let closing = socket.and_then(|socket| foreign::close(socket.into()));
        Occupant::leave(self.occupant.take(), closing);
    }
}

async fn serve(shared: Rc<Shared>, stream: Stream, peer: Peer) {
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
    stream: Stream,
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

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read as _, Write as _};
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd as _;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    /// The kernel does not refuse them on a pair of sockets.
    #[tokio::test]
    async fn a_request_is_read_and_one_with_descriptors_is_not() {
        let (mut client, stream) = std::os::unix::net::UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = UnixStream::from_std(stream).unwrap();
        let mut stream = Stream { stream: Some(stream), occupant: None };
        client.write_all(b"request").unwrap();
        let mut bytes = [0; 7];
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"request");
        stream.write_all(b"answer").await.unwrap();
        client.read_exact(&mut bytes[..6]).unwrap();
        assert_eq!(&bytes[..6], b"answer");

        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [reader.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&client, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        drop(reader);
        let read = stream.read(&mut bytes).await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(rustix::io::write(&writer, b"x").is_ok(), "the socket has the only reference");
    }
}
