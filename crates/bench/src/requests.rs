//! Requests over random keys, formatted beforehand, and the replies to them.

use std::ops::Range;

/// Keys and values that requests are about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workset {
    pub(crate) keys: u64,
    pub(crate) value_bytes: usize,
}

impl Workset {
    /// [`KEYS`] keys with values of so many bytes; fewer of long ones, so that all of them have at
    /// most [`WORKSET_BYTES`].
    pub(crate) fn of(value_bytes: usize) -> Self {
        Self {
            keys: KEYS.min((WORKSET_BYTES / value_bytes.max(1)) as u64),
            value_bytes,
        }
    }

    /// Returns the value of every key.
    pub(super) fn value(self) -> String {
        let alphabet = (b'a'..=b'p').map(char::from);
        alphabet.cycle().take(self.value_bytes).collect()
    }

    fn get_request(key: u64) -> Vec<u8> {
        format!("*2\r\n$3\r\nGET\r\n$16\r\n{}\r\n", name(key)).into_bytes()
    }

    pub(super) fn set_request(key: u64, value: &str) -> Vec<u8> {
        let (name, length) = (name(key), value.len());
        format!("*3\r\n$3\r\nSET\r\n$16\r\n{name}\r\n${length}\r\n{value}\r\n").into_bytes()
    }

    fn get_reply(self) -> Vec<u8> {
        let value = self.value();
        format!("${}\r\n{value}\r\n", value.len()).into_bytes()
    }

    /// Returns the number of requests that fit into memory with their replies.
    fn requests(self) -> usize {
        REQUESTS.min(WORKSET_BYTES / self.value_bytes.max(1))
    }
}

impl Default for Workset {
    fn default() -> Self {
        Self::of(VALUE_BYTES)
    }
}

/// Requests over random keys, and the reply to each.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    sent: Pieces,
    pub(super) reply: Reply,
}

/// Pieces one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    pub(super) bytes: Vec<u8>,
    /// End of each request.
    pub(super) ends: Vec<usize>,
}

impl Pieces {
    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        self.ends.push(self.bytes.len());
    }

    fn count(&self) -> usize {
        self.ends.len()
    }

    fn start(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    pub(super) fn span(&self, first: usize, count: usize) -> Range<usize> {
        self.start(first)..self.start(first + count)
    }
}

/// What each request is answered.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Exact(Vec<u8>),
    /// Each has its own.
    Each(Pieces),
    /// A reply of this many lines, the first of which begins with this byte.
    Lines {
        first: u8,
        count: usize,
    },
}

impl Requests {
    /// Creates requests such as `GET key:000000012345`; [`fill`](super::load::fill) must have set
    /// the keys.
    pub(crate) fn get(set: Workset) -> Self {
        let requests = random_numbers(set.keys).take(set.requests());
        Self::answered(
            Reply::Exact(set.get_reply()),
            requests.map(Workset::get_request),
        )
    }

    /// Creates requests such as `SET key:000000012345 abcdefghijklmnop`.
    pub(crate) fn set(set: Workset) -> Self {
        let value = set.value();
        let requests = random_numbers(set.keys).take(set.requests());
        let requests = requests.map(|key| Workset::set_request(key, &value));
        Self::answered(Reply::Exact(OK.to_vec()), requests)
    }

    /// Creates GET and SET in random order, with this percentage of GET.
    pub(crate) fn mixed(set: Workset, gets: u64) -> Self {
        let (value, get_reply) = (set.value(), set.get_reply());
        let (mut sent, mut replies) = (Pieces::default(), Pieces::default());
        let keys = random_numbers(set.keys).take(set.requests());
        // Another sequence than that of the keys: each key is read and written.
        for (key, choice) in keys.zip(random_from(CHOICES_SEED)) {
            if (choice >> 32) % 100 < gets {
                sent.push(&Workset::get_request(key));
                replies.push(&get_reply);
            } else {
                sent.push(&Workset::set_request(key, &value));
                replies.push(OK);
            }
        }
        Self {
            sent,
            reply: Reply::Each(replies),
        }
    }

    /// Any request over random numbers below [`KEYS`], always of the same length, and the reply
    /// that each gets.
    pub(crate) fn of(reply: &[u8], request: impl Fn(u64) -> Vec<u8>) -> Self {
        let requests = random_numbers(KEYS).take(REQUESTS).map(request);
        Self::answered(Reply::Exact(reply.to_vec()), requests)
    }

