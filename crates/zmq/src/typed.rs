//! Sockets by type: each can do what its pattern allows, and nothing else compiles.
//!
//! A typed socket is used by one thread at a time (its methods take `&mut self`); it can move to
//! another. What is rarely needed is reached through [`Socket`], which every one lends.

use std::time::Duration;

use crate::context::Context;
use crate::error::Error;
use crate::kind::SocketType;
use crate::message::Message;
use crate::multipart::Multipart;
use crate::socket::Socket;
use crate::socket_options as option;

/// Defines a typed socket, and whether it sends, receives, or both.
macro_rules! typed {
    ($(#[$docs:meta])* $name:ident: $($does:ident),+) => {
        $($does!($name);)+

        $(#[$docs])*
        #[derive(Debug)]
        pub struct $name {
            socket: Socket,
        }

        impl $name {
            /// A socket that is neither bound nor connected.
            ///
            /// # Errors
            /// The context is terminated, or there are too many sockets or descriptors.
            pub fn new(context: &Context) -> Result<Self, Error> {
                let socket = context.socket(SocketType::$name)?;
                Ok(Self { socket })
            }

            /// A socket bound to an endpoint.
            ///
            /// # Errors
            /// As [`Socket::bind`].
            pub fn bind(context: &Context, endpoint: &str) -> Result<Self, Error> {
                let new = Self::new(context)?;
                new.socket.bind(endpoint)?;
                Ok(new)
            }

            /// A socket connected to an endpoint.
            ///
            /// # Errors
            /// As [`Socket::connect`].
            pub fn connect(context: &Context, endpoint: &str) -> Result<Self, Error> {
                let new = Self::new(context)?;
                new.socket.connect(endpoint)?;
                Ok(new)
            }

            /// The socket itself, for everything that typed sockets have no method for.
            pub fn socket(&self) -> &Socket {
                &self.socket
            }

            /// Gives the socket back without its type.
            pub fn into_socket(self) -> Socket {
                self.socket
            }
        }
    };
}

macro_rules! sends {
    ($name:ident) => {
        impl $name {
            /// Sends a message, and waits while no peer can take it.
            ///
            /// # Errors
            /// [`Error::Again`] after the send time-out, if one is set; [`Error::Terminated`].
            pub fn send(&mut self, message: impl Into<Multipart>) -> Result<(), Error> {
                self.socket.send_parts(&mut message.into(), false)
            }

            /// Sends a message, in a task, as [`Socket::send_async`] does.
            ///
            /// # Errors
            /// As [`send`](Self::send), but for [`Error::Again`].
            pub async fn send_async(&mut self, message: impl Into<Multipart>) -> Result<(), Error> {
                self.socket.send_async(message).await
            }

            /// Sends a message if that needs no wait.
            ///
            /// # Errors
            /// The message itself, with the reason.
            pub fn try_send(
                &mut self,
                message: impl Into<Multipart>,
            ) -> Result<(), (Error, Multipart)> {
                let mut message = message.into();
                let result = self.socket.send_parts(&mut message, true);
                result.map_err(|error| (error, message))
            }
        }
    };
}

macro_rules! receives {
    ($name:ident) => {
        impl $name {
            /// Waits for a message.
            ///
            /// # Errors
            /// [`Error::Again`] after the receive time-out, if one is set; [`Error::Terminated`].
            pub fn receive(&mut self) -> Result<Multipart, Error> {
                self.socket.receive_parts(false)
            }

            /// Waits for a message, in a task, as [`Socket::receive_async`] does.
            ///
            /// # Errors
            /// As [`receive`](Self::receive), but for [`Error::Again`].
            pub async fn receive_async(&mut self) -> Result<Multipart, Error> {
                self.socket.receive_async().await
            }

            /// A message, if one is here.
            ///
            /// # Errors
            /// As [`receive`](Self::receive), but for [`Error::Again`].
            pub fn try_receive(&mut self) -> Result<Option<Multipart>, Error> {
                match self.socket.receive_parts(true) {
                    Ok(message) => Ok(Some(message)),
                    Err(Error::Again) => Ok(None),
                    Err(error) => Err(error),
                }
            }

            /// Every message from now on; ends with the context.
            pub fn messages(&mut self) -> impl Iterator<Item = Multipart> + '_ {
                std::iter::from_fn(move || self.receive().ok())
            }
        }
    };
}

typed! {
    /// One peer, both ways.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Pair};
    ///
    /// let context = Context::new();
    /// let mut one = Pair::bind(&context, "inproc://line")?;
    /// let mut other = Pair::connect(&context, "inproc://line")?;
    /// one.send("ping")?;
    /// assert_eq!(other.receive()?.text(), Some("ping"));
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Pair: sends, receives
}

typed! {
    /// Sends each message to all who have subscribed to its beginning; never waits for them.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Sub, Xpub};
    ///
    /// let context = Context::new();
    /// let mut prices = Xpub::bind(&context, "inproc://prices")?;
    /// let mut reader = Sub::connect(&context, "inproc://prices")?;
    /// reader.subscribe("GOLD")?;
    /// assert_eq!(&*prices.receive()?[0], b"\x01GOLD");
    /// prices.send(["GOLD", "2914.55"])?;
    /// assert_eq!(&*reader.receive()?[1], b"2914.55");
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Pub: sends
}

typed! {
    /// Receives what it has subscribed to; see [`Pub`].
    ///
    /// ```
    /// use tidewire_zmq::{Context, Sub, Xpub, socket_options};
    ///
    /// let context = Context::new();
    /// let mut prices = Xpub::bind(&context, "inproc://prices")?;
    /// let mut reader = Sub::new(&context)?;
    /// // An addition to ZeroMQ: of what waits, the newest message of each topic (first frame).
    /// reader.socket().set(socket_options::CONFLATE_TOPICS, true)?;
    /// reader.socket().connect("inproc://prices")?;
    /// reader.subscribe("")?;
    /// prices.receive()?;
    /// for quote in [["GOLD", "2914"], ["TIN", "31"], ["GOLD", "2915"], ["GOLD", "2916"]] {
    ///     prices.send(quote)?;
    /// }
    /// assert_eq!(&*reader.receive()?[1], b"2916");
    /// assert_eq!(&*reader.receive()?[1], b"31");
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Sub: receives
}

impl Sub {
    /// Asks for every message that begins with these bytes; with none, for all.
    ///
    /// # Errors
    /// The context is terminated.
    pub fn subscribe(&mut self, topic: impl AsRef<[u8]>) -> Result<(), Error> {
        self.socket.set(option::SUBSCRIBE, topic.as_ref())
    }

    /// Takes a subscription back.
    ///
    /// # Errors
    /// The context is terminated.
    pub fn unsubscribe(&mut self, topic: impl AsRef<[u8]>) -> Result<(), Error> {
        self.socket.set(option::UNSUBSCRIBE, topic.as_ref())
    }
}

typed! {
    /// A [`Pub`] that sees who subscribes to what: 1 or 0, then the topic.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Sub, Xpub, socket_options};
    ///
    /// let context = Context::new();
    /// let mut prices = Xpub::bind(&context, "inproc://prices")?;
    /// // An addition to ZeroMQ: who subscribes late begins with the newest message of each topic.
    /// prices.socket().set(socket_options::LAST_VALUES, 1000)?;
    /// prices.send(["GOLD", "2914.55"])?;
    /// let mut late = Sub::connect(&context, "inproc://prices")?;
    /// late.subscribe("GOLD")?;
    /// assert_eq!(&*prices.receive()?[0], b"\x01GOLD");
    /// assert_eq!(&*late.receive()?[1], b"2914.55");
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Xpub: sends, receives
}

typed! {
    /// A [`Sub`] that sends its subscriptions as messages: 1 or 0, then the topic. With an [`Xpub`]
    /// it makes a forwarder, which carries subscriptions one way and messages the other.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Sub, Xpub, Xsub};
    ///
    /// let context = Context::new();
    /// let mut source = Xpub::bind(&context, "inproc://source")?;
    /// let mut inward = Xsub::connect(&context, "inproc://source")?;
    /// let mut outward = Xpub::bind(&context, "inproc://outlet")?;
    /// let mut reader = Sub::connect(&context, "inproc://outlet")?;
    /// reader.subscribe("GOLD")?;
    /// inward.send(outward.receive()?)?;
    /// assert_eq!(&*source.receive()?[0], b"\x01GOLD");
    /// source.send(["GOLD", "2914.55"])?;
    /// outward.send(inward.receive()?)?;
    /// assert_eq!(&*reader.receive()?[1], b"2914.55");
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Xsub: sends, receives
}

typed! {
    /// Sends messages in turn to its peers; waits while none can take one.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Pull, Push};
    ///
    /// let context = Context::new();
    /// let mut work = Push::bind(&context, "inproc://work")?;
    /// let mut worker = Pull::connect(&context, "inproc://work")?;
    /// for number in 0..3 {
    ///     work.send(format!("task {number}"))?;
    /// }
    /// for (number, task) in worker.messages().take(3).enumerate() {
    ///     assert_eq!(task.text(), Some(format!("task {number}").as_str()));
    /// }
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Push: sends
}

typed! {
    /// Receives from all its peers, in turn; see [`Push`].
    Pull: receives
}

typed! {
    /// Asks, then waits for the answer.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Rep, Req};
    ///
    /// let context = Context::new();
    /// let mut clock = Rep::bind(&context, "inproc://clock")?;
    /// let asking = std::thread::spawn({
    ///     let context = context.clone();
    ///     move || Req::connect(&context, "inproc://clock")?.request("now?")
    /// });
    /// let question = clock.receive()?;
    /// assert_eq!(question.text(), Some("now?"));
    /// clock.send("noon")?;
    /// assert_eq!(asking.join().unwrap()?.text(), Some("noon"));
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Req: sends, receives
}

impl Req {
    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`receive`](Self::receive).
    pub fn request(&mut self, message: impl Into<Multipart>) -> Result<Multipart, Error> {
        self.send(message)?;
        self.receive()
    }
}

