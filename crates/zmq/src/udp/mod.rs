//! RADIO, DISH and DGRAM over UDP. There are no connections: what is bound or connected is one
//! peer, whose link is a UDP socket.

mod link;
mod open;
mod place;

use std::net::SocketAddr;
use std::sync::Arc;

use tidewire_zmtp::Datagram;

use link::{Arrival, Role as LinkRole, address_frame};
pub(crate) use link::{DatagramLink, Sent};
use place::Place;

use crate::endpoint::{Endpoint, Loss, Role};
use crate::error::Error;
use crate::group_topic::{GroupTopic, until_zero};
use crate::kind::SocketType;
use crate::link::{Frames, Inbound};
use crate::message::{Last, Message};
use crate::peer::{Link, Peer};
use crate::properties::Properties;
use crate::slab::Key;
use crate::socket::Socket;
use crate::state::{State, Token};

impl Socket {
    /// Binds to, or connects to, what stands behind `udp://` in an endpoint. The lock is not held
    /// while a name is looked up.
    pub(crate) fn open_udp(&self, endpoint: &str, text: &str, is_bound: bool) -> Result<(), Error> {
        let ipv6 = self.core().enter()?.options.ipv6;
        let place = Place::resolve(text, is_bound, ipv6)?;
        let mut state = self.core().enter_timed()?;
        let result = match is_bound {
            true => state.bind_udp(endpoint, text, &place),
            false => state.connect_udp(endpoint, &place),
        };
        self.core().leave(&mut state);
        result
    }
}

impl State {
    /// DISH and DGRAM: receives datagrams from now on.
    fn bind_udp(&mut self, endpoint: &str, text: &str, place: &Place) -> Result<(), Error> {
        let role = match self.kind {
            SocketType::Dgram => LinkRole::Dgram,
            _ => LinkRole::Dish,
        };
        let sends = role == LinkRole::Dgram;
        let (descriptor, bound) = open::to_receive(place, sends, &self.options)
            .map_err(|error| self.report_bind_failure(endpoint, error))?;
        let link = DatagramLink::new(descriptor, role, bound.is_ipv6());
        self.has_datagrams = true;
        self.add_datagrams(endpoint, bound_name(text, place, bound), link)
    }

    /// RADIO: sends all messages there from now on, of any group.
    fn connect_udp(&mut self, endpoint: &str, place: &Place) -> Result<(), Error> {
        let descriptor = open::to_send(place, &self.options)?;
        let role = LinkRole::Radio(place.target);
        let link = DatagramLink::new(descriptor, role, place.target.is_ipv6());
        self.add_datagrams(endpoint, endpoint.to_owned(), link)
    }

    fn add_datagrams(
        &mut self,
        endpoint: &str,
        bound: String,
        link: DatagramLink,
    ) -> Result<(), Error> {
        let options = self.options_now();
        let origin = self.endpoints.next_key();
        let key = self.peers.next_key();
        self.watch_descriptor(&link, Token::Peer(key), link.interest.flags())?;
        let link = Link::Datagrams(Box::new(link));
        let inserted = self.peers.insert(Peer::new(
            self.kind,
            link,
            Some(origin),
            Arc::clone(&options),
        ));
        debug_assert_eq!(inserted, key, "events of the descriptor name its peer");
        self.last_endpoint.clone_from(&bound);
        let inserted = self.endpoints.insert(Endpoint {
            name: endpoint.to_owned(),
            role: Role::Datagrams { peer: key, bound },
            options,
            secure: None,
            is_leaving: false,
        });
        debug_assert_eq!(inserted, origin, "the peer names its endpoint");
        if self.kind == SocketType::Radio {
            // Every group begins with nothing: this one gets all of them.
            self.subscribers.insert(b"", key);
        }
        // As in libzmq, a DGRAM that is bound already goes on as it was.
        self.attach(key);
        Ok(())
    }

    /// The next message that is in the kernel; `Nothing` also after many that are of no use.
    pub(crate) fn read_datagram(&mut self, key: Key) -> Inbound {
        let Some(peer) = self.peers.get_mut(key) else {
            return Inbound::Nothing;
        };
        let Link::Datagrams(link) = &mut peer.link else {
            return Inbound::Nothing;
        };
        for _ in 0..USELESS_MAX {
            match link.receive() {
                Arrival::Nothing => return Inbound::Nothing,
                Arrival::Malformed => peer.counters.malformed += 1,
                Arrival::OfGroup(datagram, known) => {
                    let group = until_zero(datagram.group);
                    if self.subscriptions.covers(GroupTopic::of(group).bytes()) {
                        return Inbound::Message(Frames::One(of_group(group, &datagram, known)));
                    }
                }
                Arrival::From(sender, body) => {
                    let frames = vec![address_frame(sender), Message::from_slice(body)];
                    return Inbound::Message(Frames::Many(frames));
                }
            }
        }
        Inbound::Nothing
    }

