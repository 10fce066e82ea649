//! Socket options by libzmq's numbers.

use tidewire_zmtp::z85;

use crate::error::Error;
use crate::kind::SocketType;
use crate::last_value::LastValues;
use crate::options::{Mechanism, Options};
use crate::own_options as own;
use crate::peer::Link;
use crate::state::State;

/// How an `int` option is kept.
enum Int<'o> {
    Number(&'o mut i32, std::ops::RangeInclusive<i32>),
    Switch(&'o mut bool),
}

impl State {
    pub(crate) fn set_option(&mut self, number: i32, value: &[u8]) -> Result<(), Error> {
        self.check_kind(number)?;
        match number {
            SUBSCRIBE | UNSUBSCRIBE => return self.set_subscription(number == SUBSCRIBE, value),
            ROUTING_ID => {
                if value.is_empty() || value.len() > 255 {
                    return Err(Error::InvalidArgument);
                }
                self.options.routing_id = value.to_vec();
            }
            CONNECT_ROUTING_ID => {
                if value.is_empty() || value.len() > 255 || value[0] == 0 {
                    return Err(Error::InvalidArgument);
                }
                self.options.connect_routing_id = value.to_vec();
            }
            AFFINITY => self.options.affinity = u64::from_ne_bytes(exact(value)?),
            MAXMSGSIZE => self.options.message_bytes_max = i64::from_ne_bytes(exact(value)?),
            XPUB_WELCOME_MSG => {
                self.options.xpub_welcome = (!value.is_empty()).then(|| value.to_vec());
            }
            HELLO_MSG => self.options.hello_message = value.to_vec(),
            DISCONNECT_MSG => self.options.disconnect_message = value.to_vec(),
            HICCUP_MSG => self.options.hiccup_message = value.to_vec(),
            PLAIN_USERNAME | PLAIN_PASSWORD => self.set_plain(number, value)?,
            ZAP_DOMAIN => {
                if value.len() > 255 {
                    return Err(Error::InvalidArgument);
                }
                self.options.zap_domain = value.to_vec();
            }
            CURVE_PUBLICKEY | CURVE_SECRETKEY | CURVE_SERVERKEY => self.set_curve(number, value)?,
            SOCKS_PROXY => self.options.socks_proxy = text(value)?,
            // RFC 1929 tells their lengths in one octet.
            SOCKS_USERNAME | SOCKS_PASSWORD if value.len() > 255 => {
                return Err(Error::InvalidArgument);
            }
            SOCKS_USERNAME => self.options.socks_username = text(value)?,
            SOCKS_PASSWORD => self.options.socks_password = text(value)?,
            BINDTODEVICE => self.options.device = text(value)?,
            METADATA => self.set_metadata(value)?,
            TCP_ACCEPT_FILTER => self.set_accept_filter(value)?,
            IPC_FILTER_UID | IPC_FILTER_GID | IPC_FILTER_PID => {
                self.set_ipc_filter(number, value)?;
            }
            _ => self.set_int(number, i32::from_ne_bytes(exact(value)?))?,
        }
        if number == own::LAST_VALUES {
            let topics_max = self.options.last_values_max as usize;
            self.last_values = (topics_max > 0).then(|| LastValues::new(topics_max));
        }
        if matches!(number, SNDHWM | RCVHWM) {
            self.change_pipe_marks();
        }
        Ok(())
    }

    /// Pipes to sockets of this process follow the marks while they are in use.
    fn change_pipe_marks(&mut self) {
        let send = self.options.send_high_water.max(0) as usize;
        let receive = self.options.receive_high_water.max(0) as usize;
        for &key in &self.pipes {
            if let Some(Link::Pipe(pipe)) = self.peers.get_mut(key).map(|peer| &mut peer.link) {
                pipe.set_marks(send, receive);
            }
        }
    }

    /// Options that only some types have.
    fn check_kind(&self, number: i32) -> Result<(), Error> {
        let kind = self.kind;
        let fits = match number {
            SUBSCRIBE | UNSUBSCRIBE => {
                kind == SocketType::Sub || (kind == SocketType::Xpub && self.options.xpub_manual)
            }
            ROUTER_MANDATORY | ROUTER_HANDOVER | ROUTER_RAW | ROUTER_NOTIFY => {
                kind == SocketType::Router
            }
            PROBE_ROUTER => matches!(
                kind,
                SocketType::Router | SocketType::Dealer | SocketType::Req
            ),
            CONNECT_ROUTING_ID => matches!(kind, SocketType::Router | SocketType::Stream),
            REQ_CORRELATE | REQ_RELAXED => kind == SocketType::Req,
            STREAM_NOTIFY => kind == SocketType::Stream,
            XPUB_VERBOSE
            | XPUB_VERBOSER
            | XPUB_MANUAL
            | XPUB_WELCOME_MSG
            | XPUB_MANUAL_LAST_VALUE
            | own::LAST_VALUES => kind.is_publisher() && kind.has_topics(),
            XPUB_NODROP => kind.is_publisher(),
            XSUB_VERBOSE_UNSUBSCRIBE => kind.is_subscriber() && kind.has_topics(),
            ONLY_FIRST_SUBSCRIBE => kind.has_topics(),
            _ => true,
        };
        if fits {
            Ok(())
        } else {
            Err(Error::InvalidArgument)
        }
    }

    fn set_subscription(&mut self, subscribes: bool, topic: &[u8]) -> Result<(), Error> {
        if self.kind == SocketType::Sub {
            match subscribes {
                true => self.subscribe(topic),
                false => self.unsubscribe(topic),
            }
            return Ok(());
        }
        if let Some(last) = self.manual.last {
            match subscribes {
                true => {
                    self.subscribers.insert(topic, last);
                    self.send_last_values(last, topic);
                }
                false => {
                    self.subscribers.remove_pair(topic, last);
                }
            }
        }
        Ok(())
    }

    fn set_plain(&mut self, number: i32, value: &[u8]) -> Result<(), Error> {
        let security = &mut self.options.security;
        if value.is_empty() {
            security.mechanism = Mechanism::Null;
            return Ok(());
        }
        if value.len() > 255 {
            return Err(Error::InvalidArgument);
        }
        security.mechanism = Mechanism::Plain;
        security.is_server = false;
        match number {
            PLAIN_USERNAME => security.username = value.to_vec(),
            _ => security.password = value.to_vec(),
        }
        Ok(())
    }

    /// A key of 32 bytes, or of 40 characters with or without a closing zero.
    fn set_curve(&mut self, number: i32, value: &[u8]) -> Result<(), Error> {
        let key = match value.len() {
            32 => exact(value)?,
            40 | 41 => {
                let text = &value[..40];
                z85::decode_key(text).map_err(|_| Error::InvalidArgument)?
            }
            _ => return Err(Error::InvalidArgument),
        };
        let security = &mut self.options.security;
        match number {
            CURVE_PUBLICKEY => security.public_key = key,
            CURVE_SECRETKEY => security.secret_key = key,
            _ => {
                security.server_key = key;
                security.is_server = false;
            }
        }
        security.mechanism = Mechanism::Curve;
        Ok(())
    }

    /// `X-name:value`.
    fn set_metadata(&mut self, value: &[u8]) -> Result<(), Error> {
        let value = text(value)?;
        let (name, content) = value.split_once(':').ok_or(Error::InvalidArgument)?;
        if !name.starts_with("X-") || name.len() > 255 || content.is_empty() {
            return Err(Error::InvalidArgument);
        }
        let metadata = &mut self.options.metadata;
        metadata.retain(|(known, _)| known != name);
        metadata.push((name.to_owned(), content.as_bytes().to_vec()));
        Ok(())
    }

    /// `192.168.0.0/16`; nothing clears the filters.
    fn set_accept_filter(&mut self, value: &[u8]) -> Result<(), Error> {
        let filters = &mut self.options.accept_filters;
        if value.is_empty() {
            filters.clear();
            return Ok(());
        }
        let value = text(value)?;
        let (ip, bits) = match value.split_once('/') {
            Some((ip, bits)) => (ip, Some(bits)),
            None => (value.as_str(), None),
        };
        let ip: std::net::IpAddr = ip.parse().map_err(|_| Error::InvalidArgument)?;
        if ip.is_ipv6() && !self.options.ipv6 {
            return Err(Error::InvalidArgument);
        }
        let bits_max = if ip.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => bits_max,
            Some(bits) => bits.parse().map_err(|_| Error::InvalidArgument)?,
        };
        if bits > bits_max {
            return Err(Error::InvalidArgument);
        }
        filters.push((ip, bits));
        Ok(())
    }

    fn set_ipc_filter(&mut self, number: i32, value: &[u8]) -> Result<(), Error> {
        let options = &mut self.options;
        if value.is_empty() {
            match number {
                IPC_FILTER_UID => options.ipc_users.clear(),
                IPC_FILTER_GID => options.ipc_groups.clear(),
                _ => options.ipc_processes.clear(),
            }
            return Ok(());
        }
        match number {
            IPC_FILTER_UID => options.ipc_users.push(u32::from_ne_bytes(exact(value)?)),
            IPC_FILTER_GID => options.ipc_groups.push(u32::from_ne_bytes(exact(value)?)),
            _ => options
                .ipc_processes
                .push(i32::from_ne_bytes(exact(value)?)),
        }
        Ok(())
    }

    fn set_int(&mut self, number: i32, value: i32) -> Result<(), Error> {
        let security = &mut self.options.security;
        match number {
            PLAIN_SERVER | CURVE_SERVER if matches!(value, 0 | 1) => {
                security.is_server = value == 1;
                security.mechanism = match (value, number) {
                    (0, _) => Mechanism::Null,
                    (_, PLAIN_SERVER) => Mechanism::Plain,
                    (_, _) => Mechanism::Curve,
                };
                return Ok(());
            }
            // As libzmq: 1 switches it on; all others belong to nobody.
            HEARTBEAT_TTL => {
                let deciseconds = u16::try_from(value / 100).map_err(|_| Error::InvalidArgument)?;
                if value < 0 {
                    return Err(Error::InvalidArgument);
                }
                self.options.heartbeat_ttl_deciseconds = deciseconds;
                return Ok(());
            }
            IPV4ONLY if matches!(value, 0 | 1) => {
                self.options.ipv6 = value == 0;
                return Ok(());
            }
            XPUB_VERBOSE | XPUB_VERBOSER | XPUB_MANUAL | XPUB_NODROP if value < 0 => {
                return Err(Error::InvalidArgument);
            }
            XPUB_VERBOSER => {
                self.options.xpub_verbose = value != 0;
                self.options.xpub_verboser = value != 0;
                return Ok(());
            }
            // As libzmq: the later of the two is what counts.
            XPUB_VERBOSE => self.options.xpub_verboser = false,
            XPUB_MANUAL_LAST_VALUE => self.options.xpub_manual = value != 0,
            _ => {}
        }
        match int_option(&mut self.options, number) {
            Some(Int::Number(place, range)) if range.contains(&value) => *place = value,
            Some(Int::Switch(place)) if matches!(value, 0 | 1) => *place = value != 0,
            // These are for systems and transports that are not here.
            Some(Int::Switch(place)) if matches!(number, MULTICAST_LOOP | LOOPBACK_FASTPATH) => {
                *place = value != 0;
            }
            // Patterns take any number for yes.
            Some(Int::Switch(place)) if value > 0 && is_lenient(number) => *place = true,
            _ => return Err(Error::InvalidArgument),
        }
        Ok(())
    }

    pub(crate) fn option(&self, number: i32, out: &mut [u8]) -> Result<usize, Error> {
        let options = &self.options;
        match number {
            RCVMORE => put_int(out, i32::from(self.is_amid_receiving)),
            TYPE => put_int(out, self.kind.number()),
            THREAD_SAFE => put_int(out, i32::from(self.kind.is_single_framed())),
            AFFINITY => put(out, &options.affinity.to_ne_bytes()),
            MAXMSGSIZE => put(out, &options.message_bytes_max.to_ne_bytes()),
            ROUTING_ID => put(out, &options.routing_id),
            LAST_ENDPOINT => put_text(out, &self.last_endpoint),
            MECHANISM => put_int(out, options.security.mechanism as i32),
            PLAIN_SERVER => {
                let is_server =
                    options.security.is_server && options.security.mechanism == Mechanism::Plain;
                put_int(out, i32::from(is_server))
            }
            CURVE_SERVER => {
                let is_server =
                    options.security.is_server && options.security.mechanism == Mechanism::Curve;
                put_int(out, i32::from(is_server))
            }
            CURVE_PUBLICKEY => put_key(out, &options.security.public_key),
            CURVE_SECRETKEY => put_key(out, &options.security.secret_key),
            CURVE_SERVERKEY => put_key(out, &options.security.server_key),
            PLAIN_USERNAME => put_bytes_as_text(out, &options.security.username),
            PLAIN_PASSWORD => put_bytes_as_text(out, &options.security.password),
            ZAP_DOMAIN => put_bytes_as_text(out, &options.zap_domain),
            SOCKS_PROXY => put_text(out, &options.socks_proxy),
            SOCKS_USERNAME => put_text(out, &options.socks_username),
            SOCKS_PASSWORD => put_text(out, &options.socks_password),
            BINDTODEVICE => put_text(out, &options.device),
            HEARTBEAT_TTL => put_int(out, i32::from(options.heartbeat_ttl_deciseconds) * 100),
            IPV4ONLY => put_int(out, i32::from(!options.ipv6)),
            XPUB_WELCOME_MSG => put(out, options.xpub_welcome.as_deref().unwrap_or_default()),
            TOPICS_COUNT if !self.kind.has_topics() => Err(Error::InvalidArgument),
            TOPICS_COUNT if self.kind.is_publisher() => {
                put_int(out, self.subscribers.prefix_count() as i32)
            }
            TOPICS_COUNT if self.kind.is_subscriber() => {
                put_int(out, self.subscriptions.prefix_count() as i32)
            }
            _ => {
                // The same places as for setting; a clone, because they are told as mutable.
                let mut copy = self.options.clone();
                match int_option(&mut copy, number) {
                    Some(Int::Number(place, _)) => put_int(out, *place),
                    Some(Int::Switch(place)) => put_int(out, i32::from(*place)),
                    None => Err(Error::InvalidArgument),
                }
            }
        }
    }
}

