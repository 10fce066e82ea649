//! Key exchanges that a peer may ask for, with rustls's own client on the other side.

mod support;

use rustls::NamedGroup;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::version::TLS13;
use support::{Made, rustls_client};
use tidewire_tls::Session;

/// Shakes hands with a client that has these groups. Returns the one that was chosen.
fn chosen(groups: &[&'static dyn SupportedKxGroup]) -> Option<NamedGroup> {
    let mut server = Session::server(&Made::known().server()).unwrap();
    let mut provider = default_provider();
    provider.kx_groups = groups.to_vec();
    let client = rustls_client(provider, &TLS13, &mut server);
    Some(client.negotiated_key_exchange_group()?.name())
}

/// A client that records today's traffic cannot read it with the quantum computer of tomorrow.
#[test]
fn a_client_may_exchange_keys_that_resist_quantum_computers() {
    let only = chosen(&[kx_group::X25519MLKEM768]);
    assert_eq!(only, Some(NamedGroup::X25519MLKEM768));
    let classic = chosen(&[kx_group::X25519]);
    assert_eq!(classic, Some(NamedGroup::X25519));
}