    /// The kernel has datagrams. `ahead`: the program is not asking, and what comes is kept for it
    /// as far as its high-water mark lets it; the rest stays in the kernel.
    pub(crate) fn datagrams_arrived(&mut self, key: Key, ahead: bool) {
        let was_told = self.peers.get(key).is_some_and(|peer| peer.is_readable);
        // One that was told and has not taken them would be told again at once.
        if ahead || was_told {
            self.keep_datagrams(key);
        } else {
            self.mark_readable(key);
        }
    }

    /// Takes in what the kernel has for a program that is elsewhere.
    pub(crate) fn keep_datagrams(&mut self, key: Key) {
        let high_water = match self.options.receive_high_water {
            mark if mark > 0 => mark as usize,
            _ => usize::MAX,
        };
        let bytes_max = match self.options.receive_high_water_bytes {
            limit if limit > 0 => limit as usize,
            _ => usize::MAX,
        };
        for _ in 0..KEPT_AT_ONCE_MAX {
            let Some(peer) = self.peers.get(key) else {
                return;
            };
            if peer.incoming.len() >= high_water || peer.incoming.bytes() >= bytes_max {
                return self.watch(key, |interest| interest.read = false);
            }
            let Inbound::Message(frames) = self.read_datagram(key) else {
                return;
            };
            if let Some(peer) = self.peers.get_mut(key) {
                peer.incoming.push(frames);
            }
            self.mark_readable(key);
        }
    }

    /// Sends a message in a datagram, or keeps it while the kernel has no room.
    pub(crate) fn send_datagram(
        &mut self,
        key: Key,
        mut head: impl Iterator<Item = Message>,
        last: Last<'_>,
    ) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let Link::Datagrams(link) = &mut peer.link else {
            return;
        };
        let first = head.next().unwrap_or_default();
        debug_assert!(head.next().is_none(), "a group or an address, and a body");
        match link.send(&first, last.bytes()) {
            Sent::Done => {}
            Sent::Dropped => self.count_drop(key),
            Sent::Full => {
                self.hold_back(key, std::iter::once(first), last);
                self.watch(key, |interest| interest.write = true);
            }
        }
    }

    /// Sends what waits for room in the kernel.
    pub(crate) fn flush_datagrams(&mut self, key: Key) {
        loop {
            let Some(peer) = self.peers.get_mut(key) else {
                return;
            };
            let Link::Datagrams(link) = &mut peer.link else {
                return;
            };
            let Some((head, body)) = peer.backlog.first_two_frames() else {
                break;
            };
            debug_assert!(head.more() && !body.more(), "a message is two frames");
            let (sent, mut is_last) = (link.send(head, body), false);
            if sent == Sent::Full {
                return self.watch(key, |interest| interest.write = true);
            }
            while peer.backlog.pass(|frame| is_last = !frame.more()) && !is_last {}
            if sent == Sent::Dropped {
                self.count_drop(key);
            }
        }
        self.watch(key, |interest| interest.write = false);
        // One whose endpoint is gone has only lived for what it had to send.
        if self
            .peers
            .get(key)
            .is_some_and(|peer| peer.origin.is_none())
        {
            self.lose(key, Loss::ByUs);
        }
    }
}

/// A message of a group. The properties of the one before are used again, if they are the same.
fn of_group(group: &[u8], datagram: &Datagram<'_>, known: &mut Option<Arc<Properties>>) -> Message {
    let mut message = Message::from_slice(datagram.body);
    let is_known = |properties: &Arc<Properties>| {
        let known = properties.group.as_deref().unwrap_or_default();
        known.to_bytes() == group
    };
    if known.as_ref().is_some_and(is_known) {
        message.set_properties(known.as_ref());
    } else {
        message.put_group(group);
        known.clone_from(&message.properties);
    }
    message
}

/// The endpoint with the address that was really taken.
fn bound_name(text: &str, place: &Place, bound: SocketAddr) -> String {
    if !place.is_multicast {
        let bound = SocketAddr::new(bound.ip().to_canonical(), bound.port());
        return format!("udp://{bound}");
    }
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    format!("udp://{host}:{}", bound.port())
}