typed! {
    /// Answers; see [`Req`].
    Rep: sends, receives
}

typed! {
    /// Sends in turn to its peers and receives from all, in any order; see [`Router`]. To a [`Rep`]
    /// it sends what a [`Req`] does, an empty frame before the question, without a wait for the
    /// answer to the one before.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Dealer, Rep};
    ///
    /// let context = Context::new();
    /// let mut clock = Rep::bind(&context, "inproc://clock")?;
    /// let mut asker = Dealer::connect(&context, "inproc://clock")?;
    /// asker.send(["", "hour?"])?;
    /// asker.send(["", "minute?"])?;
    /// for answer in ["12", "00"] {
    ///     clock.receive()?;
    ///     clock.send(answer)?;
    /// }
    /// assert_eq!(&*asker.receive()?[1], b"12");
    /// assert_eq!(&*asker.receive()?[1], b"00");
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Dealer: sends, receives
}

typed! {
    /// Receives from all peers and names the sender; sends to the peer that is named.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Dealer, Router};
    ///
    /// let context = Context::new();
    /// let mut router = Router::bind(&context, "inproc://desk")?;
    /// let mut dealer = Dealer::connect(&context, "inproc://desk")?;
    /// dealer.send("hello")?;
    /// let (peer, message) = router.receive_from()?;
    /// assert_eq!(message.text(), Some("hello"));
    /// router.send_to(peer, "welcome")?;
    /// assert_eq!(dealer.receive()?.text(), Some("welcome"));
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Router: sends, receives
}

