//! `cargo xtask crash`: repeatedly kills a server with an append-only file under load. It must then
//! find every write that it acknowledged.

use crate::arguments::Arguments;
use crate::server::{Kind, Server};
use crate::shell::{Failure, Shell};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs `--rounds` rounds with each `--policy`.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut arguments = Arguments::new(arguments);
    let shell = Shell::new(root);
    let rounds: u64 = arguments.number("--rounds", 200)?;
    let lanes = arguments.number("--lanes", 2)?;
    let seed = arguments.number("--seed", 1)?;
    let depth = arguments.number("--pipeline", 16)?;
    let mut policies = arguments.values("--policy")?;
    if policies.is_empty() {
        policies = ["always", "everysec", "no"].map(str::to_owned).to_vec();
    }
    let scratch = arguments.value("--scratch")?.map(PathBuf::from);
    let binary = arguments.value("--binary")?;
    let redis = arguments.value("--redis")?;
    arguments.end()?;
    let binary = match (&redis, binary) {
        (Some(redis), _) => redis.into(),
        (None, Some(binary)) => {
            fs::canonicalize(&binary).map_err(|error| Failure::new(format!("{binary}: {error}")))?
        }
        (None, None) => crate::server::build(&shell)?,
    };
    let scratch = scratch.unwrap_or_else(|| shell.target().join("crash"));
    let mut lost = 0;
    for policy in policies {
        let folder = scratch.join(&policy);
        let kind = Kind::Durable {
            binary: binary.clone(),
            lanes,
            is_redis: redis.is_some(),
            policy: policy.clone(),
        };
        let tally = crash(&kind, &folder, rounds, depth, seed)?;
        println!(
            "{policy}: {rounds} kills, {} writes acknowledged, {} lost in {} rounds",
            tally.acknowledged, tally.lost, tally.rounds_with_loss
        );
        lost += tally.lost;
    }
    match lost {
        0 => Ok(()),
        _ => Err(Failure::new("acknowledged writes were lost")),
    }
}

/// The result of all rounds.
#[derive(Debug, Default)]
struct Tally {
    acknowledged: u64,
    lost: u64,
    rounds_with_loss: u64,
}

fn crash(
    kind: &Kind,
    folder: &Path,
    rounds: u64,
    depth: usize,
    seed: u64,
) -> Result<Tally, Failure> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(Failure::at(folder))?;
    let mut random = seed;
    let mut tally = Tally::default();
    // For each writer, the acknowledged number of list elements and counter value.
    let mut acknowledged = [0_u64; WRITERS];
    for round in 0..=rounds {
        let server = Server::start(kind, folder)?;
        let mut client = Client::connect(server.port())?;
        let mut lost = 0;
        for (writer, known) in acknowledged.iter_mut().enumerate() {
            let found = client.number(&["LLEN", &format!("list:{writer}")])?;
            let counter = client.number(&["INCRBY", &format!("counter:{writer}"), "0"])?;
            lost += known.saturating_sub(found) + known.saturating_sub(counter);
            if found > 0 {
                // Element N contains N, so no element is missing in the middle or duplicated.
                let last = client.text(&["LINDEX", &format!("list:{writer}"), "-1"])?;
                if last != found.to_string() {
                    let text = format!("round {round}: element {found} of a list is {last}");
                    return Err(Failure::new(text));
                }
            }
            *known = found;
            if found > ELEMENTS_MAX {
                // The lists are deleted, so that the last start takes no longer than the first.
                let names = [format!("list:{writer}"), format!("counter:{writer}")];
                client.number(&["DEL", &names[0], &names[1]])?;
                *known = 0;
            }
        }
        if lost > 0 {
            println!("round {round}: {lost} acknowledged writes are lost");
            tally.lost += lost;
            tally.rounds_with_loss += 1;
        }
        if round == rounds {
            break;
        }
        let starting = acknowledged;
        acknowledged = load(server, starting, depth, next(&mut random))?;
        let grown = acknowledged.iter().zip(starting);
        tally.acknowledged += grown.map(|(now, before)| 2 * (now - before)).sum::<u64>();
    }
    Ok(tally)
}

