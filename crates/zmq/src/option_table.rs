//! Socket options by libzmq's numbers.

use std::net::IpAddr;

use tidewire_zmtp::{Limits, z85};

use crate::error::Error;
use crate::kind::SocketType;
use crate::last_value::LastValues;
use crate::options::Mechanism;
use crate::options::number::*;
use crate::peer::Link;
use crate::state::State;

impl State {
    pub(crate) fn set_option(&mut self, number: i32, value: &[u8]) -> Result<(), Error> {
        self.check_kind(number)?;
        match number {
            SUBSCRIBE | UNSUBSCRIBE => return self.set_subscription(number == SUBSCRIBE, value),
            ROUTING_ID => {
                require(!value.is_empty())?;
                self.options.routing_id = name(value)?;
            }
            CONNECT_ROUTING_ID => {
                require(!value.is_empty())?;
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
                require(!value.is_empty())?;
                self.options.zap_domain = name(value)?;
            }
            CURVE_PUBLICKEY | CURVE_SECRETKEY | CURVE_SERVERKEY => self.set_curve(number, value)?,
            SOCKS_PROXY => self.options.socks_proxy = value.to_vec(),
            // RFC 1929 tells their lengths in one octet.
            SOCKS_USERNAME => self.options.socks_username = name(value)?,
            SOCKS_PASSWORD => self.options.socks_password = name(value)?,
            BINDTODEVICE => {
                require(value.len() <= DEVICE_BYTES_MAX)?;
                self.options.device = value.to_vec();
            }
            METADATA => self.set_metadata(value)?,
            WSS_KEY_PEM => self.options.wss_key_pem = pem(value)?,
            WSS_CERT_PEM => self.options.wss_certificate_pem = pem(value)?,
            WSS_TRUST_PEM => self.options.wss_trust_pem = pem(value)?,
            WSS_HOSTNAME => self.options.wss_hostname = pem(value)?,
            TCP_ACCEPT_FILTER => self.set_accept_filter(value)?,
            IPC_FILTER_UID => set_filter(&mut self.options.ipc_users, value, u32::from_ne_bytes)?,
            IPC_FILTER_GID => set_filter(&mut self.options.ipc_groups, value, u32::from_ne_bytes)?,
            IPC_FILTER_PID => {
                set_filter(&mut self.options.ipc_processes, value, i32::from_ne_bytes)?;
            }
            _ => self.set_int(number, i32::from_ne_bytes(exact(value)?))?,
        }
        if number == LAST_VALUES {
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
            // libzmq's REP is a ROUTER, and takes its options.
            ROUTER_MANDATORY | ROUTER_HANDOVER | ROUTER_RAW | ROUTER_NOTIFY => {
                matches!(kind, SocketType::Router | SocketType::Rep)
            }
            PROBE_ROUTER => kind.can_probe(),
            CONNECT_ROUTING_ID => matches!(
                kind,
                SocketType::Router | SocketType::Rep | SocketType::Stream
            ),
            REQ_CORRELATE | REQ_RELAXED => kind == SocketType::Req,
            STREAM_NOTIFY => kind == SocketType::Stream,
            XPUB_VERBOSE
            | XPUB_VERBOSER
            | XPUB_MANUAL
            | XPUB_WELCOME_MSG
            | XPUB_MANUAL_LAST_VALUE
            | LAST_VALUES => kind.is_publisher() && kind.has_topics(),
            XPUB_NODROP => kind.is_publisher(),
            XSUB_VERBOSE_UNSUBSCRIBE => kind == SocketType::Xsub,
            ONLY_FIRST_SUBSCRIBE => kind.has_topics() && kind != SocketType::Sub,
            CONFLATE_TOPICS | CONFLATE_TOPICS_MAX => kind.has_topics(),
            _ => true,
        };
        require(fits)
    }

