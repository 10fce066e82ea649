//! Measures how much lanes delay each other on the shards' locks: as threads on this machine, and
//! in a model of machines with more processors.
//!
//! `cargo run --release -p tidewire-keyspace --example lanes`

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Barrier;
use std::time::Instant;

use tidewire_keyspace::{Keyspace, NullObserver, Options, lock_waits, resolve};
use tidewire_resp::{ArgumentList, Protocol, Writer};

fn main() {
    println!("threads on this machine, {KEYS} keys, of five commands four are GET and one is SET");
    println!("| lanes | keys | M commands/s | processor ns a command | waits a million commands |");
    println!("|---:|---|---:|---:|---:|");
    let keyspace = Keyspace::new(Options::default());
    let mut words = Numbers(1);
    (0..KEYS).for_each(|key| execute(&keyspace, key, true, &mut Vec::new()));
    for lanes in [1, 2, 4, 8, 16] {
        for (name, range) in [("random", KEYS), ("one", 1)] {
            measure(&keyspace, lanes, name, range);
        }
    }
    println!("\nmodel: {THINK_NS} ns without a lock, {HOLD_NS} ns with one");
    println!("| lanes | shards | keys | wait | mean wait, ns | times one lane |");
    println!("|---:|---:|---|---:|---:|---:|");
    for lanes in [1, 2, 8, 16, 32, 64] {
        for shards in [64, 256, 1_024] {
            for popular in [Popular::None, Popular::Zipf, Popular::Tenth] {
                if shards == 256 || lanes == 64 {
                    model(lanes, shards, popular, &mut words);
                }
            }
        }
    }
}

/// Runs one thread per lane, each with its own commands.
fn measure(keyspace: &Keyspace, lanes: usize, name: &str, range: u64) {
    let start = Barrier::new(lanes + 1);
    let waits = lock_waits();
    let (elapsed, used_ns) = std::thread::scope(|scope| {
        let lane = |number: usize| {
            let mut numbers = Numbers(number as u64 + 1);
            let mut reply = Vec::new();
            start.wait();
            let before_ns = processor_ns();
            for _ in 0..COMMANDS {
                let number = numbers.next();
                let writes = (number >> 8).is_multiple_of(5);
                execute(keyspace, (number >> 16) % range, writes, &mut reply);
            }
            processor_ns() - before_ns
        };
        let threads: Vec<_> = (0..lanes).map(|n| scope.spawn(move || lane(n))).collect();
        start.wait();
        let began = Instant::now();
        let ended = threads.into_iter().map(|thread| thread.join());
        let used_ns: u64 = ended.map(|used| used.expect("a lane")).sum();
        (began.elapsed(), used_ns)
    });
    let commands = (COMMANDS * lanes) as f64;
    println!(
        "| {lanes} | {name} | {:.2} | {:.0} | {:.0} |",
        commands / elapsed.as_secs_f64() / 1e6,
        used_ns as f64 / commands,
        (lock_waits() - waits) as f64 / commands * 1e6,
    );
}

fn execute(keyspace: &Keyspace, key: u64, writes: bool, reply: &mut Vec<u8>) {
    let name = format!("key:{key:012}");
    let request = match writes {
        true => ArgumentList::from_slices(&[b"SET", name.as_bytes(), b"abcdefghijklmnop"]),
        false => ArgumentList::from_slices(&[b"GET", name.as_bytes()]),
    };
    let arguments = request.as_arguments();
    let command = resolve(arguments).expect("a command");
    reply.clear();
    let mut writer = Writer::new(reply, Protocol::Resp2);
    let _ = keyspace.execute(
        command,
        arguments,
        0,
        NOW_MS,
        &mut writer,
        &mut NullObserver,
    );
}

/// Distribution of the keys.
#[derive(Clone, Copy)]
enum Popular {
    None,
    /// Zipf: key n of a million has weight 1/n^0.99.
    Zipf,
    /// One key gets a tenth of all commands.
    Tenth,
}

/// Simulates lanes that lock shards in order of arrival.
fn model(lanes: usize, shards: usize, popular: Popular, numbers: &mut Numbers) {
    let until = shares(shards, popular, numbers);
    let mut free_ns = vec![0u64; shards];
    let mut coming: BinaryHeap<_> = (0..lanes).map(|n| Reverse((n as u64 * 37, n))).collect();
    let (mut waits, mut waited_ns, mut end_ns) = (0u64, 0u64, 0u64);
    for _ in 0..MODEL_COMMANDS {
        let Reverse((now_ns, lane)) = coming.pop().expect("as many as lanes");
        let share = (numbers.next() >> 11) as f64 / (1u64 << 53) as f64;
        let shard = until.partition_point(|&end| end <= share).min(shards - 1);
        let begin_ns = now_ns.max(free_ns[shard]);
        waits += u64::from(begin_ns > now_ns);
        waited_ns += begin_ns - now_ns;
        free_ns[shard] = begin_ns + HOLD_NS;
        end_ns = end_ns.max(free_ns[shard]);
        // Times vary from half to one and a half times the mean.
        let think_ns = THINK_NS / 2 + numbers.next() % THINK_NS;
        coming.push(Reverse((begin_ns + HOLD_NS + think_ns, lane)));
    }
    let alone_ns = (HOLD_NS + THINK_NS) as f64 * MODEL_COMMANDS as f64;
    let name = match popular {
        Popular::None => "all alike",
        Popular::Zipf => "Zipf 0.99",
        Popular::Tenth => "a tenth to one",
    };
    println!(
        "| {lanes} | {shards} | {name} | {:.2} % | {:.0} | {:.1} |",
        100.0 * waits as f64 / MODEL_COMMANDS as f64,
        waited_ns as f64 / MODEL_COMMANDS as f64,
        alone_ns / end_ns as f64,
    );
}

/// Returns the upper end of each shard's share of all commands, 0 to 1.
fn shares(shards: usize, popular: Popular, numbers: &mut Numbers) -> Vec<f64> {
    let mut shares = vec![0.0; shards];
    let keys = match popular {
        Popular::None => shards,
        Popular::Zipf => 1_000_000,
        Popular::Tenth => shards,
    };
    for key in 0..keys {
        let (shard, weight) = match popular {
            Popular::Zipf => {
                let shard = (numbers.next() >> 16) as usize % shards;
                (shard, ((key + 1) as f64).powf(-0.99))
            }
            _ => (key, 1.0),
        };
        shares[shard] += weight;
    }
    if let Popular::Tenth = popular {
        shares[0] += shares.iter().sum::<f64>() / 9.0;
    }
    let sum: f64 = shares.iter().sum();
    let mut before = 0.0;
    for share in &mut shares {
        before += *share / sum;
        *share = before;
    }
    shares
}

/// xorshift64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The upper bits stay zero for a while after a small seed.
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// Returns the processor time of this thread.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = text.split(' ').next().expect("three numbers");
    first.parse().expect("a number")
}

const KEYS: u64 = 100_000;
const COMMANDS: usize = 400_000;
const NOW_MS: i64 = 1_750_000_000_000;
const MODEL_COMMANDS: u64 = 2_000_000;
/// Time of a command in a pipeline of 16 outside the lock: receive, parse, reply, send.
const THINK_NS: u64 = 600;
const HOLD_NS: u64 = 200;
