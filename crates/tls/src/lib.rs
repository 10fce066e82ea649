//! TLS 1.3 and 1.2 as a layer between a socket and a protocol, without I/O: no socket, no clock of
//! its own, no thread.
//!
//! [`Server`] and [`Client`] hold what many connections share: the certificate and its key, or the
//! certificates to trust. A [`Session`] is one side of one connection. It takes bytes of the socket
//! and returns the protocol's ([`Session::receive`]), and the other way round ([`Session::send`]);
//! what is to go to the socket collects in [`Session::outgoing`].
//!
//! ```
//! use tidewire_tls::{Client, Server, Session, Trust};
//!
//! # let made = rcgen::generate_simple_self_signed(["hub.example".to_owned()])?;
//! # let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
//! let server = Server::new(certificate.as_bytes(), key.as_bytes())?;
//! let trust = Trust { pem: certificate.as_bytes(), ..Trust::default() };
//! let client = Client::new(&trust)?;
//! let mut ends = [Session::client(&client, "hub.example")?, Session::server(&server)?];
//!
//! // What one side has to say is what the other one receives.
//! let mut plaintext = Vec::new();
//! while !ends.iter().all(Session::is_open) {
//!     for from in [0, 1] {
//!         let ciphertext = std::mem::take(ends[from].outgoing());
//!         ends[1 - from].receive(&ciphertext, &mut plaintext)?;
//!     }
//! }
//! ends[0].send(b"hello")?;
//! let ciphertext = std::mem::take(ends[0].outgoing());
//! ends[1].receive(&ciphertext, &mut plaintext)?;
//! assert_eq!(plaintext, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The cryptography is [rustls](https://docs.rs/rustls)'s. It is used in one private module, so
//! that no type of it shows here.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod algorithm;
mod certificate;
mod der;
mod driver;
mod engine;
mod error;
mod facts;
pub mod fuzzing;
mod greeting;
mod secret_key;
mod session;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

#[cfg(test)]
extern crate self as tidewire_tls;

pub use certificate::PeerNames;
pub use driver::Driver;
pub use engine::{
    Client, ClientSettings, Clients, Offer, Server, ServerSettings, Trust, check_authorities,
    check_certificates, check_key,
};
pub use error::{Error, Refusal};
pub use facts::{CertificateFacts, utc_text};
pub use greeting::{NO_TLS_HERE, is_greeting};
pub use secret_key::{is_encrypted, usable_key};
pub use session::{Session, TEXT_BYTES_MAX, room_for};
