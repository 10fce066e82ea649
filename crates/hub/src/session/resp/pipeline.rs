//! A pipeline's requests, found ahead of their execution so that their cache misses overlap.

use std::sync::Arc;

use tidewire_keyspace::{Command, KeyHash, Keyspace, resolve_after};
use tidewire_resp::{Arguments, Limits, Progress, ProtocolError, RequestParser};

use crate::renames::Renames;

/// Requests that wait to be executed, of whatever connection is being read. One a lane.
#[derive(Debug)]
pub(crate) struct Pipeline {
    requests: Vec<Request>,
    /// How many of `requests` are in use.
    count: usize,
    /// How many more bytes the request that has only partly come needs at least.
    needed: usize,
    /// Commands by other names, if there are any.
    renames: Option<Arc<Renames>>,
}

/// A request that is whole.
#[derive(Debug)]
pub(super) struct Request {
    parser: RequestParser,
    /// Where it begins in the input, and how long it is.
    start: usize,
    length: usize,
    /// What it asks for, or the error reply; nothing for an empty request.
    pub(super) command: Option<Result<&'static Command, String>>,
    /// Of its first keys, [`KEYS_AHEAD`] at most.
    keys: Vec<KeyHash>,
}

/// Why gathering ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gathered {
    /// The pipeline is full; there may be more.
    Full,
    /// The rest of the input is the beginning of a request, of this many bytes so far.
    Partial(usize),
    /// What follows is no request.
    Broken(ProtocolError),
}

impl Pipeline {
    pub(crate) fn new(renames: Option<Arc<Renames>>) -> Self {
        let request = || Request {
            parser: RequestParser::new(Limits::default()),
            start: 0,
            length: 0,
            command: None,
            keys: Vec::with_capacity(KEYS_AHEAD),
        };
        Self {
            requests: (0..DEPTH).map(|_| request()).collect(),
            count: 0,
            needed: 0,
            renames,
        }
    }

    /// Finds the requests at the front of `input`, and begins to fetch what they will read.
    ///
    /// `unfinished` is the connection's own parser: it holds the state of a request that has only
    /// partly come, before the call and after it.
    pub(super) fn gather(
        &mut self,
        unfinished: &mut RequestParser,
        keyspace: &Keyspace,
        database: usize,
        input: &[u8],
    ) -> Gathered {
        self.count = 0;
        let mut start = 0;
        let mut last = None;
        while self.count < DEPTH {
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
            match request.parser.parse(rest) {
                Ok(Progress::Complete { consumed }) => {
                    (request.start, request.length) = (start, consumed);
                    let alone = self.count == 0 && rest.len() == consumed;
                    request.prepare(&self.renames, last, keyspace, rest, alone);
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
        let keys = || self.requests().iter().flat_map(|request| &request.keys);
        keys().for_each(|key| keyspace.prefetch_group(database, *key));
        keys().for_each(|key| keyspace.prefetch_entry(database, *key));
        // A single request has nothing to overlap with.
        if self.count > 1 {
            self.prefetch_elements(keyspace, database, input);
        }
        gathered
    }

    fn prefetch_elements(&self, keyspace: &Keyspace, database: usize, input: &[u8]) {
        let mut elements = [None; DEPTH];
        for (found, request) in elements.iter_mut().zip(self.requests()) {
            if let Some((key, element)) = request.element(input) {
                *found = keyspace.prefetch_element(database, key, element);
            }
        }
        for (found, request) in elements.iter().zip(self.requests()) {
            if let (Some(element), Some((key, _))) = (found, request.element(input)) {
                keyspace.prefetch_element_entry(database, key, *element);
            }
        }
    }
}

impl Request {
    /// Its arguments, as slices of the input it was found in.
    #[inline]
    pub(super) fn arguments<'a>(&'a self, input: &'a [u8]) -> Arguments<'a> {
        self.parser.arguments(&input[self.start..])
    }

    /// Its first key, and the element of it that it is about, where it is about one.
    #[inline]
    fn element<'a>(&'a self, input: &'a [u8]) -> Option<(HashedKey<'a>, &'a [u8])> {
        let Some(Ok(command)) = &self.command else {
            return None;
        };
        let hash = self.keys.first().filter(|_| command.element != 0)?;
        let arguments = self.arguments(input);
        let key = arguments.get(usize::from(command.keys.first()?.first))?;
        let element = arguments.get(usize::from(command.element))?;
        Some(((*hash, key), element))
    }

    /// The hash of its first key, where that was fetched ahead.
    #[inline]
    pub(super) fn first_key(&self) -> Option<KeyHash> {
        self.keys.first().copied()
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    #[inline]
    fn prepare(
        &mut self,
        renames: &Option<Arc<Renames>>,
        last: Option<&'static Command>,
        keyspace: &Keyspace,
        input: &[u8],
        alone: bool,
    ) {
        let arguments = self.parser.arguments(input);
        self.keys.clear();
        if arguments.is_empty() {
            self.command = None;
            return;
        }
        let command = match renames {
            None => resolve_after(last, arguments),
            Some(renames) => renames.resolve(arguments),
        };
        if let Ok(command) = &command
            && let Some(spec) = command.keys.first()
        {
            if spec.is_one_key() {
                // Alone it has nothing to overlap with.
                if !alone && let Some(key) = arguments.get(usize::from(spec.first)) {
                    self.keys.push(keyspace.prefetch(key));
                }
            } else {
                let positions = spec.positions(arguments).take(KEYS_AHEAD);
                let keys = positions.filter_map(|at| arguments.get(at));
                let hashes = keys.map(|key| keyspace.prefetch(key));
                self.keys.extend(hashes);
            }
        }
        self.command = Some(command);
    }
}

/// A key behind its hash.
type HashedKey<'a> = (KeyHash, &'a [u8]);

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