    fn set_subscription(&mut self, subscribes: bool, topic: &[u8]) -> Result<(), Error> {
        if self.kind == SocketType::Sub {
            // A publisher would end the connection at it, and each one after that.
            require(topic.len() as u64 <= Limits::SUBSCRIPTION_BYTES_MAX)?;
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
        let value = name(value)?;
        security.mechanism = Mechanism::Plain;
        security.is_server = false;
        match number {
            PLAIN_USERNAME => security.username = value,
            _ => security.password = value,
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

    /// An address in digits, or a network: `192.168.0.0/16`. Nothing clears the filters.
    fn set_accept_filter(&mut self, value: &[u8]) -> Result<(), Error> {
        let filters = &mut self.options.accept_filters;
        if value.is_empty() {
            filters.clear();
            return Ok(());
        }
        let value = text(value)?;
        let (ip, bits) = match value.rsplit_once('/') {
            Some((ip, bits)) => (ip, Some(bits)),
            None => (value.as_str(), None),
        };
        let ip = crate::address::address_in_digits(ip, self.options.ipv6)?;
        let bits_max = if ip.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => bits_max,
            Some("0") => 0,
            Some(bits) => {
                let bits = u8::try_from(crate::digits::leading_number(bits));
                let bits = bits.map_err(|_| Error::InvalidArgument)?;
                require((1..=bits_max).contains(&bits))?;
                bits
            }
        };
        // Peers of IPv4 are compared as such.
        filters.push(match ip {
            IpAddr::V6(mapped)
                if bits >= 96
                    && let Some(ip) = mapped.to_ipv4_mapped() =>
            {
                (ip.into(), bits - 96)
            }
            ip => (ip, bits),
        });
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
            // In milliseconds; the wire has tenths of a second.
            HEARTBEAT_TTL => {
                let deciseconds = u16::try_from(value / 100).map_err(|_| Error::InvalidArgument)?;
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
        self.options.set_int(number, value)?;
        if number == SPIN_NS {
            self.patience = self.options.patience();
        }
        Ok(())
    }

    pub(crate) fn option(&self, number: i32, out: &mut [u8]) -> Result<usize, Error> {
        let options = &self.options;
        match number {
            RCVMORE => put_int(out, i32::from(self.is_amid_receiving)),
            TYPE => put_int_exactly(out, self.kind.number()),
            THREAD_SAFE => put_int(out, i32::from(self.kind.is_single_framed())),
            AFFINITY => put_exactly(out, &options.affinity.to_ne_bytes()),
            MAXMSGSIZE => put_exactly(out, &options.message_bytes_max.to_ne_bytes()),
            ROUTING_ID => put(out, &options.routing_id),
            LAST_ENDPOINT => put_text(out, &self.last_endpoint),
            MECHANISM => put_int_exactly(out, options.security.mechanism as i32),
            PLAIN_SERVER => {
                put_int_exactly(out, i32::from(options.security.serves(Mechanism::Plain)))
            }
            CURVE_SERVER => {
                put_int_exactly(out, i32::from(options.security.serves(Mechanism::Curve)))
            }
            CURVE_PUBLICKEY => put_key(out, &options.security.public_key),
            CURVE_SECRETKEY => put_key(out, &options.security.secret_key),
            CURVE_SERVERKEY => put_key(out, &options.security.server_key),
            PLAIN_USERNAME => put_text(out, &options.security.username),
            PLAIN_PASSWORD => put_text(out, &options.security.password),
            ZAP_DOMAIN => put_text(out, &options.zap_domain),
            SOCKS_PROXY => put_text(out, &options.socks_proxy),
            SOCKS_USERNAME => put_text(out, &options.socks_username),
            SOCKS_PASSWORD => put_text(out, &options.socks_password),
            BINDTODEVICE => put_text(out, &options.device),
            HEARTBEAT_TTL => {
                put_int_exactly(out, i32::from(options.heartbeat_ttl_deciseconds) * 100)
            }
            IPV4ONLY => put_int_exactly(out, i32::from(!options.ipv6)),
            XPUB_WELCOME_MSG => put(out, options.xpub_welcome.as_deref().unwrap_or_default()),
            TOPICS_COUNT if !self.kind.has_topics() => Err(Error::InvalidArgument),
            TOPICS_COUNT if self.kind.is_publisher() => {
                put_int(out, self.subscribers.prefix_count() as i32)
            }
            TOPICS_COUNT if self.kind.is_subscriber() => {
                put_int(out, self.subscriptions.prefix_count() as i32)
            }
            _ => put_int_exactly(out, options.int(number)?),
        }
    }
}

/// The bytes before the first zero, for options that keep what they are given and mean a string.
pub(crate) fn until_zero(value: &[u8]) -> &[u8] {
    value.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn require(condition: bool) -> Result<(), Error> {
    condition.then_some(()).ok_or(Error::InvalidArgument)
}

/// Adds a number to a filter; an empty value clears it.
fn set_filter<T>(filter: &mut Vec<T>, value: &[u8], parse: fn([u8; 4]) -> T) -> Result<(), Error> {
    match value.is_empty() {
        true => filter.clear(),
        false => filter.push(parse(exact(value)?)),
    }
    Ok(())
}

/// Up to 255 bytes.
fn name(value: &[u8]) -> Result<Vec<u8>, Error> {
    require(value.len() <= 255)?;
    Ok(value.to_vec())
}

/// What `wss://` needs, which is read when it is used.
fn pem(value: &[u8]) -> Result<Vec<u8>, Error> {
    require(value.len() <= PEM_BYTES_MAX)?;
    Ok(value.to_vec())
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

/// As `tidewire_tls` has it.
const PEM_BYTES_MAX: usize = 1 << 20;
/// `IFNAMSIZ`.
const DEVICE_BYTES_MAX: usize = 16;

pub(crate) fn put_int(out: &mut [u8], value: i32) -> Result<usize, Error> {
    put(out, &value.to_ne_bytes())
}

/// As libzmq has it for most options: room for more than an `int` is refused too.
fn put_int_exactly(out: &mut [u8], value: i32) -> Result<usize, Error> {
    put_exactly(out, &value.to_ne_bytes())
}

fn put_exactly(out: &mut [u8], value: &[u8]) -> Result<usize, Error> {
    require(out.len() == value.len())?;
    put(out, value)
}

fn put(out: &mut [u8], value: &[u8]) -> Result<usize, Error> {
    let place = out.get_mut(..value.len()).ok_or(Error::InvalidArgument)?;
    place.copy_from_slice(value);
    Ok(value.len())
}

/// A key as bytes, or, where there is room for it, as 40 characters and a zero.
fn put_key(out: &mut [u8], key: &[u8; 32]) -> Result<usize, Error> {
    match out.len() {
        32 => put(out, key),
        41 => put_text(out, z85::encode(key).map_err(|_| Error::InvalidArgument)?),
        _ => Err(Error::InvalidArgument),
    }
}

/// With a closing zero, as in C.
fn put_text(out: &mut [u8], value: impl AsRef<[u8]>) -> Result<usize, Error> {
    let value = value.as_ref();
    let room = out.get_mut(..=value.len()).ok_or(Error::InvalidArgument)?;
    room[..value.len()].copy_from_slice(value);
    room[value.len()] = 0;
    Ok(value.len() + 1)
}
