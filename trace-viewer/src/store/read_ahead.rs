//! Reads and decompresses ahead: a thread prepares the next chunks while the caller parses the current one.

use std::{
    io::{self, Read},
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
};

/// The size of a chunk, and how many chunks may wait to be parsed.
const CHUNK_LEN: usize = 1 << 20;
const CHUNKS_MAX: usize = 8;

type Chunk = io::Result<Vec<u8>>;

/// Receives the chunks of a reading thread.
pub(super) struct ReadAhead {
    chunks: Receiver<Chunk>,
    /// Used buffers, for the thread to fill again.
    used: SyncSender<Vec<u8>>,
    chunk: Vec<u8>,
    /// How much of `chunk` has been read.
    taken: usize,
}

impl ReadAhead {
    /// Reads `input` on a thread of its own for as long as `work` lasts.
    pub(super) fn while_reading<T>(input: &mut (impl Read + Send), work: impl FnOnce(Self) -> T) -> T {
        thread::scope(|scope| {
            let (sender, chunks) = mpsc::sync_channel(CHUNKS_MAX);
            let (used, again) = mpsc::sync_channel(CHUNKS_MAX);
            scope.spawn(move || send(input, &sender, &again));
            // The thread ends with the input, or once the receiver is dropped.
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
        // Bytes that were read before an error are delivered.
        let is_gone = !chunk.is_empty() && chunks.send(Ok(chunk)).is_err();
        if let Err(error) = read {
            // A receiver that is gone needs no error.
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
            // If the channel is full or the thread has ended, the buffer is not needed.
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
    fn the_whole_input_is_delivered_in_order() {
        for len in [0, 1, CHUNK_LEN - 1, CHUNK_LEN, CHUNK_LEN + 1, 20 * CHUNK_LEN + 7] {
            let input: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
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
    fn an_error_follows_the_bytes_before_it() {
        let (bytes, outcome) = read(Failing(CHUNK_LEN + 5));
        assert_eq!((bytes.len(), outcome.unwrap_err().to_string()), (CHUNK_LEN + 5, "bad sector".to_owned()));
    }

    #[test]
    fn stopping_early_does_not_wait_for_the_remaining_input() {
        let first = ReadAhead::while_reading(&mut io::repeat(7), |mut ahead| {
            let mut first = [0; 4];
            ahead.read_exact(&mut first).map(|()| first)
        });
        assert_eq!(first.unwrap(), [7; 4]);
    }
}
