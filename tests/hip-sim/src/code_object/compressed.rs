//! Compressed bundles: clang's `--offload-compress`.
//!
//! ```text
//! "CCOB"  u16 version  u16 method  size fields  u64 hash  the compressed bundle
//!
//! version 1                          u32 uncompressed
//! version 2             u32 total    u32 uncompressed
//! version 3             u64 total    u64 uncompressed
//! ```
//!
//! `total` counts from the first byte of the file. Method 0 is zlib, method 1 is zstd. The hash is for
//! caches; no reader checks it, and this one does not either.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::StreamingDecoder;

use super::error::CodeObjectError;
use super::reader::Reader;

pub(super) const MAGIC: &[u8; 4] = b"CCOB";
const ZLIB: u64 = 0;
const ZSTD: u64 = 1;

/// Decompresses the bundle.
///
/// # Safety
///
/// `reader` is at a compressed bundle. The bundle is as long as its header says, or the reader knows where
/// memory ends.
pub(super) unsafe fn decompress(mut reader: Reader) -> Result<Vec<u8>, CodeObjectError> {
    let whole = reader;
    // SAFETY: the caller guarantees the fields of the header.
    let (method, total, size) = unsafe {
        reader.bytes(MAGIC.len())?;
        let (version, method) = (reader.number(2)?, reader.number(2)?);
        let (total, size) = match version {
            1 => (None, reader.number(4)?),
            2 => (Some(reader.number(4)?), reader.number(4)?),
            3 => (Some(reader.number(8)?), reader.number(8)?),
            _ => return Err(malformed(format!("version {version}"))),
        };
        reader.number(8)?;
        (method, total, size)
    };
    let bundle = match total {
        Some(total) => {
            let header = whole.left() - reader.left();
            let payload = usize::try_from(total).ok().and_then(|total| total.checked_sub(header));
            let payload = payload.ok_or_else(|| malformed("the size is smaller than the header"))?;
            // SAFETY: the header guarantees that many bytes.
            inflate(method, unsafe { reader.bytes(payload)? }, size)?
        }
        // Only the compressed stream itself marks its end.
        None => inflate(method, ByteByByte { reader, byte: None }, size)?,
    };
    if bundle.len() as u64 == size {
        Ok(bundle)
    } else {
        Err(malformed("the size differs from the content's"))
    }
}

fn malformed(what: impl core::fmt::Display) -> CodeObjectError {
    CodeObjectError::Compressed(what.to_string())
}

fn inflate(method: u64, source: impl BufRead, size: u64) -> Result<Vec<u8>, CodeObjectError> {
    let mut content = Vec::new();
    // Reading one byte more than the stated size detects excess data.
    let limit = size.saturating_add(1);
    match method {
        ZLIB => flate2::bufread::ZlibDecoder::new(source).take(limit).read_to_end(&mut content),
        ZSTD => {
            let decoder = StreamingDecoder::new(source).map_err(malformed)?;
            decoder.take(limit).read_to_end(&mut content)
        }
        _ => return Err(malformed(format!("method {method}"))),
    }
    .map_err(malformed)?;
    Ok(content)
}

/// Reads only bytes that its user consumes, because the memory behind the stream may not be readable.
struct ByteByByte {
    reader: Reader,
    byte: Option<[u8; 1]>,
}

impl BufRead for ByteByByte {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.byte.is_none() {
            // SAFETY: the stream has not ended, so its next byte exists, as the caller of `decompress`
            // guarantees.
            let byte = unsafe { self.reader.bytes(1) }.map_err(|_| io::ErrorKind::UnexpectedEof)?;
            self.byte = Some([byte[0]]);
        }
        Ok(self.byte.as_ref().map_or(&[], |byte| byte))
    }

    fn consume(&mut self, len: usize) {
        if len > 0 {
            self.byte = None;
        }
    }
}

impl Read for ByteByByte {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(first) = buffer.first_mut() else { return Ok(0) };
        *first = self.fill_buf()?[0];
        self.consume(1);
        Ok(1)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write as _;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// A bundle compressed in the format of any version and method.
    pub(in super::super) fn compress(content: &[u8], version: u16, method: u16) -> Vec<u8> {
        let payload = if u64::from(method) == ZLIB {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap()
        } else {
            compress_to_vec(content, CompressionLevel::Fastest)
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version.to_le_bytes(), method.to_le_bytes()].concat());
        let size = content.len() as u64;
        match version {
            1 => bytes.extend((size as u32).to_le_bytes()),
            2 => {
                bytes.extend((24 + payload.len() as u32).to_le_bytes());
                bytes.extend((size as u32).to_le_bytes());
            }
            _ => {
                bytes.extend((32 + payload.len() as u64).to_le_bytes());
                bytes.extend(size.to_le_bytes());
            }
        }
        bytes.extend([0xaa; 8]);
        bytes.extend(payload);
        bytes
    }

    fn decompressed(image: &[u8]) -> Result<Vec<u8>, CodeObjectError> {
        // SAFETY: the reader knows the end.
        unsafe { decompress(Reader::new(image.as_ptr(), image.len())) }
    }

    #[test]
    fn every_version_and_method_is_decompressed() {
        let content: Vec<u8> = (0..5000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for version in [1, 2, 3] {
            for method in [0, 1] {
                let mut image = compress(&content, version, method);
                assert_eq!(decompressed(&image).as_ref(), Ok(&content), "{version} {method}");
                // Bytes behind the bundle do not belong to it.
                image.extend(b"next");
                assert_eq!(decompressed(&image).as_ref(), Ok(&content), "{version} {method}");
            }
        }
    }

    #[test]
    fn truncated_and_unknown_bundles_are_refused() {
        let image = compress(&[7; 1000], 2, 1);
        for len in 4..image.len() {
            assert!(decompressed(&image[..len]).is_err(), "{len} bytes");
        }
        assert!(decompressed(&compress(b"x", 4, 1)).is_err(), "version");
        assert!(decompressed(&compress(b"x", 2, 9)).is_err(), "method");
        let mut lying = compress(&[7; 1000], 2, 1);
        lying[12] ^= 1;
        assert!(decompressed(&lying).is_err(), "size");
    }
}
