//! Commands that may make a server wait: scripts, blocking commands, pauses, and commands that
//! inspect other clients.

use crate::model::generator::{Random, Words};

/// Commands that would end the test or change what it tests.
pub(super) const LEFT_OUT: &[&str] = &[
    "shutdown",
    "debug",
    "replicaof",
    "slaveof",
    "failover",
    "migrate",
];

/// Returns a known command with a few words that may or may not be valid arguments.
pub(super) fn any(random: &mut Random, commands: &[String]) -> Words {
    let name = commands[random.below(commands.len())].clone();
    let mut words = vec![name.into_bytes()];
    for _ in 0..random.below(6) {
        let word = random.pick(WORDS);
        words.push(filled(random, word));
    }
    words
}

/// Returns commands that may wait, or end a wait.
pub(super) fn special(random: &mut Random) -> Vec<Words> {
    if random.is_one_in(3) {
        return transaction(random);
    }
    let line = random.pick(SPECIAL);
    vec![of_line(random, line)]
}

fn transaction(random: &mut Random) -> Vec<Words> {
    let mut commands = Vec::new();
    if random.is_one_in(3) {
        commands.push(of_line(random, "WATCH K K"));
    }
    commands.push(of_line(random, "MULTI"));
    for _ in 0..1 + random.below(5) {
        let line = random.pick(SPECIAL);
        commands.push(of_line(random, line));
    }
    let end = random.pick(&["EXEC", "EXEC", "EXEC", "DISCARD", "RESET"]);
    commands.push(of_line(random, end));
    commands
}

fn of_line(random: &mut Random, line: &str) -> Words {
    let words = line.split(' ');
    words.map(|word| filled(random, word)).collect()
}

fn filled(random: &mut Random, word: &str) -> Vec<u8> {
    let text = match word {
        "K" => format!("key:{}", random.below(12)),
        "N" => random.below(100).to_string(),
        // Seconds for which a client waits; some wait until they are served or disconnect.
        "T" => random.pick(&["0", "0.01", "0.05", "1"]).to_string(),
        "L" => random.pick(SCRIPTS).to_string(),
        _ => return word.as_bytes().to_vec(),
    };
    text.into_bytes()
}

/// Scripts: short ones, some that run longer than the threshold, and endless ones, which only read,
/// so that they can be killed.
const SCRIPTS: &[&str] = &[
    "return 1",
    "return redis.call('DBSIZE')",
    "redis.call('SET', 'key:1', 'value') return redis.call('GET', 'key:1')",
    "redis.call('RPUSH', 'key:2', 'a', 'b') return redis.call('LLEN', 'key:2')",
    "return redis.call('INFO')",
    "return redis.call('PUBLISH', 'channel', 'message')",
    "return redis.pcall('BLPOP', 'key:3', '0')",
    "return redis.pcall('SCRIPT', 'KILL')",
    "return redis.pcall('FUNCTION', 'STATS')",
    "return redis.call('FLUSHALL')",
    "return redis.pcall('CLIENT', 'LIST')",
    "redis.setresp(3) return redis.call('HGETALL', 'key:4')",
    "local start = os.clock() while os.clock() - start < 0.02 do end return 2",
    "local start = os.clock() while os.clock() - start < 0.12 do end return 3",
    "redis.call('INCR', 'key:5') local start = os.clock() while os.clock() - start < 0.1 do end",
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "while true do redis.call('GET', 'key:6') end",
    "return nosuch",
    "return (",
    "error('no')",
];

/// Letters stand for words: K for a key, N for a number, T for a timeout, L for a script.
const SPECIAL: &[&str] = &[
    "EVAL L 0",
    "EVAL L 0",
    "EVAL L 1 K",
    "EVAL_RO L 0",
    "SCRIPT KILL",
    "SCRIPT LOAD L",
    "SCRIPT FLUSH",
    "SCRIPT EXISTS N",
    "FUNCTION STATS",
    "FUNCTION KILL",
    "FUNCTION LIST",
    "FUNCTION DUMP",
    "FUNCTION FLUSH",
    "FCALL f 0",
    "BLPOP K K T",
    "BRPOP K T",
    "BLMOVE K K LEFT RIGHT T",
    "BLMPOP T 2 K K LEFT",
    "BZPOPMIN K K T",
    "BZMPOP T 1 K MIN",
    "XREAD BLOCK N STREAMS K $",
    "XREADGROUP GROUP g c BLOCK N STREAMS K >",
    "XGROUP CREATE K g $ MKSTREAM",
    "XADD K * f v",
    "RPUSH K a b c",
    "ZADD K N a N b",
    "DEL K K K",
    "RENAME K K",
    "COPY K K",
    "SWAPDB 0 1",
    "FLUSHALL",
    "FLUSHALL ASYNC",
    "FLUSHDB",
    "DBSIZE",
    "KEYS *",
    "SCAN 0 COUNT 100",
    "SORT K",
    "WAIT 1 N",
    "WAITAOF 0 1 N",
    "CLIENT PAUSE 20 ALL",
    "CLIENT PAUSE 20 WRITE",
    "CLIENT UNPAUSE",
    "CLIENT KILL TYPE normal SKIPME no MAXAGE N",
    "CLIENT KILL ID N",
    "CLIENT UNBLOCK N",
    "CLIENT UNBLOCK N ERROR",
    "CLIENT LIST",
    "CLIENT INFO",
    "CLIENT TRACKING ON",
    "CLIENT TRACKING ON BCAST PREFIX key:",
    "CLIENT TRACKING OFF",
    "CLIENT NO-TOUCH ON",
    "CLIENT REPLY SKIP",
    "CLIENT SETNAME n",
    "MONITOR",
    "SUBSCRIBE channel K",
    "PSUBSCRIBE *",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "PUBLISH channel message",
    "SSUBSCRIBE channel",
    "HELLO 3",
    "HELLO 2",
    "RESET",
    "QUIT",
    "SELECT 1",
    "WATCH K K K",
    "UNWATCH",
    "INFO everything",
    "INFO lanes",
    "MEMORY STATS",
    "MEMORY USAGE K",
    "LATENCY RESET",
    "SLOWLOG GET",
    "CONFIG RESETSTAT",
    "CONFIG SET busy-reply-threshold 20",
    "CONFIG SET busy-reply-threshold 100",
    "CONFIG SET maxmemory 100mb",
    "CONFIG SET maxmemory 0",
    "CONFIG SET notify-keyspace-events KEA",
    "CONFIG SET appendonly yes",
    "CONFIG SET appendonly no",
    "CONFIG SET lua-time-limit 50",
    "ACL SETUSER u on nopass ~* &* +@all",
    "ACL SETUSER u off -@all",
    "ACL DELUSER u",
    "ACL LIST",
    "AUTH u x",
    "SAVE",
    "BGSAVE",
    "BGREWRITEAOF",
    "DEBUG SLEEP 0.01",
    "DEBUG RELOAD",
    "DEBUG JMAP",
    "SET live:a N",
    "SET K N PX N",
    "EXPIRE K 1",
    "OBJECT ENCODING K",
    "SUNSUBSCRIBE",
];

const WORDS: &[&str] = &[
    "K", "K", "K", "N", "N", "T", "0", "1", "-1", "*", "a", "b", "LEFT", "COUNT", "10", "GET",
    "SET", "STORE", "STREAMS", "$", "channel", "ASYNC", "RESET", "LIST", "HELP", "", "1.5", "inf",
];