impl Router {
    /// Waits for a message; gives the sender's routing id beside it.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_from(&mut self) -> Result<(Message, Multipart), Error> {
        let mut message = self.receive()?;
        let peer = message.pop_front().unwrap_or_default();
        Ok((peer, message))
    }

    /// Sends a message to the peer with this routing id. One that is not there loses it, unless
    /// `ROUTER_MANDATORY` is set.
    ///
    /// # Errors
    /// With `ROUTER_MANDATORY`: [`Error::HostUnreachable`].
    pub fn send_to(
        &mut self,
        peer: impl Into<Message>,
        message: impl Into<Multipart>,
    ) -> Result<(), Error> {
        let mut whole = Multipart::from(peer.into());
        for frame in message.into() {
            whole.push(frame);
        }
        self.send(whole)
    }
}

typed! {
    /// Raw TCP connections: a connection's id, then bytes; no bytes tell of its coming and going.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use tidewire_zmq::{Context, Message, Stream};
    ///
    /// let context = Context::new();
    /// let mut server = Stream::bind(&context, "tcp://127.0.0.1:*")?;
    /// let place = server.socket().last_endpoint()?;
    /// let mut client = std::net::TcpStream::connect(place.trim_start_matches("tcp://")).unwrap();
    /// client.write_all(b"GET / HTTP/1.0").unwrap();
    /// let greeted = server.receive()?;
    /// assert!(greeted[1].is_empty());
    /// let request = server.receive()?;
    /// assert_eq!(&*request[1], b"GET / HTTP/1.0");
    /// let id = request[0].clone();
    /// server.send([id.clone(), Message::from("HTTP/1.0 200 OK")])?;
    /// // An empty message ends the connection.
    /// server.send([id, Message::new()])?;
    /// let mut answer = String::new();
    /// client.read_to_string(&mut answer).unwrap();
    /// assert_eq!(answer, "HTTP/1.0 200 OK");
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Stream: sends, receives
}

