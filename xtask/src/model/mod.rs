//! `cargo xtask model`: sends the same random commands to a real Redis and to Tidewire. Every reply
//! must be equal.

mod followers;
mod forms;
pub(crate) mod generator;
mod normal_form;
mod peer;
mod reply;
mod shrink;

use crate::arguments::Arguments;
use crate::server::{self, Kind};
use crate::shell::{Failure, Shell};
use followers::Follower;
use generator::{Generator, Random, Step, Wanted};
use peer::Peer;
use reply::Reply;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

/// Runs `model` with the options of the command line.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut arguments = Arguments::new(arguments);
    let shell = Shell::new(root);
    let lanes = arguments.values("--lanes")?;
    let path = |value: Option<String>| value.map(PathBuf::from);
    let options = Options {
        commands: arguments.number("--commands", COMMANDS)?,
        seed: arguments.number("--seed", 1)?,
        redis: path(arguments.value("--redis")?),
        binary: path(arguments.value("--binary")?),
        other: path(arguments.value("--other-redis")?),
        differences_max: arguments.number("--differences", 1)?,
        known_only: arguments.flag("--known-only"),
        replicas: arguments.flag("--replicas"),
        lanes: if lanes.is_empty() {
            vec![1, 4]
        } else {
            let number = |text: &String| text.parse().ok().filter(|lanes| *lanes > 0);
            let numbers: Option<Vec<u16>> = lanes.iter().map(number).collect();
            numbers.ok_or_else(|| Failure::new("--lanes takes a number"))?
        },
    };
    arguments.end()?;
    compare(&shell, &options)
}

/// Runs the short version of `cargo xtask test` against the installed Redis.
pub(crate) fn short(shell: &Shell) -> Result<(), Failure> {
    if !shell.program("redis-server", ["--version"]).succeeds() {
        println!("redis-server is absent: nothing to compare with");
        return Ok(());
    }
    compare(
        shell,
        &Options {
            commands: COMMANDS_SHORT,
            seed: 1,
            redis: None,
            binary: Some(server::build_checked(shell)?),
            other: None,
            differences_max: 1,
            known_only: false,
            replicas: false,
            lanes: vec![1, 4],
        },
    )
}

#[derive(Debug)]
struct Options {
    commands: usize,
    seed: u64,
    /// The Redis to compare with.
    redis: Option<PathBuf>,
    /// A program that is already built.
    binary: Option<PathBuf>,
    /// Another Redis in place of Tidewire.
    other: Option<PathBuf>,
    /// Maximum number of differences to search for.
    differences_max: usize,
    /// Whether commands that Tidewire lacks are ignored.
    known_only: bool,
    /// Whether a Redis 8 replicates from each Tidewire and must end with the same data.
    replicas: bool,
    lanes: Vec<u16>,
}

fn compare(shell: &Shell, options: &Options) -> Result<(), Failure> {
    let scratch = shell.target().join("model");
    fs::create_dir_all(&scratch).map_err(Failure::at(&scratch))?;
    let redis = options.redis.clone();
    let redis = Kind::redis(redis.unwrap_or_else(|| "redis-server".into()));
    let mut reference = Peer::start("Redis", redis.clone(), &scratch)?;
    let version = reference.version()?;
    println!("Redis {version}, seed {}", options.seed);
    let mut peers = vec![reference];
    if let Some(other) = &options.other {
        peers.push(Peer::start("other Redis", Kind::redis(other), &scratch)?);
    } else {
        let binary = match &options.binary {
            Some(binary) => binary.clone(),
            None => server::build(shell)?,
        };
        for &lanes in &options.lanes {
            let name = format!("Tidewire with {lanes} lanes");
            let kind = Kind::tidewire(&binary, lanes);
            peers.push(Peer::start(&name, kind, &scratch)?);
        }
    }
    let mut commands = peers[0].commands()?;
    if options.known_only {
        for peer in &mut peers[1..] {
            let known = peer.commands()?;
            commands.retain(|name| known.contains(name));
        }
    }
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let wanted = Wanted {
        version,
        commands: Rc::new(commands),
    };
    let mut followers = Vec::new();
    if options.replicas && version >= (8, 0) {
        for of in 1..peers.len() {
            followers.push(Follower::start(&peers, of, &redis, &scratch)?);
        }
    }
    let mut comparison = Comparison {
        peers,
        followers,
        wanted,
    };
    comparison.run(options)
}

/// The servers, with the real Redis first.
#[derive(Debug)]
pub(crate) struct Comparison {
    peers: Vec<Peer>,
    followers: Vec<Follower>,
    wanted: Wanted,
}

/// A reply that differs from Redis's.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The index of the step in the history.
    at: usize,
    /// The command in readable form.
    command: String,
    expected: String,
    /// The server that sent the reply.
    name: String,
    actual: String,
}