/// Where an option of type `int` is kept, and what it may be.
fn int_option(options: &mut Options, number: i32) -> Option<Int<'_>> {
    let any = i32::MIN..=i32::MAX;
    let from_minus_one = -1..=i32::MAX;
    let from_zero = 0..=i32::MAX;
    Some(match number {
        RATE => Int::Number(&mut options.rate, 1..=i32::MAX),
        RECOVERY_IVL => Int::Number(&mut options.recovery_interval, from_zero),
        SNDBUF => Int::Number(&mut options.send_buffer_bytes, from_minus_one),
        RCVBUF => Int::Number(&mut options.receive_buffer_bytes, from_minus_one),
        LINGER => Int::Number(&mut options.linger_ms, from_minus_one),
        RECONNECT_IVL => Int::Number(&mut options.reconnect_interval_ms, from_minus_one),
        RECONNECT_IVL_MAX => Int::Number(&mut options.reconnect_interval_max_ms, from_zero),
        RECONNECT_STOP => Int::Number(&mut options.reconnect_stop, any),
        BACKLOG => Int::Number(&mut options.backlog, from_zero),
        SNDHWM => Int::Number(&mut options.send_high_water, from_zero),
        RCVHWM => Int::Number(&mut options.receive_high_water, from_zero),
        MULTICAST_HOPS => Int::Number(&mut options.multicast_hops, 1..=i32::MAX),
        MULTICAST_MAXTPDU => Int::Number(&mut options.multicast_packet_bytes, 1..=i32::MAX),
        RCVTIMEO => Int::Number(&mut options.receive_timeout_ms, from_minus_one),
        SNDTIMEO => Int::Number(&mut options.send_timeout_ms, from_minus_one),
        TCP_KEEPALIVE => Int::Number(&mut options.tcp_keepalive, -1..=1),
        TCP_KEEPALIVE_CNT => Int::Number(&mut options.tcp_keepalive_count, from_minus_one),
        TCP_KEEPALIVE_IDLE => Int::Number(&mut options.tcp_keepalive_idle, from_minus_one),
        TCP_KEEPALIVE_INTVL => Int::Number(&mut options.tcp_keepalive_interval, from_minus_one),
        TCP_MAXRT => Int::Number(&mut options.tcp_retransmit_ms, from_zero),
        TOS => Int::Number(&mut options.type_of_service, from_zero),
        PRIORITY => Int::Number(&mut options.priority, from_zero),
        HANDSHAKE_IVL => Int::Number(&mut options.handshake_interval_ms, from_zero),
        CONNECT_TIMEOUT => Int::Number(&mut options.connect_timeout_ms, from_zero),
        HEARTBEAT_IVL => Int::Number(&mut options.heartbeat_interval_ms, from_zero),
        HEARTBEAT_TIMEOUT => Int::Number(&mut options.heartbeat_timeout_ms, from_zero),
        USE_FD => Int::Number(&mut options.use_descriptor, from_minus_one),
        ROUTER_NOTIFY => Int::Number(&mut options.router_notify, 0..=3),
        IN_BATCH_SIZE => Int::Number(&mut options.in_batch_bytes, 1..=i32::MAX),
        OUT_BATCH_SIZE => Int::Number(&mut options.out_batch_bytes, 1..=i32::MAX),
        BUSY_POLL => Int::Number(&mut options.busy_poll, any),
        own::SNDHWM_BYTES => Int::Number(&mut options.send_high_water_bytes, from_zero),
        own::RCVHWM_BYTES => Int::Number(&mut options.receive_high_water_bytes, from_zero),
        own::HANDSHAKES_MAX => Int::Number(&mut options.handshakes_max, from_zero),
        own::LAST_VALUES => Int::Number(&mut options.last_values_max, from_zero),
        IPV6 => Int::Switch(&mut options.ipv6),
        IMMEDIATE => Int::Switch(&mut options.immediate),
        CONFLATE => Int::Switch(&mut options.conflate),
        ZAP_ENFORCE_DOMAIN => Int::Switch(&mut options.zap_enforce_domain),
        ROUTER_MANDATORY => Int::Switch(&mut options.router_mandatory),
        ROUTER_HANDOVER => Int::Switch(&mut options.router_handover),
        ROUTER_RAW => Int::Switch(&mut options.router_raw),
        PROBE_ROUTER => Int::Switch(&mut options.probe_router),
        REQ_CORRELATE => Int::Switch(&mut options.request_correlate),
        REQ_RELAXED => Int::Switch(&mut options.request_relaxed),
        STREAM_NOTIFY => Int::Switch(&mut options.stream_notify),
        XPUB_VERBOSE => Int::Switch(&mut options.xpub_verbose),
        XPUB_VERBOSER => Int::Switch(&mut options.xpub_verboser),
        XPUB_NODROP => Int::Switch(&mut options.xpub_no_drop),
        XPUB_MANUAL => Int::Switch(&mut options.xpub_manual),
        XPUB_MANUAL_LAST_VALUE => Int::Switch(&mut options.xpub_manual_last_value),
        XSUB_VERBOSE_UNSUBSCRIBE => Int::Switch(&mut options.xsub_verbose_unsubscribe),
        ONLY_FIRST_SUBSCRIBE => Int::Switch(&mut options.only_first_subscribe),
        INVERT_MATCHING => Int::Switch(&mut options.invert_matching),
        MULTICAST_LOOP => Int::Switch(&mut options.multicast_loop),
        LOOPBACK_FASTPATH => Int::Switch(&mut options.loopback_fastpath),
        _ => return None,
    })
}