typed! {
    /// A [`Pair`] whose messages are of one frame each; draft.
    ///
    /// ```
    /// use tidewire_zmq::{Channel, Context};
    ///
    /// let context = Context::new();
    /// let mut one = Channel::bind(&context, "inproc://channel")?;
    /// let mut other = Channel::connect(&context, "inproc://channel")?;
    /// one.send("ping")?;
    /// assert_eq!(other.receive()?.text(), Some("ping"));
    /// assert!(one.send(["two", "frames"]).is_err());
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Channel: sends, receives
}

typed! {
    /// A [`Push`] whose messages are of one frame each; draft. Its peers are [`Gather`]s.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Gather, Scatter};
    ///
    /// let context = Context::new();
    /// let mut sink = Gather::bind(&context, "inproc://results")?;
    /// let mut source = Scatter::connect(&context, "inproc://results")?;
    /// source.send("result")?;
    /// assert_eq!(sink.receive()?.text(), Some("result"));
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Scatter: sends
}

typed! {
    /// A [`Pull`] whose messages are of one frame each; draft. Its peers are [`Scatter`]s.
    Gather: receives
}

typed! {
    /// Sends in turn to [`Server`]s, receives from all; messages of one frame each. Draft.
    Client: sends, receives
}

typed! {
    /// Receives from all its [`Client`]s, and answers by the number that a message carries; draft.
    ///
    /// ```
    /// use tidewire_zmq::{Client, Context, Message, Server};
    ///
    /// let context = Context::new();
    /// let mut server = Server::bind(&context, "inproc://service")?;
    /// let mut client = Client::connect(&context, "inproc://service")?;
    /// client.send("question")?;
    /// let question = server.receive()?;
    /// let mut answer = Message::from("answer");
    /// answer.set_routing_id(question[0].routing_id());
    /// server.send(answer)?;
    /// assert_eq!(client.receive()?.text(), Some("answer"));
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Server: sends, receives
}

typed! {
    /// Sends each message to all [`Dish`]es that have joined its group; never waits for them.
    /// Draft.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Dish, Radio};
    ///
    /// let context = Context::new();
    /// let mut radio = Radio::bind(&context, "inproc://radio")?;
    /// let mut dish = Dish::connect(&context, "inproc://radio")?;
    /// dish.join("news")?;
    /// # radio.socket().events()?;
    /// radio.send_to("weather", "rain")?;
    /// radio.send_to("news", "rain ends")?;
    /// let message = dish.receive()?;
    /// assert_eq!((message[0].group(), message.text()), (&b"news"[..], Some("rain ends")));
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Radio: sends
}

impl Radio {
    /// Sends a message to all who have joined a group.
    ///
    /// # Errors
    /// As [`Message::set_group`]; [`Error::Terminated`].
    pub fn send_to(
        &mut self,
        group: impl AsRef<[u8]>,
        message: impl Into<Message>,
    ) -> Result<(), Error> {
        let mut message = message.into();
        message.set_group(group)?;
        self.send(message)
    }
}

typed! {
    /// Receives the messages of groups that it has joined; its peers are [`Radio`]s. Draft.
    ///
    /// Over UDP a dish is bound, and radios connect: to it alone, or to a multicast group.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Dish, Radio};
    ///
    /// let context = Context::new();
    /// let mut dish = Dish::bind(&context, "udp://127.0.0.1:*")?;
    /// dish.join("news")?;
    /// let mut radio = Radio::connect(&context, &dish.socket().last_endpoint()?)?;
    /// radio.send_to("news", "rain ends")?;
    /// assert_eq!(dish.receive()?.text(), Some("rain ends"));
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Dish: receives
}

impl Dish {
    /// Receives what is sent to this group from now on.
    ///
    /// # Errors
    /// As [`Socket::join`].
    pub fn join(&mut self, group: impl AsRef<[u8]>) -> Result<(), Error> {
        self.socket.join(group)
    }

    /// Receives no more of what is sent to this group.
    ///
    /// # Errors
    /// As [`Socket::leave`].
    pub fn leave(&mut self, group: impl AsRef<[u8]>) -> Result<(), Error> {
        self.socket.leave(group)
    }
}