impl Difference {
    /// Returns the kind of the difference; each kind is reported once.
    fn kind(&self) -> [String; 3] {
        let begin = |text: &str| {
            text.chars()
                .take_while(|c| !c.is_ascii_digit())
                .take(30)
                .collect()
        };
        [&self.command, &self.expected, &self.actual].map(|text| begin(text))
    }
}

impl Comparison {
    /// Runs chapters, which begin with empty servers, so that no history is long.
    fn run(&mut self, options: &Options) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut seeds = Random::new(options.seed);
        let (mut commands, mut differences) = (0, BTreeSet::new());
        while commands < options.commands {
            let mut generator = Generator::new(seeds.next(), &self.wanted);
            let wanted = CHAPTER_COMMANDS.min(options.commands - commands);
            let mut history: Vec<Step> = Vec::new();
            let count = |history: &[Step]| -> usize {
                history.iter().map(|step| step.commands.len()).sum()
            };
            let mut left = wanted;
            while left > 0 {
                let step = generator.step();
                left = left.saturating_sub(step.commands.len());
                history.push(step);
            }
            let Some(difference) = self.play(&history)? else {
                commands += count(&history);
                for follower in &mut self.followers {
                    follower.check(&mut self.peers)?;
                }
                continue;
            };
            commands += count(&history[..=difference.at]);
            if differences.insert(difference.kind()) {
                history.truncate(difference.at + 1);
                shrink::report(self, history, difference)?;
            }
            if differences.len() >= options.differences_max {
                break;
            }
        }
        let seconds = begin.elapsed().as_secs_f32();
        println!(
            "{commands} commands in {seconds:.1} s, {} differences",
            differences.len()
        );
        if differences.is_empty() {
            return Ok(());
        }
        Err(Failure::new("replies differ from Redis's"))
    }

    /// Plays a history to empty servers and returns the first difference.
    pub(crate) fn play(&mut self, history: &[Step]) -> Result<Option<Difference>, Failure> {
        for peer in &mut self.peers {
            peer.reset()?;
        }
        let mut begin = 0;
        while begin < history.len() {
            // Consecutive commands of one connection form a pipeline.
            let connection = history[begin].connection;
            let len = history[begin..]
                .iter()
                .take(PIPELINE_STEPS)
                .take_while(|step| step.connection == connection)
                .count();
            let pipeline = &history[begin..begin + len];
            let commands: Vec<_> = pipeline
                .iter()
                .flat_map(|step| step.commands.clone())
                .collect();
            for peer in &mut self.peers {
                // A command that cannot be sent gets no reply either.
                let _ = peer.send(connection, &commands);
            }
            for (number, step) in pipeline.iter().enumerate() {
                if let Some(difference) = self.difference(begin + number, step) {
                    self.drain(&pipeline[number + 1..]);
                    return Ok(Some(difference));
                }
            }
            begin += len;
        }
        Ok(None)
    }

    fn difference(&mut self, at: usize, step: &Step) -> Option<Difference> {
        let mut all: Vec<Vec<_>> = self
            .peers
            .iter_mut()
            .map(|peer| peer.replies(step))
            .collect();
        let expected = all.remove(0);
        for (number, actual) in all.iter().enumerate() {
            for (index, words) in step.commands.iter().enumerate() {
                let (one, other) = (expected.get(index), actual.get(index));
                if let (Some(Ok(one)), Some(Ok(other))) = (one, other)
                    && one == other
                {
                    continue;
                }
                return Some(Difference {
                    at,
                    command: print(words),
                    expected: show(one),
                    name: self.peers[number + 1].name.clone(),
                    actual: show(other),
                });
            }
        }
        None
    }

    /// Reads all outstanding replies, so that the next history starts with empty connections.
    fn drain(&mut self, rest: &[Step]) {
        for peer in &mut self.peers {
            for step in rest {
                if peer.replies(step).last().is_some_and(Result::is_err) {
                    break;
                }
            }
        }
    }
}

fn show(reply: Option<&Result<Reply, peer::Silence>>) -> String {
    match reply {
        Some(Ok(reply)) => reply.print(),
        Some(Err(silence)) => format!("({})", silence.0),
        None => "(nothing)".into(),
    }
}

/// Returns a command in the form that `redis-cli` accepts.
pub(crate) fn print(words: &[Vec<u8>]) -> String {
    let word = |word: &Vec<u8>| {
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
        if !word.is_empty() && word.iter().all(is_plain) {
            String::from_utf8_lossy(word).into_owned()
        } else {
            format!("\"{}\"", word.escape_ascii())
        }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

const COMMANDS: usize = 1_000_000;
const COMMANDS_SHORT: usize = 20_000;
const CHAPTER_COMMANDS: usize = 10_000;
const PIPELINE_STEPS: usize = 64;
