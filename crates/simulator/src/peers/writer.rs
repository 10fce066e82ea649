//! A Redis client that writes keys of its own, and knows what they must be.

use std::collections::VecDeque;

use tidewire_resp::Value;

use super::model::{Model, Words, database, query};
use super::resp_link::RespLink;
use crate::peer::{Around, PeerOfHub, Verdict};
use crate::plan::{End, Plan};

/// See the [module](self).
pub(crate) struct Writer {
    number: usize,
    link: RespLink,
    phase: Phase,
    /// It has looked at its keys in this process.
    has_looked: bool,
    /// What a query has shown, or nothing at the start.
    base: Model,
    /// What was replied to since.
    acknowledged: Vec<Operation>,
    /// What was sent and not replied to.
    in_flight: VecDeque<Operation>,
    /// So many of `acknowledged` must be there after the process has ended.
    floor: usize,
    /// So many are on the disk, as WAITAOF has said.
    synced: usize,
    /// The database that the connection has selected, once all that was sent is executed.
    database: usize,
    /// The keys after all of `acknowledged`.
    now: Model,
    published: u64,
    /// Of the stream: an id is never used twice, also if it was refused.
    next_entry: u64,
    /// When the oldest of `in_flight` was sent, or the query.
    asked_ns: u64,
    /// Its connection has changed something.
    has_changed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not connected, or keys are being loaded.
    Joining,
    /// Its keys are asked for.
    Looking,
    Working,
}

/// Commands that are executed as one.
#[derive(Clone, Debug)]
struct Operation {
    commands: Vec<Words>,
    way: Way,
    /// Replies that are still to come.
    replies_left: usize,
    /// Of a wait: what is confirmed by the reply.
    awaited: Awaited,
}

/// What a replica has that confirms a wait.
#[derive(Clone, Copy, Debug, Default)]
struct Awaited {
    /// The place in the writer's history.
    place: usize,
    /// Lives of the replica that had ended.
    replicas_ended: u64,
    /// The connection has changed something before: a wait is for changes of its own connection.
    has_changed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Alone,
    /// MULTI … EXEC.
    Transaction,
    /// A script of the last command alone, or of all.
    Script,
    /// PUBLISH: no key.
    Publish,
    /// SELECT, of what is sent behind it.
    Select,
    /// WAIT for a replica.
    Wait,
    /// WAITAOF for the disk, and perhaps for a replica's.
    WaitForDisk,
}