typed! {
    /// UDP datagrams of up to 8,192 bytes, each behind the address of its peer. It is bound; there
    /// is nothing to connect to. Draft.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Dgram};
    ///
    /// let context = Context::new();
    /// let mut clock = Dgram::bind(&context, "udp://127.0.0.1:*")?;
    /// let mut asker = Dgram::bind(&context, "udp://127.0.0.1:*")?;
    /// let place = clock.socket().last_endpoint()?;
    /// asker.send_to(place.trim_start_matches("udp://"), "now?")?;
    /// let (peer, question) = clock.receive_from()?;
    /// assert_eq!(&*question, b"now?");
    /// clock.send_to(peer, "noon")?;
    /// assert_eq!(&*asker.receive_from()?.1, b"noon");
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Dgram: sends, receives
}

impl Dgram {
    /// Waits for a datagram; gives the address of its sender beside it, such as `127.0.0.1:5555`,
    /// with a closing zero.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_from(&mut self) -> Result<(Message, Message), Error> {
        let mut message = self.receive()?;
        let peer = message.pop_front().unwrap_or_default();
        Ok((peer, message.pop_front().unwrap_or_default()))
    }

    /// Sends a datagram to an address in digits, such as `127.0.0.1:5555` or `[::1]:5555`. It is
    /// dropped and counted if the address is none, or the body is too long.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_to(
        &mut self,
        peer: impl Into<Message>,
        body: impl Into<Message>,
    ) -> Result<(), Error> {
        self.send([peer.into(), body.into()])
    }
}

typed! {
    /// A [`Server`] whose peers are [`Peer`]s, bound or connected; draft.
    ///
    /// ```
    /// use tidewire_zmq::{Context, Message, Peer};
    ///
    /// let context = Context::new();
    /// let mut one = Peer::bind(&context, "inproc://peers")?;
    /// let mut other = Peer::new(&context)?;
    /// let mut question = Message::from("question");
    /// question.set_routing_id(other.connect_peer("inproc://peers")?);
    /// other.send(question)?;
    /// let mut answer = Message::from("answer");
    /// answer.set_routing_id(one.receive()?[0].routing_id());
    /// one.send(answer)?;
    /// assert_eq!(other.receive()?.text(), Some("answer"));
    /// # Ok::<(), tidewire_zmq::Error>(())
    /// ```
    Peer: sends, receives
}

impl Peer {
    /// Connects to a further peer, and tells its number.
    ///
    /// # Errors
    /// As [`Socket::connect_peer`].
    pub fn connect_peer(&mut self, endpoint: &str) -> Result<u32, Error> {
        self.socket.connect_peer(endpoint)
    }
}

impl Socket {
    /// How long to go on sending after [`close`](Self::close); `None`: until all is sent.
    ///
    /// # Errors
    /// The socket is closed, or its context terminated.
    pub fn set_linger(&self, linger: Option<Duration>) -> Result<(), Error> {
        self.set(option::LINGER, linger)
    }

    /// Timeout of a receive; `None` waits indefinitely.
    ///
    /// # Errors
    /// The socket is closed, or its context terminated.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.set(option::RCVTIMEO, timeout)
    }

    /// Timeout of a send; `None` waits indefinitely.
    ///
    /// # Errors
    /// The socket is closed, or its context terminated.
    pub fn set_send_timeout(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.set(option::SNDTIMEO, timeout)
    }

    /// The name under which ROUTER peers file this socket.
    ///
    /// # Errors
    /// The name is empty or longer than 255 bytes.
    pub fn set_routing_id(&self, name: impl AsRef<[u8]>) -> Result<(), Error> {
        self.set(option::ROUTING_ID, name.as_ref())
    }

    /// Messages that may wait for a peer, and from a peer; 0: any number.
    ///
    /// # Errors
    /// The socket is closed, or its context terminated.
    pub fn set_high_water_marks(&self, send: u32, receive: u32) -> Result<(), Error> {
        let int = |mark: u32| i32::try_from(mark).unwrap_or(i32::MAX);
        self.set(option::SNDHWM, int(send))?;
        self.set(option::RCVHWM, int(receive))
    }

    /// Where the last bind or connect led: with the port that a `*` became.
    ///
    /// # Errors
    /// The socket is closed, or its context terminated.
    pub fn last_endpoint(&self) -> Result<String, Error> {
        self.get(option::LAST_ENDPOINT)
    }
}
