//! Reads, and takes off the compression of, what is wanted next, while what came before is looked at.

use std::{
    io::{self, Read},
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
};

/// What is handed over at once, and how many of these may wait.
const CHUNK_LEN: usize = 1 << 20;
const CHUNKS_MAX: usize = 8;

type Chunk = io::Result<Vec<u8>>;

/// The other end of a thread that reads.
pub(super) struct ReadAhead {
    chunks: Receiver<Chunk>,
    /// Chunks to be filled again.
    used: SyncSender<Vec<u8>>,
    chunk: Vec<u8>,
    /// How much of it has been taken.
    taken: usize,
}

impl ReadAhead {
    /// Lets `input` be read by a thread of its own for as long as `work` lasts.
    pub(super) fn while_reading<T>(input: &mut (impl Read + Send), work: impl FnOnce(Self) -> T) -> T {
        thread::scope(|scope| {
            let (sender, chunks) = mpsc::sync_channel(CHUNKS_MAX);
            let (used, again) = mpsc::sync_channel(CHUNKS_MAX);
            scope.spawn(move || send(input, &sender, &again));
            // The thread ends with the input, or when nobody takes chunks any more.
            work(Self { chunks, used, chunk: Vec::new(), taken: 0 })
        })
    }
}

fn send(input: &mut impl Read, chunks: &SyncSender<Chunk>, again: &Receiver<Vec<u8>>) {
    loop {
        let mut chunk = again.try_recv().unwrap_or_default();
        chunk.clear();
        let read = input.take(CHUNK_LEN as u64).read_to_end(&mut chunk);
        let is_end = !matches!(read, Ok(CHUNK_LEN));
        // What was read before an error counts.
        let is_gone = !chunk.is_empty() && chunks.send(Ok(chunk)).is_err();
        if let Err(error) = read {
            // Whoever does not take it has stopped before.
            let _ = chunks.send(Err(error));
        }
        if is_end || is_gone {
            return;
        }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.chunk.len() {
            let Ok(next) = self.chunks.recv() else { return Ok(0) };
            // If there is no room for it, or the other end is gone, it is not needed.
            let _ = self.used.try_send(std::mem::replace(&mut self.chunk, next?));
            self.taken = 0;
        }
        let read = (&self.chunk[self.taken..]).read(buffer)?;
        self.taken += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut input: impl Read + Send) -> (Vec<u8>, io::Result<()>) {
        ReadAhead::while_reading(&mut input, |mut ahead| {
            let mut bytes = Vec::new();
            let outcome = ahead.read_to_end(&mut bytes).map(drop);
            (bytes, outcome)
        })
    }

    #[test]
    fn all_of_it_comes_in_order() {
        for len in [0, 1, CHUNK_LEN - 1, CHUNK_LEN, CHUNK_LEN + 1, 20 * CHUNK_LEN + 7] {
            let input: Vec<u8> = (0..len).map(|place| (place % 251) as u8).collect();
            let (bytes, outcome) = read(&*input);
            assert!(outcome.is_ok() && bytes == input, "{len}");
        }
    }

    /// Gives some bytes, then fails.
    struct Failing(usize);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.0.min(buffer.len());
            self.0 -= len;
            if len == 0 { Err(io::Error::other("bad sector")) } else { Ok(len) }
        }
    }

    #[test]
    fn an_error_comes_behind_what_was_read() {
        let (bytes, outcome) = read(Failing(CHUNK_LEN + 5));
        assert_eq!((bytes.len(), outcome.unwrap_err().to_string()), (CHUNK_LEN + 5, "bad sector".to_owned()));
    }

    #[test]
    fn who_stops_early_does_not_wait_for_the_rest() {
        let first = ReadAhead::while_reading(&mut io::repeat(7), |mut ahead| {
            let mut first = [0; 4];
            ahead.read_exact(&mut first).map(|()| first)
        });
        assert_eq!(first.unwrap(), [7; 4]);
    }
}