    /// The same where the replies differ: each is so many lines, and begins with this byte.
    pub(crate) fn of_lines(first: u8, count: usize, request: impl Fn(u64) -> Vec<u8>) -> Self {
        let requests = random_numbers(KEYS).take(REQUESTS).map(request);
        Self::answered(Reply::Lines { first, count }, requests)
    }

    fn answered(reply: Reply, requests: impl Iterator<Item = Vec<u8>>) -> Self {
        let mut sent = Pieces::default();
        requests.for_each(|request| sent.push(&request));
        Self { sent, reply }
    }

    /// Bytes of one request; their mean, where they differ.
    pub(crate) fn length(&self) -> usize {
        self.sent.bytes.len() / self.count()
    }

    /// Returns the reply to one of the requests; empty if only its type is known.
    pub(crate) fn reply(&self, number: usize) -> &[u8] {
        match &self.reply {
            Reply::Exact(reply) => reply,
            Reply::Each(replies) => &replies.bytes[replies.span(number, 1)],
            Reply::Lines { .. } => &[],
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.sent.count()
    }

    /// Returns `count` requests from `first` on, as they are sent.
    pub(crate) fn slice(&self, first: usize, count: usize) -> &[u8] {
        self.bytes(self.span(first, count))
    }

    /// Returns the place of `count` requests from `first` on.
    pub(super) fn span(&self, first: usize, count: usize) -> Range<usize> {
        self.sent.span(first, count)
    }

    pub(super) fn bytes(&self, span: Range<usize>) -> &[u8] {
        &self.sent.bytes[span]
    }

    /// Returns this many replies, if all are the same.
    pub(crate) fn replies(&self, count: usize) -> Vec<u8> {
        match &self.reply {
            Reply::Exact(reply) => reply.repeat(count),
            Reply::Each(_) | Reply::Lines { .. } => Vec::new(),
        }
    }

    /// The same requests to a server that counts bytes and answers `+OK`. Requests of different
    /// lengths all get the mean length.
    pub(crate) fn answered_ok(&self) -> Self {
        let reply = Reply::Exact(OK.to_vec());
        match &self.reply {
            Reply::Each(_) => {
                let request = vec![b'x'; self.length()];
                Self::answered(reply, (0..self.count()).map(|_| request.clone()))
            }
            _ => Self {
                sent: self.sent.clone(),
                reply,
            },
        }
    }
}

/// Returns a key's name as redis-benchmark writes it with `-r`.
fn name(key: u64) -> String {
    format!("key:{key:012}")
}

/// Returns random numbers below `end`, always the same.
fn random_numbers(end: u64) -> impl Iterator<Item = u64> {
    random_from(KEYS_SEED).map(move |number| number % end)
}

/// Returns the random numbers of xorshift64.
fn random_from(mut state: u64) -> impl Iterator<Item = u64> {
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

/// Keys in use, as `redis-benchmark -r 100000`.
pub(crate) const KEYS: u64 = 100_000;
/// Bytes of every value, unless others are asked for.
pub(crate) const VALUE_BYTES: usize = 16;
pub(super) const OK: &[u8] = b"+OK\r\n";
/// Requests formatted beforehand: most of the keys are among them.
const REQUESTS: usize = 1 << 17;
/// All values together, and all requests.
const WORKSET_BYTES: usize = 256 << 20;
const KEYS_SEED: u64 = 0x2545_F491_4F6C_DD1D;
const CHOICES_SEED: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_the_shares_asked_for_and_each_request_its_reply() {
        let set = Workset::of(3);
        let mixed = Requests::mixed(set, 80);
        let Reply::Each(replies) = &mixed.reply else {
            panic!("each has its own");
        };
        let mut gets = 0;
        for number in 0..mixed.count() {
            let reply = &replies.bytes[replies.span(number, 1)];
            let is_get = mixed.slice(number, 1).starts_with(b"*2\r\n$3\r\nGET");
            gets += usize::from(is_get);
            let expected: &[u8] = if is_get { b"$3\r\nabc\r\n" } else { OK };
            assert_eq!(reply, expected);
        }
        let share = gets as f64 / mixed.count() as f64;
        assert!((0.79..0.81).contains(&share), "{share}");
        let floor = mixed.answered_ok();
        assert_eq!(floor.count(), mixed.count());
        assert_eq!(floor.slice(0, 1).len(), mixed.length());
    }

    #[test]
    fn long_values_make_fewer_keys_and_requests() {
        let set = Workset::of(65_536);
        assert_eq!((set.keys, set.requests()), (4_096, 4_096));
        assert_eq!(Workset::default().keys, KEYS);
    }
}
