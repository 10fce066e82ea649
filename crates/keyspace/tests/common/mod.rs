//! A keyspace that is spoken to in whole commands.

#![allow(dead_code, reason = "each test binary uses a part")]

use tidewire_keyspace::{Keyspace, NullObserver, Observer, Options, resolve};
use tidewire_resp::{ArgumentList, Protocol, Writer};

/// A time in the recent past, ms since the UNIX epoch.
pub const NOW_MS: i64 = 1_750_000_000_000;

pub struct Server {
    pub keyspace: Keyspace,
    pub protocol: Protocol,
    pub database: usize,
    pub now_ms: i64,
}

impl Server {
    pub fn new() -> Self {
        Server::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        Server {
            keyspace: Keyspace::new(options),
            protocol: Protocol::Resp2,
            database: 0,
            now_ms: NOW_MS,
        }
    }

    /// The reply to a command.
    pub fn run<A: AsRef<[u8]>>(&self, words: &[A]) -> Vec<u8> {
        self.run_observed(words, &mut NullObserver)
    }

    pub fn run_observed<A: AsRef<[u8]>>(
        &self,
        words: &[A],
        observer: &mut dyn Observer,
    ) -> Vec<u8> {
        let request: ArgumentList = words.iter().collect();
        let mut reply = Vec::new();
        let mut writer = Writer::new(&mut reply, self.protocol);
        match resolve(request.as_arguments()) {
            Ok(command) => {
                let _ = self.keyspace.execute(
                    command,
                    request.as_arguments(),
                    self.database,
                    self.now_ms,
                    &mut writer,
                    observer,
                );
            }
            Err(text) => writer.error(&text),
        }
        reply
    }

    /// The reply to a command line without quotes, as text.
    pub fn line(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        String::from_utf8(self.run(&words)).expect("a test's reply is text")
    }
}

/// xorshift64*: the same sequence for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }

    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}
