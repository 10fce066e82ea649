//! Parses a pipeline's requests ahead of their execution, so that their cache misses overlap.

use std::sync::Arc;

use tidewire_keyspace::{Command, KeyHash, Keyspace, WantedKey, resolve_after};
use tidewire_resp::{Arguments, Head, Limits, Progress, ProtocolError, RequestParser};

use crate::renames::Renames;

/// Requests of the connection being read that are ready to execute. One per lane.
#[derive(Debug)]
pub(crate) struct Pipeline {
    requests: Vec<Request>,
    /// How many of `requests` are in use.
    count: usize,
    /// Keys of these requests that are fetched ahead.
    keys: Vec<WantedKey>,
    /// How many more bytes the request that has only partly come needs at least.
    needed: usize,
    /// Commands by other names, if there are any.
    renames: Option<Arc<Renames>>,
    /// How the last two requests of one command in a row began, and that command.
    repeated: Option<(Head, &'static Command)>,
}

/// A request that is whole.
#[derive(Debug)]
pub(super) struct Request {
    parser: RequestParser,
    /// Where it begins in the input, and how long it is.
    start: usize,
    length: usize,
    /// Its command, or the error reply; `None` for an empty request.
    pub(super) command: Option<Result<&'static Command, String>>,
    /// The hash of its first key, where that is fetched ahead.
    pub(super) first_key: Option<KeyHash>,
}

/// Why gathering ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gathered {
    /// The pipeline is full; there may be more.
    Full,
    /// The rest of the input is the beginning of a request, of this many bytes so far.
    Partial(usize),
    /// The rest is not a request.
    Broken(ProtocolError),
}

impl Pipeline {
    pub(crate) fn new(renames: Option<Arc<Renames>>) -> Self {
        let request = || Request {
            parser: RequestParser::new(Limits::default()),
            start: 0,
            length: 0,
            command: None,
            first_key: None,
        };
        Self {
            requests: (0..DEPTH).map(|_| request()).collect(),
            count: 0,
            keys: Vec::with_capacity(DEPTH * KEYS_AHEAD),
            needed: 0,
            renames,
            repeated: None,
        }
    }

    /// Finds the requests at the front of `input`, and begins to fetch what they will read.
    ///
    /// `unfinished` is the connection's own parser: it holds the state of a request that has only
    /// partly come, before the call and after it.
    // Apart from its caller: together they need more registers than there are.
    #[inline(never)]
    pub(super) fn gather(
        &mut self,
        unfinished: &mut RequestParser,
        keyspace: &Keyspace,
        database: usize,
        input: &[u8],
    ) -> Gathered {
        self.count = 0;
        self.keys.clear();
        let mut start = 0;
        let mut last = None;
        while self.count < DEPTH {
            debug_assert!(start <= input.len(), "requests lie in what came");
            let rest = &input[start..];
            if rest.is_empty() {
                return self.finish(keyspace, database, input, Gathered::Partial(0));
            }
            let request = &mut self.requests[self.count];
            // The parser of an unfinished request goes on; the slot's own is idle and takes its
            // place.
            if start == 0 && !unfinished.is_idle() {
                std::mem::swap(&mut request.parser, unfinished);
            }
            let repeated = self.repeated.as_ref();
            let like_it = repeated.and_then(|(head, command)| {
                let parsed = request.parser.parse_like(head, rest)?;
                Some((parsed, *command))
            });
            let (parsed, command) = match like_it {
                Some((parsed, command)) => (parsed, Some(command)),
                None => (request.parser.parse(rest), None),
            };
            match parsed {
                Ok(Progress::Complete { consumed }) => {
                    debug_assert!(consumed > 0, "a request has a byte at least");
                    (request.start, request.length) = (start, consumed);
                    let alone = self.count == 0 && rest.len() == consumed;
                    let (renames, keys) = (&self.renames, &mut self.keys);
                    match command {
                        Some(command) => request.command = Some(Ok(command)),
                        None => {
                            request.prepare(renames, last, rest);
                            if let Some(repeated) = request.repeats(renames, last, rest) {
                                self.repeated = Some(repeated);
                            }
                        }
                    }
                    let number = self.count as u8;
                    request.find_keys(keyspace, rest, (!alone).then_some(number), keys);
                    last = request
                        .command
                        .as_ref()
                        .and_then(|c| c.as_ref().ok().copied());
                    start += consumed;
                    self.count += 1;
                }
                Ok(Progress::Incomplete { needed }) => {
                    self.needed = needed;
                    std::mem::swap(&mut request.parser, unfinished);
                    return self.finish(keyspace, database, input, Gathered::Partial(rest.len()));
                }
                Err(error) => {
                    request.parser = RequestParser::new(Limits::default());
                    return self.finish(keyspace, database, input, Gathered::Broken(error));
                }
            }
        }
        self.finish(keyspace, database, input, Gathered::Full)
    }

