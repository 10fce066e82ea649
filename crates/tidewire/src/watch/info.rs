//! The hub's own figures: INFO, requested over the Redis protocol on a separate thread.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidewire_feed::wire::Credentials;
use tidewire_hub::watched_counters;
use tidewire_resp::Value;

use super::cluster::Cluster;
use super::ladder::{self, Ladder};
use crate::options::InfoSource;
use crate::stop::Stop;

/// The latest INFO reply of a hub.
pub(super) struct InfoReader {
    latest: Mutex<Latest>,
    /// The symbol whose price levels are requested too.
    wanted: Mutex<Option<String>>,
}

#[derive(Debug, Default)]
struct Latest {
    figures: Option<Figures>,
    /// Why there are no figures.
    reason: String,
    /// Messages applied and the time, at the last two replies, for the hub's rate.
    applied: Option<(u64, Instant)>,
    rate: f64,
    ladder: Option<Ladder>,
}

/// A hub's own figures: the counters that are marked for `watch` in the table of counters.
/// docs/OPERATIONS.md explains each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) version: String,
    /// Its place in a cluster, if it is in one.
    pub(super) cluster: Option<Cluster>,
    numbers: BTreeMap<&'static str, u64>,
}

impl Figures {
    /// Returns a figure by its name in the JSON document; 0 if the hub does not have it.
    pub(super) fn of(&self, name: &str) -> u64 {
        debug_assert!(watched_counters().any(|counter| counter.shown_as == name));
        self.numbers.get(name).copied().unwrap_or(0)
    }

    /// Returns all figures except the version, by their names in the JSON document.
    pub(super) fn numbers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.numbers.iter().map(|(name, number)| (*name, *number))
    }
}

impl InfoReader {
    /// Starts to request INFO, until told to `stop`.
    pub(super) fn start(source: &InfoSource, login: Option<Credentials>, stop: &Stop) -> Arc<Self> {
        let reader = Arc::new(Self {
            latest: Mutex::default(),
            wanted: Mutex::default(),
        });
        let address = match source {
            InfoSource::Nowhere => {
                reader.latest().reason = "disabled by --info none".to_owned();
                return reader;
            }
            InfoSource::At(endpoint) => endpoint.clone(),
        };
        let (own, stop) = (reader.clone(), stop.clone());
        let asking = move || {
            while !stop.is_asked() {
                let asked = address
                    .tcp()
                    .ok_or_else(|| "a TCP address is expected".to_owned())
                    .and_then(|address| own.ask(address, login.as_ref(), &stop));
                if let Err(reason) = asked {
                    let mut latest = own.latest();
                    (latest.figures, latest.applied, latest.rate) = (None, None, 0.0);
                    latest.reason = reason;
                }
                std::thread::sleep(INTERVAL);
            }
        };
        if let Err(error) = std::thread::Builder::new().spawn(asking) {
            reader.latest().reason = error.to_string();
        }
        reader
    }

    /// Returns the latest figures and messages applied per second, or why there are none.
    pub(super) fn figures(&self) -> Result<(Figures, f64), String> {
        let latest = self.latest();
        match &latest.figures {
            Some(figures) => Ok((figures.clone(), latest.rate)),
            None if latest.reason.is_empty() => Err("no answer yet".to_owned()),
            None => Err(latest.reason.clone()),
        }
    }

