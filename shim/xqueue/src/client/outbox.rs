//! Packets that a full socket has not taken yet. The controller must get them, or it goes on with what it was told before: an old
//! priority, or a library's rules without the library's name.
//!
//! The thread that has something to say leaves it here and goes on. The watcher sends it when the socket takes data again. What
//! is replaced by something newer, such as a hint by the next one, is not sent any more.

use std::collections::VecDeque;

use rustix::io::Errno;

/// Most bytes that are kept, about 16,000 packets with names. Beyond that the controller has not read for so long that it is
/// lost for this process.
const BYTES_MAX: usize = 16 << 20;

/// A packet, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owed {
    /// A newer packet about the same replaces it. None: it is about something of its own.
    pub(super) about: Option<About>,
    pub(super) packet: Vec<u8>,
}

/// What a packet is about, if only the newest of several counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// What the program asks for.
    Hints,
    /// Whether the queue in this slot has work.
    Work(u32),
}

/// Packets in the order in which they are sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    owed: VecDeque<Owed>,
    bytes: usize,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// Sends a packet behind all others, now or later.
    ///
    /// # Errors
    /// It will not be sent: the connection has ended, or there is too much before it.
    pub(super) fn post(
        &mut self,
        owed: Owed,
        send: impl Fn(&Owed) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if self.owed.is_empty() {
            match send(&owed) {
                Err(error) if is_full(error) => {}
                sent => return sent,
            }
        }
        let former = self.owed.iter().position(|other| owed.about.is_some() && other.about == owed.about);
        let former = former.and_then(|index| self.owed.get_mut(index));
        let bytes = self.bytes - former.as_deref().map_or(0, Owed::len) + owed.len();
        if bytes > BYTES_MAX {
            return Err(Errno::NOBUFS);
        }
        self.bytes = bytes;
        match former {
            Some(former) => *former = owed,
            None => self.owed.push_back(owed),
        }
        Ok(())
    }

    /// Sends the first packet. Returns whether there may be room for the next one.
    pub(super) fn send_one(&mut self, send: impl Fn(&Owed) -> Result<(), Errno>) -> bool {
        let Some(first) = self.owed.front() else { return false };
        if send(first).is_err_and(is_full) {
            return false;
        }
        // After another failure the connection has ended.
        self.bytes -= first.len();
        self.owed.pop_front();
        true
    }
}

impl Owed {
    fn len(&self) -> usize {
        self.packet.len()
    }
}

/// The socket takes no more for now.
fn is_full(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::NOBUFS)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A socket with room for some packets.
    #[derive(Default)]
    struct Socket {
        room: Cell<usize>,
        sent: RefCell<Vec<Vec<u8>>>,
    }

    impl Socket {
        fn send(&self, owed: &Owed) -> Result<(), Errno> {
            self.room.set(self.room.get().checked_sub(1).ok_or(Errno::AGAIN)?);
            self.sent.borrow_mut().push(owed.packet.clone());
            Ok(())
        }
    }

    fn owed(about: Option<About>, packet: &[u8]) -> Owed {
        Owed { about, packet: packet.to_vec() }
    }

    #[test]
    fn what_a_full_socket_refuses_comes_later_in_order_and_only_the_newest_of_its_kind() {
        let (socket, mut outbox) = (Socket::default(), Outbox::default());
        socket.room.set(1);
        let hints = Some(About::Hints);
        let packets: [(_, &[u8]); 8] = [
            (hints, b"at once"),
            (hints, b"old"),
            (None, b"name 1"),
            (Some(About::Work(1)), b"1 ready"),
            (Some(About::Work(2)), b"2 ready"),
            (Some(About::Work(1)), b"1 idle"),
            (hints, b"new"),
            (None, b"name 2"),
        ];
        for (about, packet) in packets {
            outbox.post(owed(about, packet), |owed| socket.send(owed)).unwrap();
        }
        socket.room.set(2);
        while outbox.send_one(|owed| socket.send(owed)) {}
        assert!(!outbox.is_empty());
        socket.room.set(100);
        outbox.post(owed(hints, b"newest"), |owed| socket.send(owed)).unwrap();
        while outbox.send_one(|owed| socket.send(owed)) {}
        let sent = socket.sent.take();
        let sent: Vec<_> = sent.iter().map(|packet| str::from_utf8(packet).unwrap()).collect();
        assert_eq!(sent, ["at once", "new", "name 1", "1 idle", "2 ready", "name 2", "newest"]);
        assert_eq!((outbox.is_empty(), outbox.bytes), (true, 0));
    }

    #[test]
    fn it_keeps_no_more_than_its_bound_and_nothing_for_a_connection_that_has_ended() {
        let (full, ended) = (|_: &Owed| Err(Errno::AGAIN), |_: &Owed| Err(Errno::PIPE));
        let mut outbox = Outbox::default();
        let large = owed(None, &vec![0; BYTES_MAX / 4]);
        let kept = (0..9).take_while(|_| outbox.post(large.clone(), full).is_ok()).count();
        assert_eq!(kept, 4);
        assert_eq!(outbox.post(owed(Some(About::Hints), b"too much"), full), Err(Errno::NOBUFS));
        while outbox.send_one(ended) {}
        assert_eq!(outbox.post(large, ended), Err(Errno::PIPE));
        assert_eq!((outbox.is_empty(), outbox.bytes), (true, 0));
    }
}
