//! A Redis client that sends any commands to keys of its own, and knows nothing of them: what a
//! master has then, its replica and its own files must have.

use super::resp_link::RespLink;
use crate::peer::{Around, PeerOfHub, Verdict};
use crate::plan::{End, Plan};
use crate::random::Random;

/// See the [module](self).
pub(crate) struct Scribbler {
    number: usize,
    link: RespLink,
    /// Replies that are still to come.
    awaited: usize,
    asked_ns: u64,
    /// `maxmemory` may be set.
    is_limited: bool,
}

impl Scribbler {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            link: RespLink::default(),
            awaited: 0,
            asked_ns: 0,
            is_limited: false,
        }
    }

    fn send(&mut self, around: &Around<'_>, words: &[String]) {
        if self.awaited == 0 {
            self.asked_ns = around.now_ns;
        }
        self.link.send(words);
        self.awaited += 1;
    }

    /// Sends a command, or a few as one.
    fn begin(&mut self, around: &mut Around<'_>) {
        let kind = around.random.below(100);
        match kind {
            0..8 => {
                let database = *around.random.pick(&DATABASES);
                self.send(around, &["SELECT".to_owned(), database.to_string()]);
            }
            8..16 => {
                self.send(around, &["MULTI".to_owned()]);
                for _ in 0..around.random.between(1, 4) {
                    let words = self.command(around.random);
                    self.send(around, &words);
                }
                self.send(around, &["EXEC".to_owned()]);
            }
            16..22 => {
                let words = self.command(around.random);
                let script = "redis.pcall('INCR', KEYS[1]) return redis.pcall(unpack(ARGV))";
                let counter = format!("s{}:scripts", self.number);
                let mut all = ["EVAL", script, "1", &counter].map(str::to_owned).to_vec();
                all.extend(words);
                self.send(around, &all);
            }
            22..24 if around.plan.evicts => {
                self.is_limited = !self.is_limited;
                let bytes = if self.is_limited { "1" } else { "0" };
                self.send(
                    around,
                    &["CONFIG", "SET", "maxmemory", bytes].map(str::to_owned),
                );
            }
            _ => {
                let words = self.command(around.random);
                self.send(around, &words);
            }
        }
    }

    fn command(&self, random: &mut Random) -> Vec<String> {
        let template = *random.pick(COMMANDS);
        let words = template.split(' ').map(|word| match word {
            "k" => format!("s{}:{}", self.number, random.below(4)),
            "m" => ((b'a' + random.below(5) as u8) as char).to_string(),
            "n" => random.below(20).to_string(),
            "v" => "v".repeat(random.below(30) as usize),
            "long" => "l".repeat(random.between(1_000, 30_000) as usize),
            "ms" => random.between(1, 2_000).to_string(),
            word => word.to_owned(),
        });
        // A key holds one type for most of its time: others are refused.
        let mut words: Vec<String> = words.collect();
        let kind = kind_of(&words[0]);
        for word in &mut words {
            if word.starts_with('s') && word.contains(':') && !random.chance(50) {
                word.push_str(kind);
            }
        }
        words
    }
}

/// The type of the keys that a command is for.
fn kind_of(name: &str) -> &'static str {
    match name.as_bytes() {
        [b'H', ..] => "h",
        [b'S', b'A' | b'P' | b'M' | b'D' | b'R' | b'I', ..] => "s",
        [b'Z', ..] | [b'G', b'E', b'O', ..] => "z",
        [b'X', ..] => "x",
        [b'L' | b'R', b'P' | b'S' | b'T' | b'M' | b'R' | b'I', ..] | [b'B', b'L', ..] => "l",
        _ => "",
    }
}