impl Writer {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            link: RespLink::default(),
            phase: Phase::Joining,
            has_looked: false,
            base: Model::default(),
            acknowledged: Vec::new(),
            in_flight: VecDeque::new(),
            floor: 0,
            synced: 0,
            database: 0,
            now: Model::default(),
            published: 0,
            next_entry: 1,
            asked_ns: 0,
            has_changed: false,
        }
    }

    fn key(&self, suffix: &str) -> Vec<u8> {
        key(self.number, suffix)
    }

    fn live_key(&self) -> Vec<u8> {
        live_key(self.number)
    }

    /// Asks for all keys at once.
    fn ask(&mut self, around: &Around<'_>) {
        ask_for_all(&mut self.link, self.number);
        self.asked_ns = around.now_ns;
        self.phase = Phase::Looking;
    }

    /// Takes the replies of a look: true when the keys are known.
    fn look(&mut self, around: &mut Around<'_>) -> Result<bool, String> {
        while let Some(reply) = self.link.reply() {
            match reply {
                Value::Simple(_) => {}
                Value::Error(text) if is_refusal(&text) => {
                    // Every reply but the last is one line; a new connection begins anew.
                    self.link.close();
                    self.phase = Phase::Joining;
                    return Ok(false);
                }
                Value::Array(shown) => {
                    self.compare(around, &shown)?;
                    return Ok(true);
                }
                other => return Err(format!("a look is answered with {other:?}")),
            }
        }
        Ok(false)
    }

    /// Compares what is there with all that may be there.
    fn compare(&mut self, around: &mut Around<'_>, shown: &[Value]) -> Verdict {
        let found = found(self.number, shown);
        if std::mem::replace(&mut self.has_looked, true) {
            // What was there before in this process may still be lost: it stays in the history.
            return match found == self.now {
                true => Ok(()),
                false => Err(format!(
                    "the keys have changed: {}",
                    found.difference(&self.now)
                )),
            };
        }
        if !self.may_be(&found) {
            return Err(format!(
                "{} of {} acknowledged commands must be there, {} are in flight, and the keys are \
                 none of what they may be: {}",
                self.floor,
                self.acknowledged.len(),
                self.in_flight.len(),
                found.difference(&self.now)
            ));
        }
        if let Some(value) = found.number_of(&self.live_key()) {
            around.ledger.live.insert(self.live_key(), value);
        } else {
            around.ledger.live.remove(&self.live_key());
        }
        if around.plan.is_followed {
            let history = around.ledger.histories.entry(self.number).or_default();
            history.begin(found.clone());
        }
        (self.base, self.now) = (found.clone(), found);
        self.acknowledged.clear();
        self.in_flight.clear();
        (self.floor, self.synced) = (0, 0);
        Ok(())
    }

    fn may_be(&self, found: &Model) -> bool {
        let mut model = self.base.clone();
        let mut is_found = self.floor == 0 && model == *found;
        for (place, operation) in self.acknowledged.iter().enumerate() {
            operation.apply(&mut model);
            is_found |= place + 1 >= self.floor && model == *found;
        }
        // Those in flight: each may have been executed, or refused; in their order.
        let flying: Vec<_> = self.in_flight.iter().collect();
        (0..1u32 << flying.len()).any(|chosen| {
            let mut model = model.clone();
            for (place, operation) in flying.iter().enumerate() {
                if chosen >> place & 1 == 1 {
                    operation.apply(&mut model);
                }
            }
            model == *found
        }) || is_found
    }

    fn work(&mut self, around: &mut Around<'_>) -> Verdict {
        while let Some(reply) = self.link.reply() {
            self.take(around, reply)?;
        }
        let patience_ns = around.now_ns.saturating_sub(self.asked_ns);
        if !self.in_flight.is_empty() && around.is_quiet && patience_ns > PATIENCE_NS {
            return Err(format!("no reply to {:?}", self.in_flight[0]));
        }
        if around.is_quiet || !self.link.is_open() {
            return Ok(());
        }
        if self.in_flight.is_empty() && around.random.chance(4) {
            self.link.close();
        } else if self.in_flight.len() < IN_FLIGHT_MAX && around.random.chance(300) {
            self.begin(around);
        }
        Ok(())
    }

    fn take(&mut self, around: &mut Around<'_>, reply: Value) -> Verdict {
        let own = format!("{reply:?}");
        let operation = self.in_flight.front_mut();
        let operation = operation.ok_or_else(|| format!("{own} answers nothing"))?;
        operation.replies_left -= 1;
        let may_be_refused = around.plan.has_faults();
        if operation.replies_left > 0 {
            return match &reply {
                Value::Simple(text) if text == b"OK" || text == b"QUEUED" => Ok(()),
                Value::Error(text) if may_be_refused && is_refusal(text) => Ok(()),
                _ => Err(format!("{own} answers a command of a transaction")),
            };
        }
        let operation = self.in_flight.pop_front().expect("it was there");
        self.asked_ns = around.now_ns;
        if let Value::Error(text) = &reply
            && may_be_refused
            && is_refusal(text)
        {
            return Ok(());
        }
        let before = self.now.clone();
        let expected = operation.apply(&mut self.now);
        self.has_changed |= self.now != before;
        let is_right = match operation.way {
            Way::Publish => matches!(reply, Value::Integer(_)),
            Way::Select => matches!(reply, Value::Simple(_)),
            Way::Wait | Way::WaitForDisk => self.note_wait(around, &operation, &reply),
            Way::Script => expected.last().is_some_and(|last| is_same(last, &reply)),
            Way::Alone => is_same(&expected[0], &reply),
            Way::Transaction => match &reply {
                Value::Array(list) if list.len() == expected.len() => list
                    .iter()
                    .zip(&expected)
                    .all(|(one, other)| is_same(other, one)),
                _ => false,
            },
        };
        if !is_right {
            return Err(format!("{reply:?} answers {operation:?}, not {expected:?}"));
        }
        if let Some(value) = self.now.number_of(&self.live_key()) {
            around.ledger.live.insert(self.live_key(), value);
        }
        self.acknowledged.push(operation);
        Ok(())
    }

    /// Notes what a wait confirms; whether the reply is one to a wait.
    fn note_wait(&mut self, around: &mut Around<'_>, wait: &Operation, reply: &Value) -> bool {
        let (local, replicas, on_disk) = match (wait.way, reply) {
            (Way::Wait, Value::Integer(replicas @ 0..=1)) => (0, *replicas, false),
            (Way::WaitForDisk, Value::Array(counts)) => match counts.as_slice() {
                [
                    Value::Integer(local @ 0..=1),
                    Value::Integer(replicas @ 0..=1),
                ] => (*local, *replicas, true),
                _ => return false,
            },
            _ => return false,
        };
        if !wait.awaited.has_changed {
            return true;
        }
        if local == 1 {
            self.synced = self.acknowledged.len();
        }
        let is_same_replica = wait.awaited.replicas_ended == around.ledger.replicas_ended;
        if replicas == 1 && (on_disk || is_same_replica) {
            let history = around.ledger.histories.entry(self.number).or_default();
            history.confirm(wait.awaited.place, on_disk);
        }
        true
    }

    /// Sends a wait for all that was sent before.
    fn begin_wait(&mut self, around: &mut Around<'_>, way: Way) {
        let timeout_ms = digits(around.random.between(1, 3_000));
        let replicas = digits(match around.plan.is_followed {
            true => u64::from(around.random.chance(800)),
            false => 0,
        });
        let command = match way {
            Way::Wait => words(&[b"WAIT", b"1", &timeout_ms]),
            _ => words(&[b"WAITAOF", b"1", &replicas, &timeout_ms]),
        };
        let history = around.ledger.histories.entry(self.number).or_default();
        let awaited = Awaited {
            place: history.place(),
            replicas_ended: around.ledger.replicas_ended,
            has_changed: self.has_changed,
        };
        self.link.send(&command);
        self.push(around, vec![command], way, awaited);
    }

    fn push(&mut self, around: &Around<'_>, commands: Vec<Words>, way: Way, awaited: Awaited) {
        if self.in_flight.is_empty() {
            self.asked_ns = around.now_ns;
        }
        let replies_left = match way {
            Way::Transaction => commands.len() + 2,
            _ => 1,
        };
        self.in_flight.push_back(Operation {
            commands,
            way,
            replies_left,
            awaited,
        });
    }

    /// Sends something that the seed chooses.
    fn begin(&mut self, around: &mut Around<'_>) {
        match around.random.below(100) {
            0..4 if around.plan.is_followed => return self.begin_wait(around, Way::Wait),
            4..8 => return self.begin_wait(around, Way::WaitForDisk),
            _ => {}
        }
        let mut ahead = self.now.clone();
        for operation in &self.in_flight {
            operation.apply(&mut ahead);
        }
        let kind = around.random.below(100);
        let (way, count) = match kind {
            0..10 => (Way::Publish, 0),
            10..22 => (Way::Transaction, around.random.between(1, 4)),
            22..32 => (Way::Script, around.random.between(1, 3)),
            _ => (Way::Alone, 1),
        };
        let mut commands = Vec::new();
        if way == Way::Publish {
            self.published += 1;
            let channel = format!("news:w{}", self.number);
            commands.push(words(&[
                b"PUBLISH",
                channel.as_bytes(),
                &digits(self.published),
            ]));
        }
        let mut selected = self.database;
        for _ in 0..count {
            let command = self.command(around, &ahead);
            self.next_entry += 1;
            ahead.execute(&command);
            let wanted = database(&command[1]);
            if std::mem::replace(&mut selected, wanted) != wanted {
                commands.push(select(wanted));
            }
            commands.push(command);
        }
        if way == Way::Transaction && selected != self.database {
            // Whether it is refused or not, the connection has the same database behind it.
            commands.push(select(self.database));
        }
        if way == Way::Alone && selected != self.database {
            self.database = selected;
            let command = commands.remove(0);
            self.link.send(&command);
            self.push(around, vec![command], Way::Select, Awaited::default());
        }
        match way {
            Way::Alone | Way::Publish => self.link.send(&commands[0]),
            Way::Transaction => {
                self.link.send(&[b"MULTI"]);
                commands.iter().for_each(|command| self.link.send(command));
                self.link.send(&[b"EXEC"]);
            }
            Way::Script => self.link.send(&script(&commands)),
            Way::Select | Way::Wait | Way::WaitForDisk => unreachable!("those have been sent"),
        }
        if around.plan.is_followed {
            let history = around.ledger.histories.entry(self.number).or_default();
            history.push(ahead);
        }
        self.push(around, commands, way, Awaited::default());
    }

    /// A command that fits the keys as they will be.
    fn command(&self, around: &mut Around<'_>, ahead: &Model) -> Words {
        let random = &mut *around.random;
        let few = [b'a' + random.below(6) as u8];
        let length = match random.chance(20) {
            true => random.between(1, 3_000),
            false => random.between(0, 20),
        };
        let long = vec![b'A' + random.below(26) as u8; length as usize];
        let key = |suffix| self.key(suffix);
        let live = digits(ahead.number_of(&self.live_key()).unwrap_or(0) + 1);
        let next = format!("{}-1", self.next_entry).into_bytes();
        let some = key(SUFFIXES[random.place(6)]);
        match random.below(16) {
            0 => words(&[b"SET", &key("text"), &long]),
            1 => words(&[b"APPEND", &key("text"), &long]),
            2 => words(&[b"INCRBY", &key("number"), &digits(random.between(1, 100))]),
            3 | 4 => words(&[b"RPUSH", &key("list"), &long, &few]),
            5 => words(&[b"LPOP", &key("list")]),
            6 => words(&[b"HSET", &key("hash"), &few, &long]),
            7 => words(&[b"HDEL", &key("hash"), &few]),
            8 => words(&[b"SADD", &key("set"), &few]),
            9 => words(&[b"SREM", &key("set"), &few]),
            10 => words(&[
                b"ZINCRBY",
                &key("zset"),
                &digits(random.between(1, 9)),
                &few,
            ]),
            11 => words(&[b"XADD", &key("stream"), &next, b"f", &long]),
            12 => words(&[b"DEL", &some]),
            13 => words(&[b"EXPIRE", &some, b"10000000"]),
            14 => words(&[b"PERSIST", &some]),
            _ => words(&[b"SET", &self.live_key(), &live]),
        }
    }
}

