//! `replay`: sends a recording, or a DBN or ITCH file, to a running hub.

mod carrier;
mod exchange;
mod input;
mod link;
mod recording;
mod report;
mod sent;

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use tidewire_dbn::book::{Depth, Unused};
use tidewire_dbn::{ReadError, Reader, RecordRef, Translator, UNDEFINED_TIME};
use tidewire_feed::wire::Message;
use tracing::warn;

use crate::failure::Failure;
use crate::options::{ReplayOptions, Speed};
use crate::stop::Stop;
use crate::target::Target;
use crate::units::grouped;
use carrier::Carrier;
use input::{Input, Kind};
use link::{Acknowledgement, Link};
use report::{Report, Rounds};
use sent::SentRound;

/// Plays a file and prints a report.
pub(crate) fn run(options: &ReplayOptions) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let to = Target::new(&options.to, &options.tls, options.login.credentials()?)?;
    let report = play(
        &options.file,
        &to,
        options.speed,
        options.repeat,
        Extras {
            orders: options.orders,
            depth: options.depth,
        },
        &stop,
    )?;
    print!("{report}");
    Ok(())
}

/// What is sent of a DBN file besides quotes, trades and what defines them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    /// Whether each order is sent whole.
    pub(crate) orders: bool,
    /// Price levels of each side, from the best; 0 for none.
    pub(crate) depth: u16,
}

impl Extras {
    /// Refuses the options for a file that has nothing for them.
    fn refuse_for(self, file: &Path, reason: &str) -> Result<(), Failure> {
        let option = match self {
            Self { orders: true, .. } => "--orders",
            Self { depth: 1.., .. } => "--depth",
            _ => return Ok(()),
        };
        let place = file.display();
        Err(Failure::usage(format!(
            "{option} is for DBN files, and {place} is none: {reason}; omit {option}"
        )))
    }
}

/// Plays `file` into the hub at `to`. Returns the report to print.
pub(crate) fn play(
    file: &Path,
    to: &Target,
    speed: Speed,
    repeat: bool,
    extras: Extras,
    stop: &Stop,
) -> Result<String, Failure> {
    let again = repeat.then_some("omit --loop, or save it to a file first");
    let mut input = Input::open(file, again, stop)?;
    match input.kind() {
        Kind::Recording => {
            extras.refuse_for(file, "a recording is sent as it is")?;
            return recording::play(input, to, speed, repeat, stop);
        }
        Kind::Exchange => {
            extras.refuse_for(file, "of ITCH, the quotes and trades are sent")?;
            return exchange::play(input, to, speed, repeat, stop);
        }
        Kind::Other => {}
    }
    // Before connecting: an unreadable file is the likeliest mistake.
    let mut reader = open(&mut input)?;
    let mut player = DbnPlayer {
        output: Output {
            link: Link::connect(to)?,
            sent: repeat.then(SentRound::default),
        },
        speed,
        stop,
        messages: Vec::new(),
        carrier: Carrier::new(extras.orders),
        depth: extras.depth,
        levels: 0,
        long_names: 0,
        is_interrupted: false,
    };
    input.serve(&player.output.link);
    let mut rounds = Rounds::default();
    let fault = loop {
        player.output.end_round()?;
        rounds.begin(player.output.link.published());
        let (played, fault) = player.play_once(&input, reader)?;
        let published = player.output.link.published();
        let of_round = rounds.published(published);
        let round = describe(file, &played, &player, of_round);
        let is_whole = fault.is_none() && !player.is_interrupted;
        rounds.add(round, is_whole, published);
        if !repeat || !is_whole || stop.is_asked() {
            break fault;
        }
        if of_round == 0 {
            break Some(Failure::running(nothing_again(file)));
        }
        reader = open(&mut input)?;
    };
    let end = player.output.link.finish()?;
    let report = rounds.report(end).into_text();
    as_far_as_valid(report, fault, end)
}

/// Says why a file is not played again and again: each round would end at once.
fn nothing_again(file: &Path) -> String {
    let place = file.display();
    format!("{place}: nothing of it is published, so --loop has nothing to repeat")
}

/// Returns the report of a file. That of a damaged or truncated one, which was played as far as it
/// is valid, comes before the error, as does that of one that the hub has not applied whole.
fn as_far_as_valid(
    report: String,
    fault: Option<Failure>,
    end: Acknowledgement,
) -> Result<String, Failure> {
    let fault = match (fault, end.fault()) {
        (Some(fault), Some(other)) => Some(Failure::running(format!("{fault}\n{other}"))),
        (one, other) => one.or(other),
    };
    match fault {
        None => Ok(report),
        Some(fault) => {
            print!("{report}");
            Err(fault)
        }
    }
}

/// Checks that `file` can be played, and can be read again then.
pub(crate) fn check(file: &Path) -> Result<(), Failure> {
    let mut input = Input::open(file, Some("save it to a file first"), &Stop::default())?;
    match input.kind() {
        Kind::Recording => Ok(()),
        Kind::Exchange => exchange::open(&mut input).map(drop),
        Kind::Other => open(&mut input).map(drop),
    }
}