    /// Requests the price levels of a symbol from now on, or of none.
    pub(super) fn want_ladder(&self, symbol: Option<&str>) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.as_deref() != symbol {
            *wanted = symbol.map(str::to_owned);
        }
    }

    /// Returns the price levels that arrived last, of any symbol.
    pub(super) fn ladder(&self) -> Option<Ladder> {
        self.latest().ladder.clone()
    }

    fn wanted(&self) -> Option<String> {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.clone()
    }

    /// Requests INFO repeatedly over one connection.
    fn ask(
        &self,
        address: std::net::SocketAddr,
        login: Option<&Credentials>,
        stop: &Stop,
    ) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIME_MAX).map_err(text)?;
        stream
            .set_read_timeout(Some(ANSWER_TIME_MAX))
            .and_then(|()| stream.set_write_timeout(Some(ANSWER_TIME_MAX)))
            .and_then(|()| stream.set_nodelay(true))
            .map_err(text)?;
        let mut replies = BufReader::new(stream.try_clone().map_err(text)?);
        if let Some(login) = login {
            let (user, password) = (login.user.as_bytes(), login.password.as_bytes());
            let user = if user.is_empty() { b"default" } else { user };
            let request = command(&[b"AUTH", user, password]);
            stream.write_all(&request).map_err(text)?;
            read_reply(&mut replies)?;
        }
        let request = request();
        while !stop.is_asked() {
            stream.write_all(&request).map_err(text)?;
            let figures = parse(&read_reply(&mut replies)?);
            self.take(figures);
            let wanted = self.wanted();
            if let Some(symbol) = &wanted {
                let request = command(&ladder::request(symbol));
                stream.write_all(&request).map_err(text)?;
                let reply = read_value(&mut replies)?;
                self.latest().ladder = Some(Ladder::from_reply(symbol, &reply));
            }
            self.pause(wanted.as_deref());
        }
        Ok(())
    }

    /// Waits for the next requests; shorter if another symbol is wanted meanwhile.
    fn pause(&self, wanted: Option<&str>) {
        let end = Instant::now() + INTERVAL;
        while Instant::now() < end && self.wanted().as_deref() == wanted {
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn take(&self, figures: Figures) {
        let now = Instant::now();
        let mut latest = self.latest();
        if let Some((applied, then)) = latest.applied {
            let seconds = now.duration_since(then).as_secs_f64();
            latest.rate = figures.of("applied").saturating_sub(applied) as f64 / seconds.max(1e-9);
        }
        latest.applied = Some((figures.of("applied"), now));
        latest.figures = Some(figures);
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

/// Reads a simple string or a bulk string; an error reply becomes an error.
fn read_reply(replies: &mut impl BufRead) -> Result<String, String> {
    let mut line = String::new();
    let mut head = replies.take(LINE_BYTES_MAX);
    head.read_line(&mut line)
        .map_err(|error| error.to_string())?;
    let Some(line) = line.strip_suffix("\r\n") else {
        return Err("the server closed the connection, or is not a Redis port".to_owned());
    };
    let (kind, rest) = line.split_at_checked(1).unwrap_or((line, ""));
    match kind {
        "+" => Ok(rest.to_owned()),
        "-" => Err(rest.to_owned()),
        "$" => {
            let length: usize = rest.parse().map_err(|_| "not a Redis reply".to_owned())?;
            if length > REPLY_BYTES_MAX {
                return Err("the INFO reply is too long".to_owned());
            }
            let mut body = vec![0; length + 2];
            replies
                .read_exact(&mut body)
                .map_err(|error| error.to_string())?;
            body.truncate(length);
            String::from_utf8(body).map_err(|_| "the INFO reply is not text".to_owned())
        }
        _ => Err("not a Redis reply".to_owned()),
    }
}

/// Reads one reply of any kind. Nothing may follow it.
fn read_value(replies: &mut impl BufRead) -> Result<Value, String> {
    let mut bytes = Vec::new();
    loop {
        let more = replies.fill_buf().map_err(|error| error.to_string())?;
        let count = more.len();
        if count == 0 {
            return Err("the server closed the connection".to_owned());
        }
        bytes.extend_from_slice(more);
        replies.consume(count);
        match tidewire_resp::decode(&bytes) {
            Ok(Some((value, _))) => return Ok(value),
            Ok(None) if bytes.len() <= REPLY_BYTES_MAX => {}
            Ok(None) => return Err("the reply is too long".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn parse(info: &str) -> Figures {
    let pairs: HashMap<&str, &str> = info
        .lines()
        .filter_map(|line| line.split_once(':'))
        .collect();
    let number = |name: &str| pairs.get(name).and_then(|text| text.parse().ok());
    let counters = watched_counters().filter(|counter| counter.shown_as != "version");
    let version = pairs.get("tidewire_version").or(pairs.get("redis_version"));
    let shown = version.unwrap_or(&"").chars();
    Figures {
        version: shown.filter(|letter| !letter.is_control()).collect(),
        cluster: Cluster::parse(info),
        numbers: counters
            .map(|counter| (counter.shown_as, number(counter.name).unwrap_or(0)))
            .collect(),
    }
}

/// Returns the request for the INFO sections that have the figures shown.
fn request() -> Vec<u8> {
    let counters = watched_counters().map(|counter| counter.section);
    let sections: BTreeSet<&str> = counters.chain(["cluster"]).collect();
    let words = sections.iter().map(|section| section.as_bytes());
    command(
        &[b"INFO".as_slice()]
            .into_iter()
            .chain(words)
            .collect::<Vec<_>>(),
    )
}

const INTERVAL: Duration = Duration::from_millis(500);
/// Maximum delay until another symbol's levels are requested.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
const LINE_BYTES_MAX: u64 = 4 * 1024;
const REPLY_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_among_the_lines_and_absent_ones_are_zero() {
        let figures = parse("# Feed\r\nfeed_gaps:3\r\nuptime_in_seconds:90\r\nfeed_lost:x\r\n");
        let found = ["gaps", "uptime_s", "lost"].map(|name| figures.of(name));
        assert_eq!(found, [3, 90, 0]);
    }

    #[test]
    fn only_a_whole_reply_of_redis_is_taken() {
        let read = |text: &str| read_reply(&mut text.as_bytes());
        assert_eq!(read("$5\r\na:1\r\n\r\n").unwrap(), "a:1\r\n");
        assert_eq!(read("-NOAUTH needed\r\n").unwrap_err(), "NOAUTH needed");
        assert!(read("$99999999999\r\n").unwrap_err().contains("too long"));
        assert!(read("HTTP/1.1 400\r\n").is_err() && read("").is_err());
    }
}