impl Operation {
    /// Executes its commands on a model; returns their replies.
    fn apply(&self, model: &mut Model) -> Vec<Value> {
        match self.way {
            Way::Publish | Way::Select | Way::Wait | Way::WaitForDisk => Vec::new(),
            _ => self
                .commands
                .iter()
                .map(|words| model.execute(words))
                .collect(),
        }
    }
}

impl PeerOfHub for Writer {
    fn name(&self) -> String {
        format!("writer {}", self.number)
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        self.link.step(around)?;
        if !self.link.is_open() {
            if self.phase == Phase::Working && !self.in_flight.is_empty() {
                return Err("the connection was closed with requests in flight".to_owned());
            }
            self.link.connect(around);
            self.has_changed = false;
            (self.phase, self.database) = (Phase::Joining, 0);
        }
        match self.phase {
            Phase::Joining => self.ask(around),
            Phase::Looking => {
                if self.look(around)? {
                    self.phase = Phase::Working;
                } else if around.is_quiet && around.now_ns > self.asked_ns + PATIENCE_NS {
                    return Err("nobody answers what the keys are".to_owned());
                }
            }
            Phase::Working => self.work(around)?,
        }
        Ok(())
    }

    fn process_ended(&mut self, plan: &Plan, end: End) {
        self.link.close();
        self.floor = match plan.keeps_replied(end) {
            // What was not known to be there before may not have been: it stays so.
            true if self.has_looked => self.acknowledged.len(),
            true => self.floor,
            false => self.synced,
        };
        let (acknowledged, floor) = (self.acknowledged.len(), self.floor);
        tracing::info!(
            peer = self.name(),
            ?end,
            acknowledged,
            floor,
            "the process has ended"
        );
        (self.phase, self.has_looked) = (Phase::Joining, false);
    }