    pub(super) fn requests(&self) -> &[Request] {
        &self.requests[..self.count]
    }

    /// How many more bytes a partial request needs at least.
    pub(super) fn needed(&self) -> usize {
        self.needed
    }

    /// The steps after each key's first, for all that was gathered.
    fn finish(
        &self,
        keyspace: &Keyspace,
        database: usize,
        input: &[u8],
        gathered: Gathered,
    ) -> Gathered {
        debug_assert!(
            self.requests()
                .iter()
                .try_fold(0, |end, one| (one.start == end).then_some(end + one.length))
                .is_some_and(|end| end <= input.len()),
            "requests follow each other in the input, without a gap"
        );
        debug_assert!(
            self.keys.len() <= DEPTH * KEYS_AHEAD,
            "keys ahead have their bound"
        );
        if !self.keys.is_empty() {
            let element_of = |number: u8| self.requests.get(usize::from(number))?.element(input);
            keyspace.prefetch_all(database, &self.keys, &element_of);
        }
        gathered
    }
}

impl Request {
    /// Its arguments, as slices of the input it was found in.
    #[inline]
    pub(super) fn arguments<'a>(&'a self, input: &'a [u8]) -> Arguments<'a> {
        debug_assert!(
            self.start + self.length <= input.len(),
            "a request is read from the input it was found in"
        );
        self.parser.arguments(&input[self.start..])
    }

    /// Its first key, and the element of it that it is about, where it is about one.
    #[inline]
    fn element<'a>(&'a self, input: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let Some(Ok(command)) = &self.command else {
            return None;
        };
        let arguments = self.arguments(input);
        let key = arguments.get(usize::from(command.keys.first()?.first))?;
        let element = arguments.get(usize::from(command.element))?;
        Some((key, element))
    }

    /// Its command, if that may run on its key's entry alone.
    #[inline]
    pub(super) fn direct(&self) -> Option<&'static Command> {
        match self.command {
            Some(Ok(command)) if command.is_direct() => Some(command),
            _ => None,
        }
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    #[inline]
    fn prepare(
        &mut self,
        renames: &Option<Arc<Renames>>,
        last: Option<&'static Command>,
        input: &[u8],
    ) {
        let arguments = self.parser.arguments(input);
        self.command = match renames {
            _ if arguments.is_empty() => None,
            None => Some(resolve_after(last, arguments)),
            Some(renames) => Some(renames.resolve(arguments)),
        };
    }

    /// Returns how the request begins and its command, if the request before has the same command
    /// and every request with this beginning is of that command.
    #[inline]
    fn repeats(
        &self,
        renames: &Option<Arc<Renames>>,
        last: Option<&'static Command>,
        input: &[u8],
    ) -> Option<(Head, &'static Command)> {
        let (Some(Ok(command)), Some(last)) = (&self.command, last) else {
            return None;
        };
        let is_same = std::ptr::eq(*command, last) && renames.is_none();
        if !is_same || !command.is_named_alone() {
            return None;
        }
        Some((self.parser.head(input)?, *command))
    }

    /// Begins to fetch its keys, and adds them to those that are wanted. `number` is its own among
    /// the requests, unless it is alone.
    #[inline]
    fn find_keys(
        &mut self,
        keyspace: &Keyspace,
        input: &[u8],
        number: Option<u8>,
        wanted: &mut Vec<WantedKey>,
    ) {
        self.first_key = None;
        let Some(Ok(command)) = self.command else {
            return;
        };
        let Some(spec) = command.keys.first() else {
            return;
        };
        let arguments = self.parser.arguments(input);
        let element = number.filter(|_| command.element != 0);
        if !spec.is_one_key() {
            let positions = spec.positions(arguments).take(KEYS_AHEAD);
            let first = wanted.len();
            wanted.extend(positions.filter_map(|at| {
                let hash = keyspace.prefetch(arguments.get(at)?);
                Some(WantedKey {
                    hash,
                    element: None,
                })
            }));
            if let Some(key) = wanted.get_mut(first) {
                self.first_key = Some(key.hash);
                key.element = element;
            }
        } else if number.is_some()
            && let Some(key) = arguments.get(usize::from(spec.first))
        {
            // Alone it would have nothing to overlap with.
            let hash = keyspace.prefetch(key);
            wanted.push(WantedKey { hash, element });
            self.first_key = Some(hash);
        }
    }
}

