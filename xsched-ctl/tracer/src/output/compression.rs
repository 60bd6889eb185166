//! Compresses the output, chunk by chunk.
//!
//! Each chunk is a separate gzip member or zstd frame: both formats are sequences of these. So after each chunk the
//! file is a complete compressed file, which Perfetto loads (it refuses a stream without its end). A quarter of a
//! mebibyte is enough for both to find repetitions.

use std::io::Write as _;
use std::path::Path;

use clap::ValueEnum;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress};

/// How the trace is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// gzip, which every Perfetto UI opens
    Gzip,
    /// Zstandard, which Perfetto opens since the middle of 2026
    Zstd,
}

impl Compression {
    /// The compression for a file name.
    pub fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "gz" => Some(Self::Gzip),
            "zst" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The extension of such files.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Zstd => "zst",
        }
    }

    pub(crate) fn encode(self, chunk: &[u8]) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(chunk.len() / 4);
        match self {
            Self::Gzip => {
                let mut encoder = GzEncoder::new(&mut encoded, flate2::Compression::fast());
                encoder.write_all(chunk).expect(MEMORY);
                encoder.finish().expect(MEMORY);
            }
            Self::Zstd => compress(chunk, &mut encoded, CompressionLevel::Fastest),
        }
        encoded
    }
}

const MEMORY: &str = "memory takes every byte";

/// The largest size of `len` bytes in a file: incompressible data is stored, with some bytes around it.
pub(crate) fn encoded_len_max(compression: Option<Compression>, len: u64) -> u64 {
    if compression.is_none() { len } else { len + len / 1024 + 64 }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn decode(compression: Compression, encoded: &[u8]) -> Vec<u8> {
        let mut decoded = Vec::new();
        match compression {
            Compression::Gzip => {
                flate2::read::MultiGzDecoder::new(encoded).read_to_end(&mut decoded).unwrap();
            }
            Compression::Zstd => {
                let mut rest = encoded;
                while !rest.is_empty() {
                    let mut frame = ruzstd::decoding::StreamingDecoder::new(&mut rest).unwrap();
                    frame.read_to_end(&mut decoded).unwrap();
                }
            }
        }
        decoded
    }

    #[test]
    fn chunks_one_after_the_other_are_one_file() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let chunks = [b"abc".repeat(10_000), b"".to_vec(), (0..=255).cycle().take(100_000).collect()];
            let file: Vec<u8> = chunks.iter().flat_map(|chunk| compression.encode(chunk)).collect();
            assert_eq!(decode(compression, &file), chunks.concat(), "{compression:?}");
            assert!(file.len() < 30_000, "{compression:?}: {}", file.len());
        }
    }

    #[test]
    fn what_does_not_compress_grows_little() {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(300_000)
        .collect();
        for compression in [Compression::Gzip, Compression::Zstd] {
            for len in [0, 1, 1000, 300_000] {
                let encoded = compression.encode(&noise[..len]).len() as u64;
                let most = encoded_len_max(Some(compression), len as u64);
                assert!(encoded <= most, "{compression:?} {len}: {encoded} > {most}");
            }
        }
    }

    #[test]
    fn names_tell() {
        assert_eq!(Compression::of_name(Path::new("a/run.perfetto.gz")), Some(Compression::Gzip));
        assert_eq!(Compression::of_name(Path::new("run.zst")), Some(Compression::Zstd));
        assert_eq!(Compression::of_name(Path::new("run.perfetto")), None);
        assert_eq!(Compression::of_name(Path::new("gz")), None);
    }
}
