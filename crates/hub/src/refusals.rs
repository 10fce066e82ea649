//! Error replies, per port, for connections above the limit.
//!
//! A refused connection never just closes: it first gets an error in its protocol.

use std::sync::atomic::Ordering;

use tidewire_feed::wire::{Control, PacketWriter, RefusalReason, RefusalText, Refused};

use tidewire_web::http::Reply;

use crate::hub::Hub;
use crate::port;

/// Redis's text.
pub(crate) const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";

/// Counts a refused connection, and returns the reply to its peer.
pub(crate) fn refuse(hub: &Hub, port: u16) -> Vec<u8> {
    match port {
        port::DATABENTO => &hub.market.databento.refused,
        _ => &hub.server.rejected_clients,
    }
    .fetch_add(1, Ordering::Relaxed);
    match port {
        port::RESP => TOO_MANY_CLIENTS.into(),
        port::FEED => {
            let mut packet = Vec::new();
            let session = hub.market.journal.lock().session();
            let refused = Refused {
                reason: RefusalReason::FULL,
                text: RefusalText::new(TEXT).unwrap_or_default(),
            };
            PacketWriter::control(&mut packet, session, &Control::Refused(refused));
            packet
        }
        port::DATABENTO => format!("success=0|error={TEXT}\n").into(),
        port::WEB => http("503 Service Unavailable", TEXT),
        _ => zmtp(),
    }
}

/// Returns a response of HTTP with a text, after which the connection closes.
pub(crate) fn http(status: &str, text: &str) -> Vec<u8> {
    let body = format!("{text}\n");
    let reply = Reply {
        status,
        content_type: "text/plain; charset=utf-8",
        headers: "Cache-Control: no-store\r\n",
        body: body.as_bytes(),
    };
    let mut out = Vec::new();
    reply.write(true, false, &mut out);
    out
}

/// Returns the greeting of a ZMTP 3.1 server, followed by an ERROR command.
fn zmtp() -> Vec<u8> {
    let mut bytes = Vec::from([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 1]);
    bytes.extend_from_slice(b"NULL");
    bytes.resize(64, 0);
    let length = [TEXT.len() as u8];
    let body = [b"\x05ERROR", &length[..], TEXT.as_bytes()].concat();
    bytes.extend_from_slice(&[COMMAND, body.len() as u8]);
    bytes.extend(body);
    bytes
}

const TEXT: &str = "max number of clients reached";
/// The flag of a short command frame.
const COMMAND: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::HubConfig;
    use tidewire_lane::Lanes;

    #[test]
    fn every_port_says_in_its_own_words_that_it_is_full() {
        let hub = Hub::new(HubConfig::default(), Lanes::mailboxes(1).unwrap());
        let says = |bytes: &[u8]| {
            bytes
                .windows(TEXT.len())
                .any(|part| part == TEXT.as_bytes())
        };
        for port in [
            port::RESP,
            port::ZMQ_PUBLISH,
            port::ZMQ_PULL,
            port::ZMQ_ROUTER,
            port::FEED,
            port::DATABENTO,
            port::WEB,
        ] {
            assert!(says(&refuse(&hub, port)), "port {port}");
        }
        assert_eq!(hub.server.rejected_clients.load(Ordering::Relaxed), 6);
        assert_eq!(hub.market.databento.refused.load(Ordering::Relaxed), 1);
        let greeting = zmtp();
        assert_eq!(greeting.len(), 64 + 2 + 7 + TEXT.len());
    }
}
