//! Measures memory per key and nanoseconds per command on one thread, without network.
//!
//! `cargo run --release -p tidewire-keyspace --example measure [keys]`

use std::ops::Range;

use tidewire_keyspace::{Keyspace, NullObserver, Options, WantedKey, resolve};
use tidewire_resp::{Limits, Progress, Protocol, RequestParser, Writer, write_request};

/// The same allocator as the program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|number| number.parse().ok())
        .collect();
    let keys = numbers.first().copied().unwrap_or(1_000_000);
    if let Some(&value_bytes) = numbers.get(1) {
        return memory(keys, value_bytes);
    }
    for value_bytes in ["3", "16", "64"] {
        // A separate process, so that memory freed earlier is not counted.
        let program = std::env::current_exe().expect("a path");
        let arguments = [keys.to_string(), value_bytes.to_owned()];
        std::process::Command::new(program)
            .args(arguments)
            .status()
            .expect("runs again");
    }
    let keyspace = filled(keys, 16);
    for (name, line) in [
        ("GET", "GET {}"),
        ("SET, same size", "SET {} abcdefghijklmnop"),
        ("SET, another size", "SET {} abcdefghijklmnopqrstuvwxyz"),
        ("EXISTS", "EXISTS {}"),
        ("GET of a missing key", "GET x{}"),
    ] {
        for prefetch in [false, true] {
            speed(&keyspace, keys, name, line, prefetch);
        }
    }
    let counters = Keyspace::new(Options::default());
    for _ in 0..2 {
        speed(&counters, keys, "INCR, then again", "INCR {}", true);
    }
    let elements = keys.min(ELEMENTS);
    for (name, line) in [
        ("SADD", "SADD set {}"),
        ("HSET", "HSET hash {} abcdefghijklmnop"),
        ("ZADD", "ZADD ranking 1 {}"),
        ("ZSCORE", "ZSCORE ranking {}"),
        ("HGET", "HGET hash {}"),
    ] {
        speed(&counters, elements, "  (the first elements)", line, true);
        for prefetch in [false, true, false, true, false, true] {
            speed(&counters, elements, name, line, prefetch);
        }
    }
}

fn memory(keys: usize, value_bytes: usize) {
    let before = resident_bytes();
    let keyspace = filled(keys, value_bytes);
    // Memory freed while the table grew is returned a moment later.
    std::thread::sleep(std::time::Duration::from_millis(200));
    drop(filled(1_000, value_bytes));
    let bytes = resident_bytes() - before;
    println!(
        "{value_bytes:>3}-byte values: {:.1} resident bytes per 16-byte key",
        bytes as f64 / keys as f64
    );
    drop(keyspace);
}

fn filled(keys: usize, value_bytes: usize) -> Keyspace {
    let keyspace = Keyspace::new(Options::default());
    let value = "v".repeat(value_bytes);
    let mut requests = Requests::new();
    for index in 0..keys {
        requests.clear();
        requests.push(&["SET", &name(index), &value]);
        requests.run(0..requests.bytes.len(), &keyspace, false);
    }
    keyspace
}

/// Executes batches of 16 requests, like a pipeline, with keys in random order.
fn speed(keyspace: &Keyspace, keys: usize, name_of_test: &str, line: &str, prefetch: bool) {
    const BATCH: usize = 16;
    let mut requests = Requests::new();
    let mut ends = Vec::new();
    let mut at = 1u64;
    for _ in 0..keys / BATCH {
        for _ in 0..BATCH {
            at = at
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let line = line.replace("{}", &name((at >> 33) as usize % keys));
            requests.push(&line.split(' ').collect::<Vec<_>>());
        }
        ends.push(requests.bytes.len());
    }
    // The processor time has a resolution of some milliseconds.
    let rounds = COMMANDS_MIN.div_ceil(keys);
    let start_ns = processor_ns();
    for _ in 0..rounds {
        let mut from = 0;
        for &end in &ends {
            requests.run(from..end, keyspace, prefetch);
            from = end;
        }
    }
    let ns = (processor_ns() - start_ns) as f64 / (rounds * ends.len() * BATCH) as f64;
    let how = if prefetch { "prefetched" } else { "one by one" };
    println!("{name_of_test:<22} {how:<11} {ns:>6.0} ns, parser and reply included");
}

struct Requests {
    bytes: Vec<u8>,
    replies: Vec<u8>,
    parser: RequestParser,
    ahead: Vec<RequestParser>,
}

impl Requests {
    fn new() -> Self {
        Requests {
            bytes: Vec::new(),
            replies: Vec::new(),
            parser: RequestParser::new(Limits::default()),
            ahead: (0..16)
                .map(|_| RequestParser::new(Limits::default()))
                .collect(),
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
    }

    fn push(&mut self, words: &[&str]) {
        write_request(&mut self.bytes, words);
    }

    fn run(&mut self, batch: Range<usize>, keyspace: &Keyspace, prefetch: bool) {
        const NOW_MS: i64 = 1_750_000_000_000;
        self.replies.clear();
        if prefetch {
            self.fetch_ahead(batch.clone(), keyspace);
        }
        let mut rest = &self.bytes[batch.clone()];
        while let Ok(Progress::Complete { consumed }) = self.parser.parse(rest) {
            let arguments = self.parser.arguments(rest);
            let command = resolve(arguments).expect("a command");
            let mut reply = Writer::new(&mut self.replies, Protocol::Resp2);
            let _ = keyspace.execute(command, arguments, 0, NOW_MS, &mut reply, &mut NullObserver);
            rest = &rest[consumed..];
        }
    }

    /// Prefetches as the hub does for a pipeline.
    fn fetch_ahead(&mut self, batch: Range<usize>, keyspace: &Keyspace) {
        let mut keys = Vec::with_capacity(16);
        let mut elements = Vec::with_capacity(16);
        let mut rest = &self.bytes[batch];
        for parser in &mut self.ahead {
            let Ok(Progress::Complete { consumed }) = parser.parse(rest) else {
                break;
            };
            let arguments = parser.arguments(rest);
            let element = resolve(arguments).map_or(0, |command| command.element);
            if let Some(key) = arguments.get(1) {
                let element = arguments.get(usize::from(element)).filter(|_| element != 0);
                let hash = keyspace.prefetch(key);
                let number = keys.len() as u8;
                let element = element.map(|element| (key, element));
                elements.push(element);
                keys.push(WantedKey {
                    hash,
                    element: element.map(|_| number),
                });
            }
            rest = &rest[consumed..];
        }
        keyspace.prefetch_all(0, &keys, &|number| elements[usize::from(number)]);
    }
}

/// Minimum number of commands per measurement.
const COMMANDS_MIN: usize = 2_000_000;
/// Elements of a large collection.
const ELEMENTS: usize = 100_000;

fn name(index: usize) -> String {
    format!("key:{index:012}")
}

/// Returns the processor time of this thread; other threads are not counted.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = text.split(' ').next().expect("three numbers");
    first.parse().expect("a number")
}

fn resident_bytes() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: i64 = statm
        .split(' ')
        .nth(1)
        .expect("resident")
        .parse()
        .expect("a number");
    pages * 4096
}