/// Requests found ahead: enough for their misses to overlap, few enough for what was fetched to
/// stay in the first-level cache.
const DEPTH: usize = 16;
/// Keys of one request that are fetched ahead.
const KEYS_AHEAD: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_keyspace::Options;

    fn names(pipeline: &Pipeline) -> Vec<&'static str> {
        let name = |request: &Request| match &request.command {
            Some(Ok(command)) => command.name,
            Some(Err(_)) => "error",
            None => "empty",
        };
        pipeline.requests().iter().map(name).collect()
    }

    #[test]
    fn requests_are_found_in_order_and_a_partial_one_is_kept() {
        let keyspace = Keyspace::new(Options::default());
        let (mut pipeline, mut unfinished) =
            (Pipeline::new(None), RequestParser::new(Limits::default()));
        let input = b"PING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n\r\nNOSUCH\r\n*2\r\n$3\r\nGE";
        let gathered = pipeline.gather(&mut unfinished, &keyspace, 0, input);
        assert_eq!(names(&pipeline), ["ping", "get", "empty", "error"]);
        assert_eq!(gathered, Gathered::Partial(10));
        let taken: usize = pipeline.requests().iter().map(Request::length).sum();
        let rest = [&input[taken..], b"T\r\n$1\r\nb\r\nPING\r\n"].concat();
        let gathered = pipeline.gather(&mut unfinished, &keyspace, 0, &rest);
        assert_eq!(names(&pipeline), ["get", "ping"]);
        assert_eq!(
            pipeline.requests()[0].arguments(&rest).get(1),
            Some(&b"b"[..])
        );
        assert_eq!(gathered, Gathered::Partial(0));
    }

    #[test]
    fn a_command_that_follows_its_like_is_told_from_others() {
        let keyspace = Keyspace::new(Options::default());
        let (mut pipeline, mut unfinished) =
            (Pipeline::new(None), RequestParser::new(Limits::default()));
        let input = b"GET a\r\nget a\r\nGET\r\nSET a b\r\nCONFIG GET x\r\nGET a\r\nGETX a\r\n";
        pipeline.gather(&mut unfinished, &keyspace, 0, input);
        let expected = ["get", "get", "error", "set", "get", "get", "error"];
        assert_eq!(names(&pipeline), expected);
        let full = |at: usize| match &pipeline.requests()[at].command {
            Some(Ok(command)) => command.full_name,
            _ => "",
        };
        assert_eq!((full(4), full(5)), ("config|get", "get"));
    }

    #[test]
    fn what_stands_before_an_error_is_still_executed() {
        let keyspace = Keyspace::new(Options::default());
        let (mut pipeline, mut unfinished) =
            (Pipeline::new(None), RequestParser::new(Limits::default()));
        let gathered = pipeline.gather(&mut unfinished, &keyspace, 0, b"PING\r\n*1\r\n#1\r\n");
        assert_eq!(names(&pipeline), ["ping"]);
        assert_eq!(
            gathered,
            Gathered::Broken(ProtocolError::ExpectedBulk(b'#'))
        );
    }
}
