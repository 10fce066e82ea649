//! The native feed without I/O: wire format, state machines, recordings and a simulated market.
//!
//! | module | contents |
//! |---|---|
//! | [`wire`] | the native feed's packets, messages and controls (`docs/feed-protocol.md`) |
//! | [`journal`] | the recent messages of a stream, from which all clients are served |
//! | [`server`] | the sending side: one [`server::Session`] per client |
//! | [`client`] | the receiving side: [`client::Client`]; and [`client::Publisher`] |
//! | [`faults`] | injected faults of a bad link |
//! | [`recording`] | files of a stream, block by block (`docs/recording.md`) |
//! | [`simulation`] | a seeded market |
//! | [`fuzzing`] | entry functions for fuzzers |
//!
//! No module opens a socket, reads a clock or starts a thread: bytes and times come in, events and
//! bytes go out, and a deadline says when to call again.
//!
//! ```
//! use tidewire_feed::client::{Client, ClientConfig, Side, Sink};
//! use tidewire_feed::journal::Journal;
//! use tidewire_feed::server::{EmptyBoard, Session, SessionConfig};
//! use tidewire_feed::wire::{Message, Trade};
//!
//! struct Print(Vec<u64>);
//!
//! impl Sink for Print {
//!     fn message(&mut self, sequence: u64, message: &Message) {
//!         println!("{sequence}: {message:?}");
//!         self.0.push(sequence);
//!     }
//! }
//!
//! let mut journal = Journal::new(7, 1_024);
//! let mut session = Session::new(SessionConfig::default(), 0);
//! let mut client = Client::new(ClientConfig::default());
//! let mut print = Print(Vec::new());
//! client.subscribe("*")?;
//! client.connected(Side::A, 0);
//!
//! // Each buffer would be a socket.
//! let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
//! client.drain_outgoing(Side::A, &mut to_server);
//! session.receive(&to_server, 0, &mut print)?;
//! session.produce(&journal, &EmptyBoard, 0, &mut to_client, 65_536);
//! journal.append(&Message::Trade(Trade::default()));
//! session.produce(&journal, &EmptyBoard, 0, &mut to_client, 65_536);
//! client.receive(Side::A, &to_client, 0, &mut print)?;
//! assert_eq!(print.0, [1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod client;
pub mod faults;
pub mod fuzzing;
pub mod journal;
pub mod recording;
pub mod server;
pub mod simulation;
pub mod wire;
