//! A live stream compressed with zstd: one endless frame, flushed with each write.

use std::io;

use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation, OutBuffer};

/// The zstd compressor of one session's output.
pub struct Compressor {
    encoder: Encoder<'static>,
}

impl Compressor {
    /// Starts a new frame.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new() -> io::Result<Compressor> {
        let mut encoder = Encoder::new(LEVEL)?;
        encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        Ok(Compressor { encoder })
    }

    /// Appends `plain` to `out`, compressed and flushed, so a reader can decode all of it at
    /// once.
    ///
    /// # Errors
    /// Errors of the encoder. The stream cannot continue.
    pub fn append(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut input = InBuffer::around(plain);
        let mut chunk = [0; CHUNK_BYTES];
        while input.pos() < plain.len() {
            let mut output = OutBuffer::around(&mut chunk);
            self.encoder.run(&mut input, &mut output)?;
            out.extend_from_slice(output.as_slice());
        }
        loop {
            let mut output = OutBuffer::around(&mut chunk);
            let left = self.encoder.flush(&mut output)?;
            out.extend_from_slice(output.as_slice());
            if left == 0 {
                return Ok(());
            }
        }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Compressor").finish_non_exhaustive()
    }
}

/// The fastest level: the input is small and latency matters.
const LEVEL: i32 = 1;
/// 128 KiB, so that a thousand sessions need little memory.
const WINDOW_LOG: u32 = 17;
const CHUNK_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn everything_is_there_after_each_append() {
        let mut compressor = Compressor::new().unwrap();
        let (mut plain, mut packed) = (Vec::new(), Vec::new());
        for length in [0_usize, 1, 80, 100_000, 3] {
            let part: Vec<u8> = (0..length).map(|byte| (byte % 251) as u8).collect();
            compressor.append(&part, &mut packed).unwrap();
            plain.extend(part);
            let mut read = vec![0; plain.len()];
            let mut decoder = zstd::stream::read::Decoder::new(packed.as_slice()).unwrap();
            decoder.read_exact(&mut read).unwrap();
            assert_eq!(read, plain);
        }
        assert!(packed.len() < plain.len() / 10);
    }
}