/// Lets writers write until the server is killed. Returns what was acknowledged to each.
fn load(
    server: Server,
    starting: [u64; WRITERS],
    depth: usize,
    random: u64,
) -> Result<[u64; WRITERS], Failure> {
    let port = server.port();
    let acknowledged = starting.map(AtomicU64::new);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (writer, own) in acknowledged.iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || {
                // An error means that the server has ended.
                let _ = write(port, writer, own, depth);
                is_over.store(true, Ordering::Release);
            });
        }
        let begin = Instant::now();
        let lasts = Duration::from_millis(50 + random % 250);
        let job = match random >> 32 & 3 {
            0 => Some("BGREWRITEAOF"),
            1 => Some("BGSAVE"),
            _ => None,
        };
        if let Some(job) = job
            && let Ok(mut client) = Client::connect(port)
        {
            let _ = client.text(&[job]);
        }
        while begin.elapsed() < lasts && !is_over.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ended_by_itself = is_over.load(Ordering::Acquire);
        // Dropping the server sends SIGKILL.
        drop(server);
        match ended_by_itself {
            true => Err(Failure::new(
                "a writer's connection ended before the server did",
            )),
            false => Ok(()),
        }
    })?;
    Ok(acknowledged.map(AtomicU64::into_inner))
}

fn write(port: u16, writer: usize, acknowledged: &AtomicU64, depth: usize) -> Result<(), Failure> {
    let mut client = Client::connect(port)?;
    let (list, counter) = (format!("list:{writer}"), format!("counter:{writer}"));
    let mut value = acknowledged.load(Ordering::Relaxed);
    client.number(&["SET", &counter, &value.to_string()])?;
    loop {
        let mut request = Vec::new();
        for ahead in 1..=depth as u64 {
            let element = (value + ahead).to_string();
            push(&mut request, &["INCR", &counter]);
            push(&mut request, &["RPUSH", &list, &element]);
        }
        client.send(&request)?;
        for _ in 0..depth {
            client.reply()?;
            client.reply()?;
            value += 1;
            acknowledged.store(value, Ordering::Release);
        }
    }
}

/// A connection to the server.
struct Client {
    socket: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    fn connect(port: u16) -> Result<Self, Failure> {
        let failed = |error| Failure::new(format!("port {port}: {error}"));
        let socket = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
        let reader = BufReader::new(socket.try_clone().map_err(failed)?);
        let mut client = Self { socket, reader };
        // Retries until the server has loaded its data.
        let begin = Instant::now();
        while let Err(error) = client.number(&["DBSIZE"]) {
            if begin.elapsed() > LOAD_TIME_MAX {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(client)
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Failure> {
        let sent = self.socket.write_all(request);
        sent.map_err(|error| Failure::new(error.to_string()))
    }

    fn reply(&mut self) -> Result<String, Failure> {
        let failed = |error: std::io::Error| Failure::new(error.to_string());
        let mut line = String::new();
        self.reader.read_line(&mut line).map_err(failed)?;
        let Some(text) = line.strip_suffix("\r\n") else {
            return Err(Failure::new("the connection has ended"));
        };
        match text.split_at_checked(1) {
            Some(("+" | ":", rest)) => Ok(rest.to_owned()),
            Some(("$", length)) => {
                let length: usize = length.parse().unwrap_or(0);
                let mut body = vec![0; length + 2];
                self.reader.read_exact(&mut body).map_err(failed)?;
                body.truncate(length);
                Ok(String::from_utf8_lossy(&body).into_owned())
            }
            _ => Err(Failure::new(format!("an error: {text}"))),
        }
    }

    fn text(&mut self, words: &[&str]) -> Result<String, Failure> {
        let mut request = Vec::new();
        push(&mut request, words);
        self.send(&request)?;
        self.reply()
    }

    fn number(&mut self, words: &[&str]) -> Result<u64, Failure> {
        let text = self.text(words)?;
        Ok(text.parse().unwrap_or(0))
    }
}

fn push(request: &mut Vec<u8>, words: &[&str]) {
    request.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        request.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

/// Returns the next number of a series (SplitMix64).
fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *random;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

const WRITERS: usize = 6;
const ELEMENTS_MAX: u64 = 20_000;
const LOAD_TIME_MAX: Duration = Duration::from_secs(30);