    fn is_settled(&self) -> bool {
        self.phase == Phase::Working && self.in_flight.is_empty()
    }

    fn check(&mut self, _around: &mut Around<'_>) -> Verdict {
        Ok(())
    }
}

fn key(number: usize, suffix: &str) -> Vec<u8> {
    format!("w{number}:{suffix}").into_bytes()
}

fn live_key(number: usize) -> Vec<u8> {
    format!("live:w{number}").into_bytes()
}

fn keys(number: usize) -> Vec<Vec<u8>> {
    let own = SUFFIXES.iter().map(|suffix| key(number, suffix));
    let mut keys: Vec<_> = own.chain([live_key(number)]).collect();
    keys.sort_by_key(|key| database(key));
    keys
}

/// Asks for all keys of a writer at once.
pub(super) fn ask_for_all(link: &mut RespLink, number: usize) {
    link.send(&[b"MULTI"]);
    let mut selected = 0;
    for key in keys(number) {
        let wanted = database(&key);
        if std::mem::replace(&mut selected, wanted) != wanted {
            link.send(&select(wanted));
        }
        link.send(&query(&key));
        link.send(&[b"PTTL".as_slice(), &key]);
    }
    link.send(&select(0));
    link.send(&[b"EXEC"]);
}

fn select(database: usize) -> Words {
    words(&[b"SELECT", &digits(database as u64)])
}

