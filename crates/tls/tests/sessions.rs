//! Two sides of a connection without a socket: what is accepted, and what is refused.

mod support;

use proptest::prelude::*;
use support::{Made, Named, ends, exchange, open, opened, transfer};
use tidewire_tls::{Client, Error, Refusal, Server, Session, Trust};

fn refused_with(made: &Made, trust: &Trust<'_>, host: &str) -> Refusal {
    let mut ends = ends(made, trust, host);
    let Err((0, Error::Certificate(refusal))) = exchange(&mut ends) else {
        panic!("the certificate was accepted");
    };
    // The server hears of it.
    let alert = std::mem::take(ends[0].outgoing());
    let heard = ends[1].receive(&alert, &mut Vec::new());
    assert!(matches!(heard, Err(Error::Alert(_))), "{heard:?}");
    assert_eq!(ends[0].send(b"x"), Err(Error::Closed));
    refusal
}

#[test]
fn texts_of_any_length_go_both_ways() {
    let mut ends = opened();
    for length in [0, 1, 16_383, 16_384, 16_385, 65_536, 1_000_003] {
        let text: Vec<u8> = (0..length).map(|at| at as u8).collect();
        for from in [0, 1] {
            ends[from].send(&text).unwrap();
            assert_eq!(transfer(&mut ends, from), text, "{length} bytes");
        }
    }
}

#[test]
fn an_authority_vouches_for_names_and_addresses() {
    for (named, host) in [
        (Named::new("hub.example"), "hub.example"),
        (Named::new("*.a.example"), "hub.a.example"),
        (Named::new("127.0.0.1"), "127.0.0.1"),
        (Named::new("::1"), "::1"),
    ] {
        let made = Made::issued(&named);
        open(&made, &made.trust(), host);
    }
}

#[test]
fn the_certificate_of_another_host_is_refused() {
    let made = Made::issued(&Named::new("other.example"));
    for host in ["hub.example", "127.0.0.1", "example", "a.other.example"] {
        assert!(matches!(
            refused_with(&made, &made.trust(), host),
            Refusal::OtherHost { .. }
        ));
    }
}

#[test]
fn an_expired_certificate_is_refused() {
    let mut named = Named::new("hub.example");
    named.years = [2000, 2001];
    for made in [Made::issued(&named), Made::self_signed(&named)] {
        let refusal = refused_with(&made, &made.trust(), "hub.example");
        assert!(matches!(refusal, Refusal::Expired { since_s: Some(_) }));
    }
}

#[test]
fn a_certificate_of_tomorrow_is_refused() {
    let mut named = Named::new("hub.example");
    named.years = [2100, 2110];
    for made in [Made::issued(&named), Made::self_signed(&named)] {
        let refusal = refused_with(&made, &made.trust(), "hub.example");
        assert!(matches!(refusal, Refusal::NotYetValid { from_s: Some(_) }));
    }
}

#[test]
fn a_certificate_that_is_not_trusted_is_refused() {
    let named = Named::new("hub.example");
    let other = Made::issued(&named);
    for made in [Made::issued(&named), Made::self_signed(&named)] {
        let refusal = refused_with(&made, &other.trust(), "hub.example");
        assert_eq!(refusal, Refusal::UnknownIssuer);
    }
    // The system does not know it either.
    let system = Trust {
        system: true,
        pem: other.root_pem.as_bytes(),
        ..Trust::default()
    };
    let made = Made::issued(&named);
    let refusal = refused_with(&made, &system, "hub.example");
    assert_eq!(refusal, Refusal::UnknownIssuer);
}

#[test]
fn a_self_signed_certificate_may_be_trusted_by_itself() {
    let made = Made::self_signed(&Named::new("hub.example"));
    open(&made, &made.trust(), "hub.example");
    let refusal = refused_with(&made, &made.trust(), "other.example");
    assert!(matches!(refusal, Refusal::OtherHost { .. }));
    let any = Trust {
        pinned_names_any: true,
        ..made.trust()
    };
    open(&made, &any, "other.example");
}

#[test]
fn an_old_certificate_has_its_name_as_the_common_name_alone() {
    let mut named = Named::new("hub.example");
    named.is_common_name = true;
    let made = Made::self_signed(&named);
    open(&made, &made.trust(), "hub.example");
    let refusal = refused_with(&made, &made.trust(), "other.example");
    assert!(matches!(refusal, Refusal::OtherHost { .. }));
}

/// Its key would else be as good as an authority's.
#[test]
fn a_server_that_is_trusted_cannot_vouch_for_others() {
    let trusted = Made::self_signed(&Named::new("hub.example"));
    let forged = trusted.issue(&Named::new("other.example"));
    let any = Trust {
        pinned_names_any: true,
        ..trusted.trust()
    };
    for trust in [trusted.trust(), any] {
        let refusal = refused_with(&forged, &trust, "other.example");
        assert_eq!(refusal, Refusal::UnknownIssuer);
    }
}