/// The link to the hub, with what goes over it.
struct Output {
    link: Link,
    /// If the file is played again and again: what this round has given.
    sent: Option<SentRound>,
}

impl Output {
    fn publish(&mut self, message: &Message) -> Result<(), Failure> {
        if let Some(sent) = &mut self.sent {
            sent.note(message);
        }
        self.link.publish(message)
    }

    /// Ends what the round before has given, if there was one: its open orders, price levels,
    /// quotes and trading states are those of no other.
    fn end_round(&mut self) -> Result<(), Failure> {
        let ends = self.sent.as_mut().map(SentRound::take_ends);
        let ends = ends.unwrap_or_default();
        ends.iter().try_for_each(|end| self.link.publish(end))
    }
}

/// A DBN file that is being played into a hub.
struct DbnPlayer<'a> {
    output: Output,
    speed: Speed,
    stop: &'a Stop,
    messages: Vec<Message>,
    carrier: Carrier,
    /// Price levels of each side to publish.
    depth: u16,
    /// Messages about levels.
    levels: u64,
    /// Symbols of more than 72 bytes that were warned of.
    long_names: usize,
    /// Whether a signal ended the replay before the end of the file.
    is_interrupted: bool,
}

impl DbnPlayer<'_> {
    /// Plays the file once. Returns also what is wrong with the file behind the part that was
    /// played.
    fn play_once(
        &mut self,
        input: &Input,
        mut reader: DbnReader,
    ) -> Result<(Translator, Option<Failure>), Failure> {
        let file = input.path();
        let mut translator = Translator::default();
        if let Some(metadata) = reader.metadata() {
            translator
                .add_metadata(metadata)
                .map_err(|error| Failure::running(format!("{}: {error}", file.display())))?;
        }
        let mut pace = Pace {
            speed: self.speed,
            first_ns: None,
            start: Instant::now(),
        };
        let mut depth = Depth::new(self.depth);
        self.levels = 0;
        self.carrier.begin();
        loop {
            let record = match reader.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(_) if self.stop.is_asked() => {
                    self.is_interrupted = true;
                    break;
                }
                Err(error) => {
                    input.check_link()?;
                    let (file, read) = (file.display(), translator.accounting().read());
                    let text = format!(
                        "{file}: record {}: {error}; the {read} records before it were played",
                        read + 1
                    );
                    return Ok((translator, Some(Failure::running(text))));
                }
            };
            if self.stop.is_asked() {
                self.is_interrupted = true;
                break;
            }
            self.output.link.keep_alive()?;
            if let Some(due) = pace.due(&record) {
                let wait_s = due.saturating_duration_since(Instant::now()).as_secs();
                if wait_s >= LONG_WAIT_S {
                    let number = translator.accounting().read() + 1;
                    warn!(record = number, wait_s, "the next record is due much later");
                }
                self.output.link.serve_until(due, self.stop)?;
            }
            translator.apply(&record, |message| self.messages.push(*message));
            let carried = match self.carrier.take(&record) {
                true => translator.carry(&record, |message| self.messages.push(*message)),
                false => None,
            };
            self.warn_of_long_name(&mut translator);
            // What defines a symbol or a session precedes the record, and a tick follows it.
            let is_tick =
                |message: &&Message| matches!(message, Message::Quote(_) | Message::Trade(_));
            for message in self.messages.iter().filter(|message| !is_tick(message)) {
                self.output.publish(message)?;
            }
            if let Some(symbol) = carried {
                self.carrier.send(symbol, &mut self.output)?;
            }
            for message in self.messages.iter().filter(is_tick) {
                self.output.publish(message)?;
            }
            self.messages.clear();
            for level in translator.levels(&record, &mut depth) {
                self.output.publish(&Message::Level(*level))?;
                self.levels += 1;
            }
        }
        Ok((translator, None))
    }

    fn warn_of_long_name(&mut self, translator: &mut Translator) {
        if let Some(symbol) = translator.take_long_name()
            && self.long_names < LONG_NAMES_TOLD
        {
            self.long_names += 1;
            warn!(%symbol, "a symbol of more than 72 bytes: its records are left out");
        }
    }
}

/// The times at which records are due.
struct Pace {
    speed: Speed,
    /// Time of the first record, ns since the UNIX epoch.
    first_ns: Option<u64>,
    start: Instant,
}

impl Pace {
    /// Returns when a record is due; `None` for immediately.
    fn due(&mut self, record: &RecordRef<'_>) -> Option<Instant> {
        let Speed::Times(times) = self.speed else {
            return None;
        };
        // The order of a file is that of the captures. An event may be weeks older: a definition,
        // the last trade of a sample, an order of a snapshot.
        let time_ns = record.decode().index_time_ns();
        if matches!(time_ns, 0 | UNDEFINED_TIME) {
            return None;
        }
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        // One with an earlier time is due immediately.
        let elapsed_ns = time_ns.saturating_sub(first_ns) as f64 / times;
        Some(self.start + Duration::from_nanos(elapsed_ns as u64))
    }
}

