//! A hostile peer: a process that sends random messages to the controller.

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

use crate::mutation::MessageGenerator;
use crate::{Killed, Result};

const CONTROL_SOCKET: &str = "control.sock";

/// Limit of messages sent before waiting until the controller has processed them.
const UNANSWERED_MAX: usize = 32;
/// Average number of such batches after which it sends an order to the control socket, and after which it
/// disconnects.
const ORDER_EVERY: u32 = 4;
const STAYS: u32 = 30;
/// Time limit for the controller to read from its sockets, and to answer.
const TIMEOUT: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// Messages sent, and the controller's reactions.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Processed by the controller, as an answer has shown.
    pub(crate) messages: u64,
    pub(crate) orders: u64,
    pub(crate) connections: u64,
    pub(crate) disconnections: u64,
    pub(crate) opened: u64,
}

impl Tally {
    /// The tally that such a process prints at its end.
    pub(crate) fn of(mut child: Killed) -> Result<Self> {
        let mut output = String::new();
        child.0.stdout.take().ok_or("the hostile peer has no pipe")?.read_to_string(&mut output)?;
        let status = child.0.wait()?;
        if !status.success() {
            return Err(format!("a hostile peer ended with {status}: {output}").into());
        }
        Ok(serde_json::from_str(&output)?)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.orders += other.orders;
        self.connections += other.connections;
        self.disconnections += other.disconnections;
        self.opened += other.opened;
    }
}

pub(crate) fn main(folder: &Path, seed: &str, messages: &str) -> Result<()> {
    let mut hostile = Hostile {
        folder,
        generator: MessageGenerator::new(seed.parse()?),
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

/// Processes that may have joined: all on the machine.
fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Descriptors sent with some packets: an unsealed memory file that contains rules, and a descriptor that is
/// not a file.
fn given() -> Result<[OwnedFd; 2]> {
    let rules = memfd_create("rules", MemfdFlags::CLOEXEC)?;
    rustix::io::write(&rules, b"[[rule]]\nlibrary = '*'\naction = 'never-suspend'\n")?;
    Ok([rules, fs::File::open("/dev/null")?.into()])
}

struct Hostile<'a> {
    folder: &'a Path,
    generator: MessageGenerator,
    others: Vec<u32>,
    given: [OwnedFd; 2],
    tally: Tally,
    questions: u32,
}

impl Hostile<'_> {
    /// Connects, and sends messages until it is disconnected, leaves at random, or has sent enough.
    fn stay(&mut self, messages: u64) -> Result<()> {
        let socket = connected(&self.folder.join(SHIM_SOCKET), SocketType::SEQPACKET)?;
        self.tally.connections += 1;
        let hello = self.generator.hello();
        let mut is_connected = self.send(&socket, &hello)?;
        while is_connected && self.tally.messages < messages && !self.generator.one_in(STAYS) {
            if self.generator.one_in(ORDER_EVERY) {
                self.order()?;
            }
            let count = 1 + self.generator.below(UNANSWERED_MAX);
            for _ in 0..count {
                let packet = self.generator.packet();
                is_connected = is_connected && self.send(&socket, &packet)?;
            }
            is_connected = is_connected && self.wait_until_processed(&socket)?;
            if is_connected {
                self.tally.messages += count as u64 + 1;
            }
        }
        self.tally.disconnections += u64::from(!is_connected);
        Ok(())
    }

    /// Waits until all sent messages are processed. False if the controller closed the connection first.
    fn wait_until_processed(&mut self, socket: &OwnedFd) -> Result<bool> {
        self.questions = self.questions.wrapping_add(1);
        if !self.send(socket, &MessageGenerator::question(self.questions))? {
            return Ok(false);
        }
        loop {
            let mut polled = [PollFd::new(socket, PollFlags::IN)];
            if poll(&mut polled, Some(&TIMEOUT))? == 0 {
                return Err("the controller does not answer".into());
            }
            let mut packet = [0; PACKET_LEN_MAX];
            // The kernel drops descriptors that come with the packet, because no buffer is given for them.
            let Ok((len @ 1.., _)) = recv(socket, &mut packet, RecvFlags::DONTWAIT) else { return Ok(false) };
            if let Ok(FromController::Opened(opened)) = FromController::parse(&packet[..len]) {
                self.generator.learn(&opened);
                self.tally.opened += 1;
                if opened.request == self.questions {
                    return Ok(true);
                }
            }
        }
    }

    /// False if the controller closed the connection.
    fn send(&mut self, socket: &OwnedFd, packet: &[u8]) -> Result<bool> {
        let mut with_descriptors = self.generator.one_in(40);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let given: Vec<BorrowedFd<'_>> = self.given.iter().map(|given| given.as_fd()).collect();
        let given = &given[..=self.generator.below(given.len())];
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
                    if poll(&mut polled, Some(&TIMEOUT))? == 0 {
                        return Err("the controller does not read".into());
                    }
                }
                // From Linux 6.16 on the kernel refuses descriptors to the controller; before, the controller disconnects.
                Err(Errno::PERM) if with_descriptors => with_descriptors = false,
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends an order; it may not wait for the answer.
    fn order(&mut self) -> Result<()> {
        let mut socket = UnixStream::connect(self.folder.join(CONTROL_SOCKET))?;
        socket.set_read_timeout(Some(Duration::from_secs(30)))?;
        for _ in 0..=self.generator.below(3) {
            let order = self.generator.order(&self.others);
            self.tally.messages += 1;
            self.tally.orders += 1;
            // The controller disconnects senders of invalid orders soon.
            if socket.write_all(&order).is_err() || self.generator.one_in(4) {
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