impl PeerOfHub for Scribbler {
    fn name(&self) -> String {
        format!("scribbler {}", self.number)
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        self.link.step(around)?;
        if !self.link.is_open() {
            self.link.connect(around);
            self.awaited = 0;
            // Others have the first database.
            self.send(around, &["SELECT".to_owned(), DATABASES[0].to_string()]);
        }
        while self.link.reply().is_some() {
            let left = self.awaited.checked_sub(1);
            self.awaited = left.ok_or("a reply to nothing")?;
            self.asked_ns = around.now_ns;
        }
        if around.is_quiet {
            let is_overdue = self.awaited > 0 && around.now_ns > self.asked_ns + PATIENCE_NS;
            if is_overdue {
                return Err(format!("{} replies are missing", self.awaited));
            }
            if self.awaited == 0 && std::mem::take(&mut self.is_limited) {
                self.send(
                    around,
                    &["CONFIG", "SET", "maxmemory", "0"].map(str::to_owned),
                );
            }
        } else if around.random.chance(3) {
            self.link.close();
        } else if self.awaited < AWAITED_MAX && around.random.chance(300) {
            self.begin(around);
        }
        Ok(())
    }

    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        self.link.close();
        (self.awaited, self.is_limited) = (0, false);
    }

    fn is_settled(&self) -> bool {
        self.awaited == 0 && !self.is_limited
    }

    fn check(&mut self, _around: &mut Around<'_>) -> Verdict {
        Ok(())
    }
}

/// Commands: `k` is one of its keys, `m` a member, `n` a number, `v` and `long` values, `ms` a
/// time.
const COMMANDS: &[&str] = &[
    "SET k v",
    "SET k v PX ms",
    "SET k long",
    "HSET k m long",
    "SET k long PX ms",
    "SET k n XX KEEPTTL",
    "PSETEX k ms n",
    "GETEX k PX ms",
    "GETDEL k",
    "INCRBY k n",
    "INCRBY k n",
    "INCRBYFLOAT k 0.3",
    "APPEND k v",
    "APPEND k v",
    "SETRANGE k n v",
    "SETBIT k n 1",
    "BITFIELD k INCRBY u8 n 7",
    "PFADD k m m",
    "PEXPIRE k ms",
    "PEXPIRE k ms NX",
    "PERSIST k",
    "GET k",
    "DEL k",
    "UNLINK k k",
    "RENAME k k",
    "COPY k k REPLACE",
    "MOVE k 6",
    "LPUSH k m n",
    "RPUSH k m",
    "RPOP k",
    "LPOP k 2",
    "LMOVE k k LEFT RIGHT",
    "LTRIM k 0 5",
    "LSET k 0 v",
    "LREM k 1 m",
    "BLPOP k 0.1",
    "BLMOVE k k LEFT LEFT 0.1",
    "SADD k m m",
    "SADD k n",
    "SPOP k",
    "SPOP k 2",
    "SREM k m",
    "SMOVE k k m",
    "SDIFFSTORE k k k",
    "SORT k ALPHA STORE k",
    "HSET k m v",
    "HSET k m n m n",
    "HINCRBY k m n",
    "HINCRBYFLOAT k m 0.1",
    "HDEL k m",
    "HPEXPIRE k ms FIELDS 1 m",
    "HPERSIST k FIELDS 1 m",
    "HGETDEL k FIELDS 1 m",
    "HSETEX k PX ms FIELDS 1 m v",
    "ZADD k n m",
    "ZINCRBY k n m",
    "ZADD k GT n m",
    "ZPOPMIN k",
    "ZREMRANGEBYRANK k 0 0",
    "ZUNIONSTORE k 2 k k",
    "ZRANGESTORE k k 0 2",
    "GEOADD k 13.3 38.1 m",
    "XADD k * m v",
    "XADD k MAXLEN 4 * m n",
    "XTRIM k MAXLEN 2",
    "XGROUP CREATE k g 0 MKSTREAM",
    "XREADGROUP GROUP g c COUNT 1 STREAMS k >",
    "XAUTOCLAIM k g d 0 0",
    "XSETID k 9999999999999-1",
    "FLUSHDB",
    "SWAPDB 5 6",
    "PUBLISH other m",
];
/// Databases of which it may have all keys: no other peer uses them.
const DATABASES: [usize; 2] = [5, 6];
const AWAITED_MAX: usize = 8;
/// For so long a reply may be waited for once nothing else goes on, simulated ns.
const PATIENCE_NS: u64 = 120_000_000_000;