/// Switches that libzmq lets be set by any positive number.
fn is_lenient(number: i32) -> bool {
    matches!(
        number,
        ROUTER_MANDATORY
            | ROUTER_HANDOVER
            | ROUTER_RAW
            | PROBE_ROUTER
            | REQ_CORRELATE
            | REQ_RELAXED
            | XPUB_VERBOSE
            | XPUB_NODROP
            | XPUB_MANUAL
            | XPUB_MANUAL_LAST_VALUE
            | ONLY_FIRST_SUBSCRIBE
            | INVERT_MATCHING
    )
}

fn exact<const N: usize>(value: &[u8]) -> Result<[u8; N], Error> {
    value.try_into().map_err(|_| Error::InvalidArgument)
}

/// A string, its closing zero left out.
fn text(value: &[u8]) -> Result<String, Error> {
    let value = value.strip_suffix(&[0]).unwrap_or(value);
    let text = std::str::from_utf8(value).map_err(|_| Error::InvalidArgument)?;
    Ok(text.to_owned())
}

pub(crate) fn put_int(out: &mut [u8], value: i32) -> Result<usize, Error> {
    put(out, &value.to_ne_bytes())
}

fn put(out: &mut [u8], value: &[u8]) -> Result<usize, Error> {
    let place = out.get_mut(..value.len()).ok_or(Error::InvalidArgument)?;
    place.copy_from_slice(value);
    Ok(value.len())
}