type DbnReader = Reader<Box<dyn Read>>;

fn open(input: &mut Input) -> Result<DbnReader, Failure> {
    let reader = input.reader()?;
    let place = input.path().display();
    Reader::open(reader).map_err(|error| match error {
        ReadError::UnknownContainer => Failure::usage(format!(
            "{place}: unknown kind of file: a recording of serve --record, a DBN file (plain or \
             zstd), an ITCH 5.0 file or a network capture (pcap, pcapng) is expected"
        )),
        error => Failure::usage(format!("{place}: {error}")),
    })
}

fn describe(file: &Path, played: &Translator, player: &DbnPlayer<'_>, published: u64) -> Report {
    let accounting = played.accounting();
    let mut report = Report::of(file);
    let (read, used) = (accounting.read(), accounting.used());
    report.line(
        "records",
        format!("{} read, {} used", grouped(read), grouped(used)),
    );
    // Records of unknown kinds are listed by their type below.
    let known = |(_, reason, _): &(_, Unused, _)| *reason != Unused::UnknownKind;
    for (kind, reason, count) in accounting.unused().filter(known) {
        report.line(
            "not used",
            format!("{} {kind:?}: {}", grouped(count), reason.reason()),
        );
    }
    for (rtype, count) in accounting.unknown_types() {
        report.line(
            "not used",
            format!("{} of unknown type {rtype:#04x}", grouped(count)),
        );
    }
    report.times(accounting.source_times_ns());
    if player.is_interrupted {
        report.interrupted();
    }
    let counts = played.counts();
    let parts = [
        (accounting.quotes, "quotes"),
        (accounting.trades, "trades"),
        (counts.definitions, "definitions"),
        (counts.statuses, "statuses"),
        (counts.sessions, "session starts"),
        (counts.venues, "venues"),
    ];
    let parts = parts.map(|(count, name)| format!("{} {name}", grouped(count)));
    let published = grouped(published);
    report.line(
        "published",
        format!("{published} messages: {}", parts.join(", ")),
    );
    if let Some(carried) = player.carrier.describe() {
        report.line("carried", carried);
    }
    if player.depth > 0 {
        let levels = grouped(player.levels);
        let text = format!("{levels} messages, the best {} of each side", player.depth);
        report.line("levels", text);
    }
    report
}

/// Waits from this length on are said, as one wrong time in a file makes one.
const LONG_WAIT_S: u64 = 60;
/// Symbols that are too long of which a warning tells.
const LONG_NAMES_TOLD: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Publisher 2's record of this type, with these times of the event and, at its place, of the
    /// capture.
    fn record(rtype: u8, length: usize, ts_event: u64, (place, ts_recv): (usize, u64)) -> Vec<u8> {
        let mut bytes = vec![0; length];
        (bytes[0], bytes[1], bytes[2]) = ((length / 4) as u8, rtype, 2);
        bytes[8..16].copy_from_slice(&ts_event.to_le_bytes());
        bytes[place..place + 8].copy_from_slice(&ts_recv.to_le_bytes());
        bytes
    }

    /// A definition of 40 days ago in front of the trades stalled the replay for 40 days.
    #[test]
    fn an_event_that_is_older_than_its_capture_does_not_stall_the_records_behind_it() {
        const NOON_NS: u64 = 1_709_823_600_000_000_000;
        const SECOND_NS: u64 = 1_000_000_000;
        let definition = |ts_event, ts_recv| record(0x13, 520, ts_event, (16, ts_recv));
        let trade = |ts_event, ts_recv| record(0x00, 48, ts_event, (32, ts_recv));
        let mut pace = Pace {
            speed: Speed::Times(2.0),
            first_ns: None,
            start: Instant::now(),
        };
        let start = pace.start;
        let mut due = |bytes: Vec<u8>| {
            let due = pace.due(&RecordRef::new(&bytes).expect("a whole record"))?;
            Some(due.duration_since(start).as_millis())
        };
        let old_ns = NOON_NS - 40 * 86_400 * SECOND_NS;
        assert_eq!(due(definition(old_ns, NOON_NS)), Some(0));
        assert_eq!(due(trade(NOON_NS - 9, NOON_NS)), Some(0));
        let second = trade(NOON_NS, NOON_NS + SECOND_NS);
        assert_eq!(due(second), Some(500), "twice as fast");
        assert_eq!(due(trade(old_ns, NOON_NS + 2 * SECOND_NS)), Some(1_000));
        // Without the time of its capture it has that of the event; without both it has none.
        let without = |ts_event| trade(ts_event, UNDEFINED_TIME);
        assert_eq!(due(without(NOON_NS + 3 * SECOND_NS)), Some(1_500));
        assert_eq!(due(without(UNDEFINED_TIME)), None);
        assert_eq!(
            due(trade(NOON_NS, NOON_NS - 1)),
            Some(0),
            "before the first"
        );
    }
}