/// Datagrams of no use that are passed over before others get their turn.
const USELESS_MAX: usize = 1_024;
/// Datagrams taken in for a program that is elsewhere before others get their turn.
const KEPT_AT_ONCE_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::core::{Purpose, Wait};
    use crate::{Context, SendFlags};

    /// What a full kernel does to messages: they are held back until it tells of room.
    fn hold_back(state: &mut State, messages: &[[&[u8]; 2]]) -> Key {
        let key = state.peers.keys()[0];
        for [head, body] in messages {
            let mut head = Message::from_slice(head);
            head.set_more(true);
            state.hold_back(key, std::iter::once(head), Last::Slice(body));
        }
        state.watch(key, |interest| interest.write = true);
        key
    }

    fn receiver() -> (UdpSocket, String) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let patience = std::time::Duration::from_secs(5);
        socket.set_read_timeout(Some(patience)).unwrap();
        let place = format!("udp://{}", socket.local_addr().unwrap());
        (socket, place)
    }

    fn assert_next(socket: &UdpSocket, expected: &[u8]) {
        let mut room = [0; 100];
        let length = socket.recv(&mut room).unwrap();
        assert_eq!(&room[..length], expected);
    }

    #[test]
    fn what_a_full_kernel_has_held_back_is_sent_in_its_order() {
        let context = Context::new();
        let (receiver, place) = receiver();
        let radio = context.socket(SocketType::Radio).unwrap();
        radio.connect(&place).unwrap();
        let long = [0; Datagram::BYTES_MAX];
        let mut state = radio.core().lock();
        let key = hold_back(&mut state, &[[b"g", b"one"], [b"g", &long], [b"", b"two"]]);
        assert_eq!(state.peers.get(key).unwrap().pending_messages(), 3);
        drop(state);
        radio.send_bytes(b"three", SendFlags::default()).unwrap();
        while radio.peers().unwrap()[0].queued > 0 {
            let mut state = radio.core().lock();
            let driven = radio.core().drive(&mut state, Wait::Not, Purpose::Send);
            driven.unwrap();
        }
        for expected in [&b"\x01gone"[..], b"\0two", b"\0three"] {
            assert_next(&receiver, expected);
        }
        let state = radio.core().lock();
        assert_eq!(state.writes_watched, 0);
        let peer = state.peers.values().next().unwrap();
        assert_eq!((peer.backlog.bytes(), peer.counters.dropped), (0, 1));
    }

    #[test]
    fn a_radio_that_is_full_drops_or_waits_as_its_options_say() {
        let context = Context::new();
        let (receiver, place) = receiver();
        let radio = context.socket(SocketType::Radio).unwrap();
        radio.set_high_water_marks(2, 2).unwrap();
        radio.connect(&place).unwrap();
        let at_once = SendFlags {
            dont_wait: true,
            more: false,
        };
        let mut state = radio.core().lock();
        let key = hold_back(&mut state, &[[b"", b"one"], [b"", b"two"]]);
        assert!(!state.can_write(key));
        let not_sent = state.send_frame(Last::Slice(b"dropped"), false);
        assert_eq!(
            (not_sent, state.peers.get(key).unwrap().counters.dropped),
            (Ok(()), 1)
        );
        state.options.xpub_no_drop = true;
        let not_sent = state.send_frame(Last::Slice(b"waits"), false);
        assert_eq!(not_sent, Err(crate::state::NotSent::Full));
        drop(state);
        // The kernel has room all the same, and tells so.
        radio.send_bytes(b"three", at_once).unwrap();
        for expected in [b"\0one".as_slice(), b"\0two", b"\0three"] {
            assert_next(&receiver, expected);
        }
    }

    #[test]
    fn an_endpoint_that_ends_and_a_socket_that_closes_send_what_waits() {
        let context = Context::new();
        let (receiver, place) = receiver();
        let radio = context.socket(SocketType::Radio).unwrap();
        radio.connect(&place).unwrap();
        let waiting = b"at the end of an endpoint";
        hold_back(&mut radio.core().lock(), &[[b"", waiting]]);
        radio.disconnect(&place).unwrap();
        assert_next(&receiver, b"\0at the end of an endpoint");
        radio
            .send_bytes(b"to nobody", SendFlags::default())
            .unwrap();
        radio.connect(&place).unwrap();
        hold_back(
            &mut radio.core().lock(),
            &[[b"", b"at the end of a socket"]],
        );
        radio.close().unwrap();
        assert_next(&receiver, b"\0at the end of a socket");
        context.terminate().unwrap();
    }
}
