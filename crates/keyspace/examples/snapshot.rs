//! Measures how long a snapshot holds a shard: `cargo run --release --example snapshot -- 1000000`.
//!
//! Fills a keyspace with 16-byte keys and 64-byte values, and makes a snapshot while a second
//! thread writes. Prints the longest time of the snapshot's start, of one step, and of one write
//! with and without the snapshot.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidewire_keyspace::{Keyspace, NullObserver, Options, SnapshotOptions, resolve};
use tidewire_resp::{ArgumentList, Protocol, Writer};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let count: u64 = count.unwrap_or(1_000_000);
    let keyspace = Keyspace::new(Options::default());
    (0..count).for_each(|number| set(&keyspace, number));
    let alone = writes(
        &keyspace,
        count,
        &AtomicBool::new(false),
        Duration::from_secs(1),
    );
    println!("writes alone: {alone:?}");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| writes(&keyspace, count, &ended, Duration::from_secs(3600)));
        let started = Instant::now();
        let options = SnapshotOptions {
            compresses: true,
            checks: true,
            ..SnapshotOptions::default()
        };
        let begun = keyspace.begin_snapshot(options, || ());
        let (mut snapshot, ()) = begun.expect("no other snapshot runs");
        println!("beginning: {:?}", started.elapsed());
        let (mut longest, mut bytes, mut out) = (Duration::ZERO, 0, Vec::new());
        loop {
            let step = Instant::now();
            let goes_on = snapshot.step(&mut out);
            longest = longest.max(step.elapsed());
            bytes += out.len();
            out.clear();
            if !goes_on {
                break;
            }
        }
        println!("longest step: {longest:?}");
        println!("all: {:?}, {bytes} bytes", started.elapsed());
        ended.store(true, Ordering::Relaxed);
        println!("writes beside it: {:?}", writer.join().expect("it ends"));
    });
}

fn set(keyspace: &Keyspace, number: u64) {
    let key = format!("key:{number:012}");
    let value = [b'v'; 64];
    let request = ArgumentList::from_slices(&[b"SET", key.as_bytes(), &value]);
    let arguments = request.as_arguments();
    let command = resolve(arguments).expect("a command");
    let mut reply = Vec::new();
    let mut writer = Writer::new(&mut reply, Protocol::Resp2);
    let _ = keyspace.execute(command, arguments, 0, 0, &mut writer, &mut NullObserver);
}

/// Returns the longest of many writes, and their 99.9th percentile.
fn writes(keyspace: &Keyspace, count: u64, ended: &AtomicBool, most: Duration) -> [Duration; 2] {
    let begin = Instant::now();
    let (mut number, mut times) = (0u64, Vec::new());
    while begin.elapsed() < most && !ended.load(Ordering::Relaxed) {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let one = Instant::now();
        set(keyspace, (number >> 20) % count);
        times.push(one.elapsed());
    }
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    [times[last], times[last * 999 / 1000]]
}
