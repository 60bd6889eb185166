//! Decompresses a trace: gzip or Zstandard, recognised by its first bytes.
//!
//! A gzip file is a sequence of members (<https://www.rfc-editor.org/rfc/rfc1952>), a Zstandard file a sequence of frames
//! (<https://www.rfc-editor.org/rfc/rfc8878>). An input that ends inside one of these was cut. That is not an error here: the
//! reader returns what could be decompressed, and [`Input::is_cut`] returns true.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The first bytes of the formats.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// A trace, decompressed if it is compressed.
pub struct Input<R: Read> {
    decoder: Decoder<Source<R>>,
    is_cut: bool,
}

/// The input with its first bytes put back.
type Source<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

enum Decoder<S> {
    Plain(S),
    Gzip(MultiGzDecoder<S>),
    Zstd(Zstd<S>),
}

impl<R: Read> Input<R> {
    /// Reads the first bytes of `input` to find out how it is compressed.
    pub fn open(mut input: R) -> io::Result<Self> {
        let mut start = Vec::new();
        input.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut start)?;
        let (is_gzip, is_zstd) = (start.starts_with(GZIP_MAGIC), start.starts_with(ZSTD_MAGIC));
        let source = BufReader::new(Cursor::new(start).chain(input));
        let decoder = if is_gzip {
            Decoder::Gzip(MultiGzDecoder::new(source))
        } else if is_zstd {
            Decoder::Zstd(Zstd { source, frame: Box::default() })
        } else {
            Decoder::Plain(source)
        };
        Ok(Self { decoder, is_cut: false })
    }

    /// Whether the input is compressed.
    pub fn is_compressed(&self) -> bool {
        !matches!(self.decoder, Decoder::Plain(_))
    }

    /// Whether the input has ended inside a compressed member or frame.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_cut {
            return Ok(0);
        }
        let (read, source) = match &mut self.decoder {
            Decoder::Plain(source) => return source.read(buffer),
            Decoder::Gzip(decoder) => (decoder.read(buffer), decoder.get_mut()),
            Decoder::Zstd(decoder) => (decoder.read(buffer), &mut decoder.source),
        };
        // A decoder that fails at the end of the input expected more of it.
        if read.is_err() && source.fill_buf().is_ok_and(<[u8]>::is_empty) {
            self.is_cut = true;
            return Ok(0);
        }
        read
    }
}

/// Decodes a sequence of frames.
struct Zstd<S> {
    source: S,
    /// The decoder of the current frame; before the first frame it counts as finished.
    frame: Box<FrameDecoder>,
}

impl<S: BufRead> Read for Zstd<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A frame may be empty, and a block may produce no output yet.
        while self.frame.can_collect() == 0 {
            if !self.frame.is_finished() {
                self.frame
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            } else if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            } else {
                self.frame.reset(&mut self.source).map_err(io::Error::other)?;
            }
        }
        self.frame.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    fn read(file: &[u8]) -> io::Result<(Vec<u8>, bool)> {
        let mut input = Input::open(file)?;
        let mut text = Vec::new();
        input.read_to_end(&mut text)?;
        Ok((text, input.is_cut()))
    }

    fn parts() -> [Vec<u8>; 3] {
        [b"first ".repeat(50_000), Vec::new(), (0..=255).cycle().take(70_000).collect()]
    }

    #[test]
    fn sequences_of_members_and_frames_are_read() {
        for encode in [gzip, zstd, <[u8]>::to_vec] {
            let file: Vec<u8> = parts().iter().flat_map(|part| encode(part)).collect();
            assert_eq!(read(&file).unwrap(), (parts().concat(), false));
        }
        assert_eq!(read(b"").unwrap(), (Vec::new(), false));
    }

    #[test]
    fn a_cut_anywhere_leaves_a_prefix() {
        let text = parts().concat();
        for encode in [gzip, zstd] {
            let members = parts().map(|part| encode(&part));
            let file = members.concat();
            let ends: Vec<usize> = members
                .iter()
                .scan(0, |end, member| {
                    *end += member.len();
                    Some(*end)
                })
                .collect();
            for len in (5..file.len()).step_by(7).chain(ends) {
                let (prefix, is_cut) = read(&file[..len]).unwrap();
                assert!(text.starts_with(&prefix), "cut at {len}");
                let at_an_end =
                    [members[0].len(), members[0].len() + members[1].len(), file.len()].contains(&len);
                assert_eq!(is_cut, !at_an_end, "cut at {len} of {}", file.len());
            }
        }
    }

    #[test]
    fn damage_is_an_error() {
        let mut file = gzip(&parts()[0]);
        file[20..40].fill(0xff);
        file.extend(gzip(b"more"));
        assert!(read(&file).is_err());
        let mut file = zstd(&parts()[2]);
        file[4..12].fill(0xff);
        file.extend(zstd(b"more"));
        assert!(read(&file).is_err());
    }
}