/// What the reply to that shows.
pub(super) fn found(number: usize, shown: &[Value]) -> Model {
    let mut found = Model::default();
    // Each key's value and its time to live, with the replies to SELECT between them.
    let shown: Vec<_> = shown
        .iter()
        .filter(|one| !matches!(one, Value::Simple(_)))
        .collect();
    let (pairs, _) = shown.as_chunks::<2>();
    for (key, [value, deadline]) in keys(number).iter().zip(pairs) {
        found.note(key, value, deadline);
    }
    found
}

/// A script that executes commands in their order and returns the last one's reply.
fn script(commands: &[Words]) -> Words {
    let mut body = String::new();
    let (mut keys, mut arguments) = (Vec::new(), Vec::new());
    for (place, command) in commands.iter().enumerate() {
        if command[0] == b"SELECT" {
            body += &format!("redis.call('SELECT', '{}')\n", command[1].escape_ascii());
            continue;
        }
        keys.push(command[1].clone());
        let returns = if place + 1 == commands.len() {
            "return "
        } else {
            ""
        };
        body += &format!(
            "{returns}redis.call('{}', KEYS[{}]",
            command[0].escape_ascii(),
            keys.len()
        );
        for argument in &command[2..] {
            arguments.push(argument.clone());
            body += &format!(", ARGV[{}]", arguments.len());
        }
        body += ")\n";
    }
    let mut all = words(&[b"EVAL", body.as_bytes(), &digits(keys.len() as u64)]);
    all.extend(keys);
    all.extend(arguments);
    all
}

fn words(all: &[&[u8]]) -> Words {
    all.iter().map(|word| word.to_vec()).collect()
}

fn digits(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Whether two replies say the same.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other
}

/// Whether an error says that nothing was executed, because of the disk or a load.
pub(super) fn is_refusal(text: &[u8]) -> bool {
    [b"LOADING ".as_slice(), b"MISCONF ", b"EXECABORT "]
        .iter()
        .any(|code| text.starts_with(code))
}

/// What the keys of a writer end with.
const SUFFIXES: [&str; 7] = ["text", "number", "list", "hash", "set", "zset", "stream"];
/// Operations that are not replied to yet.
const IN_FLIGHT_MAX: usize = 5;
/// For so long a reply may be waited for once nothing else goes on, simulated ns.
const PATIENCE_NS: u64 = 120_000_000_000;