#[test]
fn an_issuer_that_is_no_authority_is_told_in_words() {
    let server = Made::issued(&Named::new("hub.example"));
    let forged = server.issue(&Named::new("other.example"));
    let refusal = refused_with(&forged, &server.trust(), "other.example");
    assert_eq!(refusal, Refusal::IssuerIsNoAuthority);
    assert_eq!(
        Error::Certificate(refusal).to_string(),
        "the peer's certificate is refused: its issuer is no authority (basic constraints)"
    );
}

#[test]
fn names_are_checked_of_what_an_authority_has_issued() {
    let made = Made::issued(&Named::new("other.example"));
    let any = Trust {
        pinned_names_any: true,
        ..made.trust()
    };
    let refusal = refused_with(&made, &any, "hub.example");
    assert!(matches!(refusal, Refusal::OtherHost { .. }));
}

#[test]
fn settings_that_are_of_no_use_are_refused() {
    let named = Named::new("hub.example");
    let [made, other] = [(); 2].map(|()| Made::issued(&named));
    let (certificate, key) = (made.pem.as_bytes(), made.key_pem.as_bytes());
    let server = |certificate, key| Server::new(certificate, key).unwrap_err();
    assert_eq!(server(b"", key), Error::NoCertificate);
    assert_eq!(server(b"nonsense", key), Error::NoCertificate);
    assert_eq!(server(certificate, b""), Error::NoKey);
    assert_eq!(server(certificate, certificate), Error::NoKey);
    let foreign = other.key_pem.as_bytes();
    assert_eq!(server(certificate, foreign), Error::KeyMismatch);
    let broken = made.pem.replacen("MII", "AAA", 1);
    assert!(matches!(
        server(broken.as_bytes(), key),
        Error::Malformed(_)
    ));
    let long = vec![b'x'; (1 << 20) + 1];
    assert!(matches!(server(&long, key), Error::PemTooLong { .. }));

    let client = |pem| {
        let trust = Trust {
            pem,
            ..Trust::default()
        };
        Client::new(&trust).unwrap_err()
    };
    assert_eq!(client(b""), Error::NoTrust);
    assert_eq!(client(key), Error::NoCertificate);
    assert!(matches!(client(broken.as_bytes()), Error::Malformed(_)));

    let client = Client::new(&made.trust()).unwrap();
    for name in ["", "a b", "[::1]", "host:1"] {
        let refused = Session::client(&client, name).unwrap_err();
        assert_eq!(refused, Error::InvalidName(name.to_owned()));
    }
}

#[test]
fn an_end_is_told_and_what_follows_is_ignored() {
    let mut ends = opened();
    ends[0].send(b"last").unwrap();
    ends[0].close();
    ends[0].outgoing().extend_from_slice(&[0xff; 9_000]);
    assert_eq!(transfer(&mut ends, 0), b"last");
    assert!(ends[1].is_ended());
    assert_eq!(ends[0].send(b"more"), Err(Error::Closed));
    assert_eq!(ends[0].receive(b"x", &mut Vec::new()), Err(Error::Closed));
    // The other direction is still open.
    ends[1].send(b"more").unwrap();
    assert!(ends[1].outgoing_bytes() > 0);
}

#[test]
fn ciphertext_that_was_changed_ends_the_connection() {
    let mut ends = opened();
    ends[0].send(&[7; 1_000]).unwrap();
    let mut ciphertext = std::mem::take(ends[0].outgoing());
    ciphertext[500] ^= 1;
    let mut plaintext = Vec::new();
    let refused = ends[1].receive(&ciphertext, &mut plaintext);
    assert!(matches!(refused, Err(Error::Protocol(_))), "{refused:?}");
    assert!(plaintext.is_empty());
    assert!(ends[1].outgoing_bytes() > 0, "an alert");
    assert_eq!(ends[1].receive(b"x", &mut plaintext), Err(Error::Closed));
}

#[test]
fn a_record_that_claims_to_be_huge_is_refused_at_its_header() {
    let made = Made::known();
    for (kind, is_open) in [(0x16, false), (0x17, true)] {
        let mut ends = match is_open {
            true => opened(),
            false => ends(made, &made.trust(), "hub.example"),
        };
        let header = [kind, 3, 3, 0xff, 0xff];
        let refused = ends[1].receive(&header, &mut Vec::new());
        assert!(matches!(refused, Err(Error::Protocol(_))), "{refused:?}");
    }
}

#[test]
fn what_is_not_tls_is_refused() {
    let made = Made::issued(&Named::new("hub.example"));
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[0xff; 64],
        &[0; 64],
        b"\x16\x03\x01\x00\x00\x16\x03\x01\x00\x00",
        // The greeting of SSL 3.0.
        b"\x16\x03\x00\x00\x04\x01\x00\x00\x00",
    ] {
        let mut server = Session::server(&made.server()).unwrap();
        let refused = server.receive(garbage, &mut Vec::new());
        assert!(refused.is_err(), "{garbage:?}");
        assert!(!server.is_open());
        let client = Client::new(&made.trust()).unwrap();
        let mut client = Session::client(&client, "hub.example").unwrap();
        assert!(client.receive(garbage, &mut Vec::new()).is_err());
    }
}

