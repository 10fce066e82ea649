//! The socket types.

use tidewire_zmtp as zmtp;

/// Declares the types, each with libzmq's number.
macro_rules! socket_types {
    ($($(#[$docs:meta])* $name:ident = $number:literal,)*) => {
        /// What a socket does with messages. The numbers are libzmq's.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum SocketType {
            $($(#[$docs])* $name = $number,)*
        }

        impl SocketType {
            /// The type of this number.
            pub const fn from_number(number: i32) -> Option<SocketType> {
                match number {
                    $($number => Some(SocketType::$name),)*
                    _ => None,
                }
            }
        }
    };
}

socket_types! {
    /// One peer, both ways.
    Pair = 0,
    /// Sends each message to all that have subscribed to its beginning.
    Pub = 1,
    /// Receives what it has subscribed to.
    Sub = 2,
    /// Asks, then waits for the answer.
    Req = 3,
    /// Answers.
    Rep = 4,
    /// Sends in turn to its peers, receives from all.
    Dealer = 5,
    /// Sends to a named peer; receives from all and names the sender.
    Router = 6,
    /// Receives from all its peers.
    Pull = 7,
    /// Sends in turn to its peers.
    Push = 8,
    /// A PUB that receives the subscriptions as messages.
    Xpub = 9,
    /// A SUB that sends its subscriptions as messages.
    Xsub = 10,
    /// Raw TCP connections.
    Stream = 11,
    /// Sends to a numbered peer; receives from all and numbers the sender; messages of one frame.
    /// Draft (RFC 41).
    Server = 12,
    /// Sends in turn to servers, receives from all; messages of one frame. Draft (RFC 41).
    Client = 13,
    /// Sends each message to all that have joined its group; messages of one frame. Draft
    /// (RFC 48).
    Radio = 14,
    /// Receives the messages of groups that it has joined. Draft (RFC 48).
    Dish = 15,
    /// A PULL of messages of one frame. Draft (RFC 49).
    Gather = 16,
    /// A PUSH of messages of one frame. Draft (RFC 49).
    Scatter = 17,
    /// UDP datagrams, each with the address of its peer. Draft.
    Dgram = 18,
    /// A SERVER whose peers are its like, bound or connected. Draft (RFC 51).
    Peer = 19,
    /// A PAIR of messages of one frame. Draft (RFC 52).
    Channel = 20,
}

impl SocketType {
    /// libzmq's number.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The type on the wire; none for STREAM, which speaks no ZMTP.
    pub(crate) fn wire(self) -> Option<zmtp::SocketType> {
        zmtp::SocketType::from_number(self as u8)
    }

    /// Whether messages can be received at all.
    pub(crate) const fn receives(self) -> bool {
        !matches!(
            self,
            SocketType::Pub | SocketType::Push | SocketType::Scatter | SocketType::Radio
        )
    }

    /// Whether a sender waits for its receivers, and each message goes to one of them.
    pub(crate) const fn sends_in_turn(self) -> bool {
        matches!(
            self,
            SocketType::Push
                | SocketType::Dealer
                | SocketType::Pair
                | SocketType::Client
                | SocketType::Scatter
                | SocketType::Channel
        )
    }

    /// Whether a message is one frame: what libzmq calls thread-safe, which here all are.
    pub(crate) const fn is_single_framed(self) -> bool {
        matches!(
            self,
            SocketType::Server
                | SocketType::Client
                | SocketType::Gather
                | SocketType::Scatter
                | SocketType::Radio
                | SocketType::Dish
                | SocketType::Peer
                | SocketType::Channel
        )
    }

    /// Whether a new peer can be sent an empty message (`PROBE_ROUTER`).
    pub(crate) const fn can_probe(self) -> bool {
        matches!(
            self,
            SocketType::Router | SocketType::Rep | SocketType::Dealer | SocketType::Req
        )
    }

    /// Whether there is one peer at most.
    pub(crate) const fn is_exclusive(self) -> bool {
        matches!(
            self,
            SocketType::Pair | SocketType::Channel | SocketType::Dgram
        )
    }

    /// Whether one connection to an endpoint is all that makes sense: over two, messages come
    /// twice, or two in turn go to one peer.
    pub(crate) const fn connects_once(self) -> bool {
        matches!(
            self,
            SocketType::Dealer | SocketType::Req | SocketType::Pub | SocketType::Sub
        )
    }

    /// Whether its peers have numbers, by which they are sent to.
    pub(crate) const fn numbers_peers(self) -> bool {
        matches!(self, SocketType::Server | SocketType::Peer)
    }

    /// Whether it hears from its peers what they want.
    pub(crate) const fn is_publisher(self) -> bool {
        matches!(self, SocketType::Pub | SocketType::Xpub | SocketType::Radio)
    }

    /// Whether what has come has a meaning for the next message that is sent.
    pub(crate) const fn looks_before_sending(self) -> bool {
        self.is_publisher() || matches!(self, SocketType::Req)
    }

    /// Whether some of the messages that it receives are subscriptions.
    pub(crate) const fn hears_subscriptions(self) -> bool {
        matches!(self, SocketType::Pub | SocketType::Xpub)
    }

    /// Whether it tells its peers what it wants.
    pub(crate) const fn is_subscriber(self) -> bool {
        matches!(self, SocketType::Sub | SocketType::Xsub | SocketType::Dish)
    }

    /// Whether the socket can keep the last message alone (`CONFLATE`).
    pub(crate) const fn conflates(self) -> bool {
        matches!(
            self,
            SocketType::Dealer
                | SocketType::Push
                | SocketType::Pull
                | SocketType::Pub
                | SocketType::Sub
        )
    }

    /// Whether what is wanted are beginnings of messages.
    pub(crate) const fn has_topics(self) -> bool {
        (self.is_publisher() || self.is_subscriber()) && !self.is_single_framed()
    }
}