fn put_text(out: &mut [u8], value: &str) -> Result<usize, Error> {
    put_bytes_as_text(out, value.as_bytes())
}

/// A key as bytes, or, where there is room for it, as 40 characters and a zero.
fn put_key(out: &mut [u8], key: &[u8; 32]) -> Result<usize, Error> {
    match out.len() {
        32 => put(out, key),
        41 => put_text(out, &z85::encode(key).map_err(|_| Error::InvalidArgument)?),
        _ => Err(Error::InvalidArgument),
    }
}

/// With a closing zero, as C has it.
fn put_bytes_as_text(out: &mut [u8], value: &[u8]) -> Result<usize, Error> {
    let room = out.get_mut(..=value.len()).ok_or(Error::InvalidArgument)?;
    room[..value.len()].copy_from_slice(value);
    room[value.len()] = 0;
    Ok(value.len() + 1)
}

const AFFINITY: i32 = 4;
const ROUTING_ID: i32 = 5;
const SUBSCRIBE: i32 = 6;
const UNSUBSCRIBE: i32 = 7;
const RATE: i32 = 8;
const RECOVERY_IVL: i32 = 9;
const SNDBUF: i32 = 11;
const RCVBUF: i32 = 12;
const RCVMORE: i32 = 13;
pub(crate) const FD: i32 = 14;
pub(crate) const EVENTS: i32 = 15;
const TYPE: i32 = 16;
pub(crate) const LINGER: i32 = 17;
const RECONNECT_IVL: i32 = 18;
const BACKLOG: i32 = 19;
const RECONNECT_IVL_MAX: i32 = 21;
const MAXMSGSIZE: i32 = 22;
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const MULTICAST_HOPS: i32 = 25;
const MULTICAST_LOOP: i32 = 96;
const LOOPBACK_FASTPATH: i32 = 94;
const RCVTIMEO: i32 = 27;
const SNDTIMEO: i32 = 28;
const IPV4ONLY: i32 = 31;
const LAST_ENDPOINT: i32 = 32;
const ROUTER_MANDATORY: i32 = 33;
const TCP_KEEPALIVE: i32 = 34;
const TCP_KEEPALIVE_CNT: i32 = 35;
const TCP_KEEPALIVE_IDLE: i32 = 36;
const TCP_KEEPALIVE_INTVL: i32 = 37;
const TCP_ACCEPT_FILTER: i32 = 38;
const IMMEDIATE: i32 = 39;
const XPUB_VERBOSE: i32 = 40;
const ROUTER_RAW: i32 = 41;
const IPV6: i32 = 42;
const MECHANISM: i32 = 43;
const PLAIN_SERVER: i32 = 44;
const PLAIN_USERNAME: i32 = 45;
const PLAIN_PASSWORD: i32 = 46;
const CURVE_SERVER: i32 = 47;
const CURVE_PUBLICKEY: i32 = 48;
const CURVE_SECRETKEY: i32 = 49;
const CURVE_SERVERKEY: i32 = 50;
const PROBE_ROUTER: i32 = 51;
const REQ_CORRELATE: i32 = 52;
const REQ_RELAXED: i32 = 53;
const CONFLATE: i32 = 54;
const ZAP_DOMAIN: i32 = 55;
const ROUTER_HANDOVER: i32 = 56;
const TOS: i32 = 57;
const IPC_FILTER_PID: i32 = 58;
const IPC_FILTER_UID: i32 = 59;
const IPC_FILTER_GID: i32 = 60;
const CONNECT_ROUTING_ID: i32 = 61;
const HANDSHAKE_IVL: i32 = 66;
const SOCKS_PROXY: i32 = 68;
const XPUB_NODROP: i32 = 69;
const XPUB_MANUAL: i32 = 71;
const XPUB_WELCOME_MSG: i32 = 72;
const STREAM_NOTIFY: i32 = 73;
const INVERT_MATCHING: i32 = 74;
const HEARTBEAT_IVL: i32 = 75;
const HEARTBEAT_TTL: i32 = 76;
const HEARTBEAT_TIMEOUT: i32 = 77;
const XPUB_VERBOSER: i32 = 78;
const CONNECT_TIMEOUT: i32 = 79;
const TCP_MAXRT: i32 = 80;
const THREAD_SAFE: i32 = 81;
const MULTICAST_MAXTPDU: i32 = 84;
const USE_FD: i32 = 89;
const BINDTODEVICE: i32 = 92;
const ZAP_ENFORCE_DOMAIN: i32 = 93;
const METADATA: i32 = 95;
const ROUTER_NOTIFY: i32 = 97;
const XPUB_MANUAL_LAST_VALUE: i32 = 98;
const SOCKS_USERNAME: i32 = 99;
const SOCKS_PASSWORD: i32 = 100;
const IN_BATCH_SIZE: i32 = 101;
const OUT_BATCH_SIZE: i32 = 102;
const ONLY_FIRST_SUBSCRIBE: i32 = 108;
const RECONNECT_STOP: i32 = 109;
const HELLO_MSG: i32 = 110;
const DISCONNECT_MSG: i32 = 111;
const PRIORITY: i32 = 112;
const BUSY_POLL: i32 = 113;
const HICCUP_MSG: i32 = 114;
const XSUB_VERBOSE_UNSUBSCRIBE: i32 = 115;
const TOPICS_COUNT: i32 = 116;
