//! A process that says whatever comes to its mind to the controller.

use std::fs;
use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType, recv, send, sendmsg,
};
use serde::{Deserialize, Serialize};
use xsched_protocol::wire::{FromController, PACKET_LEN_MAX, SHIM_SOCKET};
use xsched_tests::peer::connected;

use crate::mutation::Mouth;
use crate::{Killed, Result};

const CONTROL_SOCKET: &str = "control.sock";

/// What is said before it is waited for the controller to have heard it, at most.
const BREATH: usize = 32;
/// After so many of these it orders something by the control socket, on average, and after so many it goes.
const ORDER_EVERY: u32 = 4;
const STAYS: u32 = 30;
/// How long the controller may take to make room in its sockets, and to answer.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// What was said and what came of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Heard by the controller, as it has shown by an answer.
    pub(crate) messages: u64,
    pub(crate) orders: u64,
    pub(crate) connections: u64,
    pub(crate) thrown_out: u64,
    pub(crate) opened: u64,
}

impl Tally {
    /// What such a process says at its end.
    pub(crate) fn of(mut child: Killed) -> Result<Self> {
        let mut said = String::new();
        child.0.stdout.take().ok_or("it has no pipe")?.read_to_string(&mut said)?;
        let status = child.0.wait()?;
        if !status.success() {
            return Err(format!("a hostile peer ended with {status}: {said}").into());
        }
        Ok(serde_json::from_str(&said)?)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.orders += other.orders;
        self.connections += other.connections;
        self.thrown_out += other.thrown_out;
        self.opened += other.opened;
    }
}

pub(crate) fn main(folder: &Path, seed: &str, messages: &str) -> Result<()> {
    let mut hostile = Hostile {
        folder,
        mouth: Mouth::new(seed.parse()?),
        others: processes(),
        given: given()?,
        tally: Tally::default(),
        questions: 0,
    };
    let messages: u64 = messages.parse()?;
    while hostile.tally.messages < messages {
        hostile.stay(messages)?;
    }
    println!("{}", serde_json::to_string(&hostile.tally)?);
    Ok(())
}

/// Processes that may have joined: all that there are.
fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Descriptors that go with some packets: a file of memory that is not sealed, with rules in it, and something that is no file.
fn given() -> Result<[OwnedFd; 2]> {
    let rules = memfd_create("rules", MemfdFlags::CLOEXEC)?;
    rustix::io::write(&rules, b"[[rule]]\nlibrary = '*'\naction = 'never-suspend'\n")?;
    Ok([rules, fs::File::open("/dev/null")?.into()])
}

struct Hostile<'a> {
    folder: &'a Path,
    mouth: Mouth,
    others: Vec<u32>,
    given: [OwnedFd; 2],
    tally: Tally,
    questions: u32,
}

impl Hostile<'_> {
    /// Connects, and talks until it is thrown out, has enough, or has been heard often enough.
    fn stay(&mut self, messages: u64) -> Result<()> {
        let socket = connected(&self.folder.join(SHIM_SOCKET), SocketType::SEQPACKET)?;
        self.tally.connections += 1;
        let hello = self.mouth.hello();
        let mut is_heard = self.say(&socket, &hello)?;
        while is_heard && self.tally.messages < messages && !self.mouth.happens(STAYS) {
            if self.mouth.happens(ORDER_EVERY) {
                self.order()?;
            }
            let said = 1 + self.mouth.below(BREATH);
            for _ in 0..said {
                let packet = self.mouth.packet();
                is_heard = is_heard && self.say(&socket, &packet)?;
            }
            is_heard = is_heard && self.ask(&socket)?;
            if is_heard {
                self.tally.messages += said as u64 + 1;
            }
        }
        self.tally.thrown_out += u64::from(!is_heard);
        Ok(())
    }

    /// Waits until all was heard that was said. False: the controller has ended the connection before.
    fn ask(&mut self, socket: &OwnedFd) -> Result<bool> {
        self.questions = self.questions.wrapping_add(1);
        if !self.say(socket, &Mouth::question(self.questions))? {
            return Ok(false);
        }
        loop {
            let mut polled = [PollFd::new(socket, PollFlags::IN)];
            if poll(&mut polled, Some(&PATIENCE))? == 0 {
                return Err("the controller does not answer".into());
            }
            let mut packet = [0; PACKET_LEN_MAX];
            // Descriptors that come with it are dropped by the kernel: there is no room for them.
            let Ok((len @ 1.., _)) = recv(socket, &mut packet, RecvFlags::DONTWAIT) else { return Ok(false) };
            if let Ok(FromController::Opened(opened)) = FromController::parse(&packet[..len]) {
                self.mouth.learn(&opened);
                self.tally.opened += 1;
                if opened.request == self.questions {
                    return Ok(true);
                }
            }
        }
    }

    /// False: the controller has ended the connection.
    fn say(&mut self, socket: &OwnedFd, packet: &[u8]) -> Result<bool> {
        let with_descriptors = self.mouth.happens(40);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let given: Vec<BorrowedFd<'_>> = self.given.iter().map(|given| given.as_fd()).collect();
        let given = &given[..=self.mouth.below(given.len())];
        loop {
            let sent = if with_descriptors {
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                ancillary.push(SendAncillaryMessage::ScmRights(given));
                sendmsg(
                    socket,
                    &[IoSlice::new(packet)],
                    &mut ancillary,
                    SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
                )
            } else {
                send(socket, packet, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
            };
            match sent {
                Ok(_) => return Ok(true),
                Err(Errno::AGAIN) => {
                    let mut polled = [PollFd::new(socket, PollFlags::OUT)];
                    if poll(&mut polled, Some(&PATIENCE))? == 0 {
                        return Err("the controller does not read".into());
                    }
                }
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Orders something, and may not wait for the answer.
    fn order(&mut self) -> Result<()> {
        let mut socket = UnixStream::connect(self.folder.join(CONTROL_SOCKET))?;
        socket.set_read_timeout(Some(Duration::from_secs(30)))?;
        for _ in 0..=self.mouth.below(3) {
            let order = self.mouth.order(&self.others);
            self.tally.messages += 1;
            self.tally.orders += 1;
            // Whoever talks nonsense is not heard for long.
            if socket.write_all(&order).is_err() || self.mouth.happens(4) {
                return Ok(());
            }
            let mut answer = [0; 4096];
            if socket.read(&mut answer).is_ok_and(|len| len == 0) {
                return Ok(());
            }
        }
        Ok(())
    }
}
