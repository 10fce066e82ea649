//! Commands of every data type at pipeline depth 16: our server, rivals and the echo floor, in
//! turn. Nearly all of the commands are such whose reply is always the same, so that it is
//! compared.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::contest::{self, LoadCase, Pace};
use super::load::{check, fill};
use super::requests::{KEYS, Requests, Workset};
use super::scenario::Bench;
use tidewire::failure::Failure;

/// Measures, prints, and stores the raw run.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let set = Workset::default();
    contest::run(bench, "types", set, prepare, &cases(), |_, _| Vec::new())
}

fn cases() -> Vec<LoadCase> {
    let mut cases = Vec::new();
    let mut case = |name: &str, reply: &[u8], request: &dyn Fn(u64) -> String| {
        let requests = Requests::of(reply, |number| encode(&request(number)));
        cases.push(at_depth(name, requests));
    };
    let value = bulk("abcdefghijklmnop");
    case("INCRBY", b":0\r\n", &|n| format!("INCRBY number:{n:012} 0"));
    case("MSET of 10", b"+OK\r\n", &|n| {
        let pair = |step: u64| format!(" key:{:012} abcdefghijklmnop", (n + step * 997) % KEYS);
        (0..10).fold("MSET".to_owned(), |text, step| text + &pair(step))
    });
    case("EXPIRE", b":1\r\n", &|n| {
        format!("EXPIRE key:{n:012} 100000")
    });
    case("SETBIT", b":0\r\n", &|n| {
        format!("SETBIT bits {} 0", n + KEYS)
    });
    case("PFADD", b":0\r\n", &|n| {
        format!("PFADD distinct {:06}", n % 1_000)
    });
    case("HSET", b":0\r\n", &|n| {
        format!("HSET hash field:{n:06} abcdefghijklmnop")
    });
    case("HGET", value.as_bytes(), &|n| {
        format!("HGET hash field:{n:06}")
    });
    case("SADD", b":0\r\n", &|n| format!("SADD set member:{n:06}"));
    case("SISMEMBER", b":1\r\n", &|n| {
        format!("SISMEMBER set member:{n:06}")
    });
    case("LMOVE", value.as_bytes(), &|_| {
        "LMOVE list list LEFT RIGHT".to_owned()
    });
    let hundred = format!("*100\r\n{}", value.repeat(100));
    case("LRANGE of 100", hundred.as_bytes(), &|_| {
        "LRANGE list 0 99".to_owned()
    });
    case("ZADD", b":0\r\n", &|n| {
        let score = n.wrapping_mul(7_919) % KEYS;
        format!("ZADD ranking {score:06} member:{n:06}")
    });
    case("ZSCORE", bulk("1.5").as_bytes(), &|n| {
        format!("ZSCORE level member:{n:06}")
    });
    case("ZCOUNT", format!(":{KEYS}\r\n").as_bytes(), &|n| {
        format!("ZCOUNT ranking -{n:06} inf")
    });
    let entry = |n: u64| {
        format!(
            "*2\r\n{}*2\r\n{}{value}",
            bulk(&format!("{n}-0")),
            bulk("field")
        )
    };
    let ten = (1..11).fold("*10\r\n".to_owned(), |text, n| text + &entry(n));
    case("XRANGE of 10", ten.as_bytes(), &|_| {
        "XRANGE stream - + COUNT 10".to_owned()
    });
    cases.extend(growing());
    cases
}

/// Commands that make something grow, and say how far it has.
fn growing() -> [LoadCase; 4] {
    let numbers = |request: &dyn Fn(u64) -> String| {
        Requests::of_lines(b':', 1, |number| encode(&request(number)))
    };
    let identifiers = Requests::of_lines(b'$', 2, |_| encode("XADD log * field abcdefghijklmnop"));
    [
        at_depth("INCR", numbers(&|n| format!("INCR counter:{n:012}"))),
        at_depth("LPUSH", numbers(&|_| "LPUSH queue abcdefghijklmnop".into())),
        at_depth("RPUSH", numbers(&|_| "RPUSH log:0 abcdefghijklmnop".into())),
        at_depth("XADD", identifiers),
    ]
}

fn at_depth(name: &str, requests: Requests) -> LoadCase {
    let name = format!("{name} P={DEPTH}");
    LoadCase::new(name, requests, Pace::Pipeline(DEPTH))
}

/// Fills every collection with as many elements as there are keys.
fn prepare(address: SocketAddr) -> io::Result<()> {
    fill(address, Workset::default())?;
    let mut stream = TcpStream::connect(address)?;
    let mut all = |reply: &str, request: &dyn Fn(u64) -> String| -> io::Result<()> {
        for first in (0..KEYS).step_by(BATCH) {
            let count = BATCH.min((KEYS - first) as usize);
            let requests = (first..).take(count).flat_map(|n| encode(&request(n)));
            stream.write_all(&requests.collect::<Vec<u8>>())?;
            let expected = match reply {
                ":count" => (first + 1..)
                    .take(count)
                    .map(|n| format!(":{n}\r\n"))
                    .collect(),
                "id" => (first + 1..)
                    .take(count)
                    .map(|n| bulk(&format!("{n}-0")))
                    .collect(),
                reply => reply.repeat(count),
            };
            let mut received = vec![0; expected.len()];
            stream.read_exact(&mut received)?;
            check(&received, expected.as_bytes())?;
        }
        Ok(())
    };
    all(":1\r\n", &|n| {
        format!("HSET hash field:{n:06} abcdefghijklmnop")
    })?;
    all(":1\r\n", &|n| format!("SADD set member:{n:06}"))?;
    all(":count", &|_| "RPUSH list abcdefghijklmnop".to_owned())?;
    all(":1\r\n", &|n| format!("ZADD ranking {n:06} member:{n:06}"))?;
    all(":1\r\n", &|n| format!("ZADD level 1.5 member:{n:06}"))?;
    all("id", &|n| {
        format!("XADD stream {}-0 field abcdefghijklmnop", n + 1)
    })?;
    all(":0\r\n", &|n| format!("SETBIT bits {} 0", n + KEYS))?;
    // Most of a thousand values are new to the HyperLogLog; the exact answer does not matter.
    let things: Vec<String> = (0..1_000).map(|n| format!("{n:06}")).collect();
    let request = encode(&format!("PFADD distinct {}", things.join(" ")));
    stream.write_all(&request)?;
    stream.read_exact(&mut [0; 4])
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// Encodes a request of words separated by blanks.
fn encode(line: &str) -> Vec<u8> {
    let words: Vec<&str> = line.split(' ').collect();
    let head = format!("*{}\r\n", words.len());
    let request = words
        .iter()
        .fold(head, |request, word| request + &bulk(word));
    request.into_bytes()
}

const DEPTH: usize = 16;
const BATCH: usize = 500;
