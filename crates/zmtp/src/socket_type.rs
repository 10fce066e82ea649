//! The socket types, their names on the wire, and which can be connected.

use std::fmt;

/// Declares the types, each with its number and its name on the wire.
macro_rules! socket_types {
    ($($(#[$docs:meta])* $kind:ident = $number:literal, $name:literal;)*) => {
        /// A ZeroMQ socket type: the eleven stable ones, then those of libzmq's draft interface.
        ///
        /// STREAM (11) is missing: it uses raw TCP, not ZMTP.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum SocketType {
            $($(#[$docs])* $kind = $number,)*
        }

        impl SocketType {
            /// Every type, in the order of its number.
            pub const ALL: [SocketType; [$($number),*].len()] = [$(SocketType::$kind),*];

            /// Returns the value of the `Socket-Type` property.
            pub const fn name(self) -> &'static str {
                match self {
                    $(SocketType::$kind => $name,)*
                }
            }
        }
    };
}

socket_types! {
    /// Exclusive pair.
    Pair = 0, "PAIR";
    /// Publisher that handles subscriptions itself.
    Pub = 1, "PUB";
    /// Subscriber.
    Sub = 2, "SUB";
    /// Request, alternating with its replies.
    Req = 3, "REQ";
    /// Reply.
    Rep = 4, "REP";
    /// Asynchronous request.
    Dealer = 5, "DEALER";
    /// Asynchronous reply, addressed by routing id.
    Router = 6, "ROUTER";
    /// Sink of a pipeline.
    Pull = 7, "PULL";
    /// Source of a pipeline.
    Push = 8, "PUSH";
    /// Publisher that passes subscriptions to the application.
    Xpub = 9, "XPUB";
    /// Subscriber that sends subscriptions as messages.
    Xsub = 10, "XSUB";
    /// Asynchronous reply in single frames, addressed by a number; draft (RFC 41).
    Server = 12, "SERVER";
    /// Asynchronous request in single frames; draft (RFC 41).
    Client = 13, "CLIENT";
    /// Publisher by group; draft (RFC 48).
    Radio = 14, "RADIO";
    /// Member of groups; draft (RFC 48).
    Dish = 15, "DISH";
    /// Sink of a pipeline of single frames; draft (RFC 49).
    Gather = 16, "GATHER";
    /// Source of a pipeline of single frames; draft (RFC 49).
    Scatter = 17, "SCATTER";
    /// UDP datagrams, which are not ZMTP; draft.
    Dgram = 18, "DGRAM";
    /// Peer among equals, addressed by a number; draft (RFC 51).
    Peer = 19, "PEER";
    /// Exclusive pair of single frames; draft (RFC 52).
    Channel = 20, "CHANNEL";
}

impl SocketType {
    /// Returns the type of this name; names are compared exactly, including case.
    pub fn from_name(name: &[u8]) -> Option<SocketType> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().as_bytes() == name)
    }

    /// Returns the octet of a ZMTP 2.0 greeting, the same as libzmq's `ZMQ_PAIR` … `ZMQ_CHANNEL`.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the type of this number.
    pub fn from_number(number: u8) -> Option<SocketType> {
        Self::ALL.into_iter().find(|&kind| kind.number() == number)
    }

    /// Returns whether the two types can be connected (the table of RFC 37; drafts as in libzmq).
    pub const fn compatible_with(self, peer: SocketType) -> bool {
        use SocketType::{
            Channel, Client, Dealer, Dgram, Dish, Gather, Pair, Peer, Pub, Pull, Push, Radio, Rep,
            Req, Router, Scatter, Server, Sub, Xpub, Xsub,
        };
        match self {
            Pair => matches!(peer, Pair),
            Pub | Xpub => matches!(peer, Sub | Xsub),
            Sub | Xsub => matches!(peer, Pub | Xpub),
            Req => matches!(peer, Rep | Router),
            Rep => matches!(peer, Req | Dealer),
            Dealer => matches!(peer, Rep | Dealer | Router),
            Router => matches!(peer, Req | Dealer | Router),
            Pull => matches!(peer, Push),
            Push => matches!(peer, Pull),
            Server => matches!(peer, Client),
            Client => matches!(peer, Server),
            Radio => matches!(peer, Dish),
            Dish => matches!(peer, Radio),
            Gather => matches!(peer, Scatter),
            Scatter => matches!(peer, Gather),
            Dgram => matches!(peer, Dgram),
            Peer => matches!(peer, Peer),
            Channel => matches!(peer, Channel),
        }
    }

    /// Returns whether this type handles a peer's subscriptions.
    pub const fn is_publisher(self) -> bool {
        matches!(self, SocketType::Pub | SocketType::Xpub)
    }

    /// Returns whether this type announces its routing id (as libzmq does, even an empty one).
    pub(crate) const fn announces_routing_id(self) -> bool {
        matches!(
            self,
            SocketType::Req | SocketType::Dealer | SocketType::Router
        )
    }
}

impl fmt::Display for SocketType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::SocketType;

    #[test]
    fn names_and_numbers_lead_back_to_their_type() {
        for kind in SocketType::ALL {
            assert_eq!(SocketType::from_name(kind.name().as_bytes()), Some(kind));
            assert_eq!(SocketType::from_number(kind.number()), Some(kind));
        }
        assert_eq!(SocketType::from_number(11), None, "STREAM");
        assert_eq!(SocketType::from_number(21), None);
        assert_eq!(SocketType::from_name(b"pub"), None);
        assert_eq!(SocketType::from_name(b"STREAM"), None);
    }

    #[test]
    fn compatibility_is_symmetric() {
        let mut legal = 0;
        for left in SocketType::ALL {
            for right in SocketType::ALL {
                assert_eq!(left.compatible_with(right), right.compatible_with(left));
                legal += usize::from(left.compatible_with(right));
            }
        }
        assert_eq!(
            legal, 30,
            "21 stars in the table of RFC 37 for the stable types, 9 pairs of drafts"
        );
    }
}
