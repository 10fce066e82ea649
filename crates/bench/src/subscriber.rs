//! Subscribers that time what they get: from the source's stamp in the JSON to the clock on the
//! wall, when the bytes have been read.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::processor_time::Cores;
use super::report::unix_ns;

/// A subscriber on a thread of its own.
#[derive(Debug)]
pub(crate) struct Subscriber {
    over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Histogram<u64>>>,
}

impl Subscriber {
    /// A Redis client of one channel. Messages with an older stamp than `from_unix_ns` do not
    /// count.
    ///
    /// # Errors
    /// The server is not there.
    pub(crate) fn redis(
        address: SocketAddr,
        channel: &str,
        from_unix_ns: u64,
        cores: Cores,
    ) -> io::Result<Self> {
        let length = channel.len();
        let request = format!("*2\r\n$9\r\nSUBSCRIBE\r\n${length}\r\n{channel}\r\n");
        Self::start(address, request.into_bytes(), from_unix_ns, cores)
    }

    /// Creates a ZeroMQ SUB socket with one prefix. See [`Subscriber::redis`].
    ///
    /// # Errors
    /// The server is not there.
    pub(crate) fn zmq(
        address: SocketAddr,
        prefix: &str,
        from_unix_ns: u64,
        cores: Cores,
    ) -> io::Result<Self> {
        // ZMTP 3.0 with the NULL mechanism: a SUB can send everything at once.
        let mut hello = vec![0; 64];
        hello[0] = 0xFF;
        hello[9] = 0x7F;
        hello[10] = 3;
        hello[12..16].copy_from_slice(b"NULL");
        let ready = b"\x05READY\x0BSocket-Type\0\0\0\x03SUB";
        hello.extend_from_slice(&[0x04, ready.len() as u8]);
        hello.extend_from_slice(ready);
        hello.extend_from_slice(&[0x00, prefix.len() as u8 + 1, 0x01]);
        hello.extend_from_slice(prefix.as_bytes());
        Self::start(address, hello, from_unix_ns, cores)
    }

    fn start(
        address: SocketAddr,
        hello: Vec<u8>,
        from_unix_ns: u64,
        cores: Cores,
    ) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_millis(100)))?;
        stream.write_all(&hello)?;
        let over = Arc::new(AtomicBool::new(false));
        let told = over.clone();
        let thread = std::thread::spawn(move || {
            let _core = cores.enter_load()?;
            listen(stream, from_unix_ns, &told)
        });
        Ok(Self { over, thread })
    }

    /// Latencies so far, ns.
    ///
    /// # Errors
    /// The connection was lost, or nothing came.
    pub(crate) fn finish(self) -> io::Result<Histogram<u64>> {
        self.over.store(true, Ordering::Relaxed);
        let joined = self.thread.join();
        let latency_ns = joined.map_err(|_| io::Error::other("a subscriber has failed"))??;
        if latency_ns.is_empty() {
            return Err(io::Error::other("a subscriber got nothing"));
        }
        Ok(latency_ns)
    }
}

fn listen(
    mut stream: TcpStream,
    from_unix_ns: u64,
    over: &AtomicBool,
) -> io::Result<Histogram<u64>> {
    let mut latency_ns = new_histogram();
    let mut input = vec![0; INPUT_BYTES];
    let mut filled = 0;
    while !over.load(Ordering::Relaxed) {
        let count = match stream.read(&mut input[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        let now_unix_ns = unix_ns();
        filled += count;
        let used = each_stamp(&input[..filled], |stamp_ns| {
            if stamp_ns >= from_unix_ns {
                record(&mut latency_ns, now_unix_ns.saturating_sub(stamp_ns));
            }
        });
        input.copy_within(used..filled, 0);
        filled -= used;
    }
    Ok(latency_ns)
}

/// Calls `stamp` with each whole `"ts":NUMBER,`; returns how many bytes are done with.
fn each_stamp(input: &[u8], mut stamp: impl FnMut(u64)) -> usize {
    let mut used = 0;
    while let Some(place) = find(&input[used..], STAMP) {
        let digits = &input[used + place + STAMP.len()..];
        let Some(length) = digits.iter().position(|byte| !byte.is_ascii_digit()) else {
            // The number may go on: it is looked at again when more is there.
            return used + place;
        };
        let number = digits[..length].iter().fold(0_u64, |sum, digit| {
            sum.wrapping_mul(10) + u64::from(digit - b'0')
        });
        stamp(number);
        used += place + STAMP.len() + length;
    }
    // The key itself may be cut in two.
    input.len().saturating_sub(STAMP.len() - 1).max(used)
}

fn find(input: &[u8], wanted: &[u8]) -> Option<usize> {
    input
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// Creates a histogram of latencies in nanoseconds, up to a minute.
pub(crate) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("the bounds are in order")
}

/// Adds a latency; one of 0 counts as 1 ns.
pub(crate) fn record(histogram: &mut Histogram<u64>, latency_ns: u64) {
    histogram.saturating_record(latency_ns.clamp(1, LATENCY_MAX_NS));
}

const STAMP: &[u8] = b"\"ts\":";
const INPUT_BYTES: usize = 256 << 10;
const LATENCY_MAX_NS: u64 = 60_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_found_wherever_the_input_is_cut() {
        let whole = br#"x{"seq":1,"ts":170,"recv_ts":9}y{"ts":18446,"recv_ts":1}"#;
        for cut in 0..whole.len() {
            let mut stamps = Vec::new();
            let used = each_stamp(&whole[..cut], |stamp| stamps.push(stamp));
            each_stamp(&whole[used..], |stamp| stamps.push(stamp));
            assert_eq!(stamps, [170, 18_446], "cut at {cut}");
        }
    }
}
