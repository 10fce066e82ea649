//! A test server: a keyspace that executes whole commands.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod sorted_sets;

use tidewire_keyspace::{Keyspace, NullObserver, Observer, Options, resolve};
use tidewire_resp::{ArgumentList, Protocol, Writer};

/// A time in the recent past, ms since the UNIX epoch.
pub(crate) const NOW_MS: i64 = 1_750_000_000_000;

pub(crate) struct Server {
    pub(crate) keyspace: Keyspace,
    pub(crate) protocol: Protocol,
    pub(crate) database: usize,
    pub(crate) now_ms: i64,
    /// Whether commands use the direct path if possible, as in the hub.
    pub(crate) is_direct: bool,
}

impl Server {
    pub(crate) fn new() -> Self {
        Server::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        Server {
            keyspace: Keyspace::new(options),
            protocol: Protocol::Resp2,
            database: 0,
            now_ms: NOW_MS,
            is_direct: true,
        }
    }

    /// Executes a command; returns its reply.
    pub(crate) fn run<A: AsRef<[u8]>>(&self, words: &[A]) -> Vec<u8> {
        self.run_observed(words, &mut NullObserver)
    }

    pub(crate) fn run_observed<A: AsRef<[u8]>>(
        &self,
        words: &[A],
        observer: &mut dyn Observer,
    ) -> Vec<u8> {
        let request: ArgumentList = words.iter().collect();
        let mut reply = Vec::new();
        let mut writer = Writer::new(&mut reply, self.protocol);
        match resolve(request.as_arguments()) {
            Ok(command) => {
                let (arguments, database, now_ms) =
                    (request.as_arguments(), self.database, self.now_ms);
                let keyspace = &self.keyspace;
                let reply = &mut writer;
                if !self.is_direct
                    || !keyspace.execute_directly(command, None, arguments, database, now_ms, reply)
                {
                    let _ = keyspace.execute(command, arguments, database, now_ms, reply, observer);
                }
            }
            Err(text) => writer.error(&text),
        }
        reply
    }

    /// Executes a command line without quotes; returns its reply as text.
    pub(crate) fn line(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        String::from_utf8(self.run(&words)).expect("the reply is text")
    }
}

/// xorshift64*: the same sequence for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}