/// It was an error of a session that stayed open, and the peer was not told.
#[test]
fn text_behind_a_broken_head_closes_the_session_with_an_alert() {
    for is_in_place in [false, true] {
        let mut ends = opened();
        // The type of a record, and a version that there is not. A head has five bytes.
        for byte in [0x17, 0x17, 0x03] {
            ends[1].receive(&[byte], &mut Vec::new()).unwrap();
        }
        assert!(ends[1].is_open());
        let sent = match is_in_place {
            true => ends[1].encrypt(b"x", &mut [0; 1_000]).map(drop),
            false => ends[1].send(b"x"),
        };
        assert!(matches!(sent, Err(Error::Protocol(_))), "{sent:?}");
        assert!(ends[1].is_closed() && !ends[1].is_open());
        assert_eq!(ends[1].send(b"x"), Err(Error::Closed));
        let alert = std::mem::take(ends[1].outgoing());
        let heard = ends[0].receive(&alert, &mut Vec::new());
        assert!(matches!(heard, Err(Error::Alert(_))), "{heard:?}");
    }
}

#[test]
fn a_handshake_that_does_not_end_keeps_little() {
    let made = Made::issued(&Named::new("hub.example"));
    let mut server = Session::server(&made.server()).unwrap();
    // A greeting that claims 16 MiB, in pieces of a record each.
    let mut record = vec![0x16, 3, 1, 0x40, 0];
    record.extend_from_slice(&[0; 0x4000]);
    record[5..9].copy_from_slice(&[1, 0xff, 0xff, 0xff]);
    let mut records = 0;
    while server.receive(&record, &mut Vec::new()).is_ok() {
        records += 1;
        assert!(records < 8, "the claimed length is not believed");
        record[5..9].fill(0);
    }
    assert!(!server.is_open());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_are_more_than_an_error(bytes: Vec<u8>, at: usize, byte: u8) {
        let made = Made::known();
        let mut server = Session::server(&made.server()).unwrap();
        let _ = server.receive(&bytes, &mut Vec::new());
        // The client's greeting with one byte changed.
        let client = Client::new(&made.trust()).unwrap();
        let mut client = Session::client(&client, "hub.example").unwrap();
        let mut greeting = std::mem::take(client.outgoing());
        let at = at % greeting.len();
        greeting[at] = byte;
        let mut server = Session::server(&made.server()).unwrap();
        let _ = server.receive(&greeting, &mut Vec::new());
        let mut answer = std::mem::take(server.outgoing());
        if !answer.is_empty() {
            let at = at % answer.len();
            answer[at] ^= byte;
            let _ = client.receive(&answer, &mut Vec::new());
        }
    }

    #[test]
    fn pieces_of_any_size_carry_the_same(sizes in prop::collection::vec(1..5_000_usize, 1..20)) {
        let mut ends = opened();
        let text: Vec<u8> = (0..50_000).map(|at| at as u8).collect();
        ends[0].send(&text).unwrap();
        let ciphertext = std::mem::take(ends[0].outgoing());
        let mut plaintext = Vec::new();
        let (mut rest, mut sizes) = (&ciphertext[..], sizes.iter().cycle());
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            ends[1].receive(piece, &mut plaintext).unwrap();
            rest = behind;
        }
        prop_assert_eq!(plaintext, text);
    }
}

#[test]
fn a_greeting_may_come_in_many_records() {
    for length in [1, 7, 100] {
        let made = Made::known();
        let mut ends = ends(made, &made.trust(), "hub.example");
        let greeting = std::mem::take(ends[0].outgoing());
        let (head, message) = greeting.split_at(5);
        for part in message.chunks(length) {
            let mut record = head[..3].to_vec();
            record.extend_from_slice(&(part.len() as u16).to_be_bytes());
            record.extend_from_slice(part);
            for piece in record.chunks(3) {
                ends[1].receive(piece, &mut Vec::new()).unwrap();
            }
        }
        exchange(&mut ends).unwrap();
        assert!(ends.iter().all(Session::is_open), "records of {length}");
    }
}

#[test]
fn text_is_decrypted_in_place_and_encrypted_into_room_of_the_caller() {
    let mut ends = opened();
    let text: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
    let mut ciphertext = Vec::new();
    for part in text.chunks(tidewire_tls::TEXT_BYTES_MAX) {
        let mut room = vec![0; tidewire_tls::room_for(part.len())];
        let count = ends[0].encrypt(part, &mut room).unwrap();
        assert!(count <= room.len());
        ciphertext.extend_from_slice(&room[..count]);
    }
    let mut heard = Vec::new();
    for piece in ciphertext.chunks_mut(40_000) {
        let take = &mut |part: &[u8]| heard.extend_from_slice(part);
        ends[1].receive_in_place(piece, take).unwrap();
    }
    assert_eq!(heard, text);
    assert_eq!(ends[1].incoming_bytes(), 0, "nothing is kept");
}
