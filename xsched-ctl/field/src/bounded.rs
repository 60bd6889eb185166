//! What is kept of a child's output: a child may write for ever, and the kit's memory does not grow.

use std::collections::VecDeque;

/// The beginning of a stream.
#[derive(Debug)]
pub(crate) struct Head {
    bytes: Vec<u8>,
    limit: usize,
    /// All that came.
    total: u64,
}

impl Head {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, total: 0 }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.limit - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// The end of a stream.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
    limit: usize,
    total: u64,
}

impl Tail {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit, total: 0 }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let new = &bytes[bytes.len().saturating_sub(self.limit)..];
        let excess = (self.bytes.len() + new.len()).saturating_sub(self.limit);
        self.bytes.drain(..excess);
        self.bytes.extend(new);
    }

    /// Its text, with a note about what is left out.
    pub(crate) fn text(&self) -> String {
        let (first, second) = self.bytes.as_slices();
        let text = String::from_utf8_lossy(&[first, second].concat()).into_owned();
        match self.total - self.bytes.len() as u64 {
            0 => text,
            left_out => format!("({left_out} bytes before this are left out)\n{text}"),
        }
    }
}

/// Cuts a stream into lines. What is longer than a line may be is left out to its end.
#[derive(Debug)]
pub(crate) struct Lines {
    begun: Vec<u8>,
    limit: usize,
    is_too_long: bool,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Self { begun: Vec::new(), limit, is_too_long: false }
    }

    /// Gives each line that these bytes end to `each`.
    pub(crate) fn add(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (content, is_end) = part.strip_suffix(b"\n").map_or((part, false), |content| (content, true));
            if self.begun.len() + content.len() > self.limit {
                self.is_too_long = true;
                self.begun.clear();
            }
            if !self.is_too_long {
                self.begun.extend_from_slice(content);
            }
            if is_end {
                if !self.is_too_long {
                    each(&String::from_utf8_lossy(&self.begun));
                }
                self.begun.clear();
                self.is_too_long = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_keeps_the_beginning_and_a_tail_the_end() {
        let (mut head, mut tail) = (Head::new(5), Tail::new(5));
        for bytes in [b"abc".as_slice(), b"de", b"fg", b""] {
            head.add(bytes);
            tail.add(bytes);
        }
        assert_eq!((head.text(), head.total), ("abcde".to_owned(), 7));
        assert_eq!(tail.text(), "(2 bytes before this are left out)\ncdefg");
        tail.add(b"0123456789");
        assert_eq!(tail.text(), "(12 bytes before this are left out)\n56789");
    }

    #[test]
    fn memory_does_not_grow_with_a_flood() {
        let (mut head, mut tail, mut lines) = (Head::new(100), Tail::new(100), Lines::new(100));
        let block = vec![b'x'; 1 << 16];
        for _ in 0..1000 {
            head.add(&block);
            tail.add(&block);
            lines.add(&block, |line| panic!("a line of {} bytes", line.len()));
        }
        assert!(
            head.bytes.capacity() <= 200 && tail.bytes.capacity() <= 400 && lines.begun.capacity() <= 200
        );
    }

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let text = b"one\ntwo longer\n\nthis line is too long\nfour\nrest";
        for size in 1..=text.len() {
            let (mut lines, mut found) = (Lines::new(12), Vec::new());
            for piece in text.chunks(size) {
                lines.add(piece, |line| found.push(line.to_owned()));
            }
            assert_eq!(found, ["one", "two longer", "", "four"], "in pieces of {size}");
        }
    }
}
