//! Addresses of Redis clients: `bind`, `port` and `tls-port`, which CONFIG SET can change.
//!
//! The first lane accepts. The lane that executes CONFIG SET opens the new sockets, so that an
//! error is in its reply, stops the old ones, and mails the result to the first lane.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tidewire_lane::{Endpoint, Listener, ListenerHandle, TlsAcceptor};

use crate::RESP_PORT;
use crate::mail::RedisMail;
use crate::parameters::{BIND, PORT, TLS_PORT};
use crate::server::Server;

/// One address of `bind`, with the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAddress {
    /// Where to listen.
    pub address: SocketAddr,
    /// It has the prefix `-`: the machine need not have it.
    pub is_optional: bool,
}

impl BindAddress {
    /// The addresses of a value of `bind`. `*` is every IPv4 address of the machine, `::*` every
    /// IPv6 address; what begins with `-` may be missing.
    ///
    /// # Errors
    /// The name of the host that has no address.
    pub fn of(bind: &str, port: u16) -> Result<Vec<Self>, String> {
        let one = |word: &str| {
            let (host, is_optional) = match word.strip_prefix('-') {
                Some(host) => (host, true),
                None => (word, false),
            };
            let address = resolve(host, port).ok_or_else(|| host.to_owned())?;
            Ok(BindAddress {
                address,
                is_optional,
            })
        };
        bind.split_ascii_whitespace().map(one).collect()
    }

    /// A socket that listens there and on nothing else, with TLS if `tls` is given; `None` if it
    /// may be missing, and is.
    ///
    /// # Errors
    /// It cannot listen there.
    pub fn listen(
        &self,
        tls: Option<&TlsAcceptor>,
    ) -> Result<Option<Listener>, tidewire_lane::ListenError> {
        match Listener::bind_alone(&Endpoint::Tcp(self.address), RESP_PORT) {
            Ok(listener) => Ok(Some(match tls {
                Some(tls) => listener.with_tls(tls.clone()),
                None => listener,
            })),
            Err(error) if error.is_unsupported() => Ok(None),
            Err(error) if self.is_optional && error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Server {
    /// Notes where Redis clients connect from the start on. What no redis.conf has said is what
    /// CONFIG GET shows.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn listens(&self, listeners: &[Listener]) -> io::Result<()> {
        let own = listeners.iter().filter(|one| one.tag() == RESP_PORT);
        let addresses_of = |has_tls: bool| -> Vec<SocketAddr> {
            let own = own.clone().filter(|one| one.has_tls() == has_tls);
            own.filter_map(|one| one.endpoint().tcp()).collect()
        };
        let (addresses, with_tls) = (addresses_of(false), addresses_of(true));
        let handles: io::Result<Vec<_>> = own.map(Listener::handle).collect();
        *self.listening.handles.lock() = handles?.into_iter().flatten().collect();
        let bind = self.parameters.read(BIND);
        let port = self.parameters.read(PORT) as u16;
        let said = BindAddress::of(&bind, port).unwrap_or_default();
        // The command line may have said something else than the redis.conf.
        let is_elsewhere = said.iter().all(|place| !addresses.contains(&place.address));
        if (self.config.redis_conf.is_none() || is_elsewhere)
            && let Some(first) = addresses.first()
        {
            let hosts: Vec<String> = addresses
                .iter()
                .map(|address| host_text(address.ip()))
                .collect();
            let port = first.port().to_string();
            self.parameters.note_started(BIND, &hosts.join(" "));
            self.parameters.note_started(PORT, &port);
        }
        if let Some(first) = with_tls.first() {
            self.parameters
                .note_started(TLS_PORT, &first.port().to_string());
        }
        Ok(())
    }

    /// Stops listening for Redis clients over TCP, even while the lanes are busy.
    pub fn stop_listening(&self) {
        let handles = self.listening.handles.lock();
        handles.iter().for_each(ListenerHandle::stop);
    }

    /// Listens where `bind` and the two ports say from now on, without and with TLS; `None`: where
    /// it does. If that is not possible, it goes on where it was.
    pub(crate) fn listen_anew(&self, bind: &str, ports: [Option<u16>; 2]) -> Result<(), String> {
        let mut wanted = Vec::new();
        for (port, has_tls) in ports.into_iter().zip([false, true]) {
            if let Some(port @ 1..) = port {
                let addresses = BindAddress::of(bind, port)?;
                wanted.extend(addresses.into_iter().map(|address| (address, has_tls)));
            }
        }
        let is_at = |handle: &ListenerHandle, (place, has_tls): &(BindAddress, bool)| {
            handle.address() == place.address && handle.has_tls() == *has_tls
        };
        let mut handles = self.listening.handles.lock();
        let is_kept = |one: &ListenerHandle| {
            ports[usize::from(one.has_tls())].is_none()
                || wanted.iter().any(|place| is_at(one, place))
        };
        let (kept, old): (Vec<_>, Vec<_>) = handles.drain(..).partition(is_kept);
        let is_new = |one: &&(BindAddress, bool)| kept.iter().all(|old| !is_at(old, one));
        let missing: Vec<_> = wanted.iter().filter(is_new).copied().collect();
        // New ones first, so that a mistake interrupts nothing; but an address may be in the way
        // of another that holds it, as 127.0.0.1 is in that of `*`.
        let tls = &self.certificates.acceptor;
        let mut made = listen(&missing, tls);
        let is_in_the_way = |one: &ListenerHandle| ports.contains(&Some(one.address().port()));
        let retries = made.is_err() && old.iter().any(is_in_the_way);
        if made.is_ok() || retries {
            old.iter().for_each(ListenerHandle::stop);
        }
        if retries {
            made = listen(&missing, tls);
        }
        let (made, failure) = match made {
            Ok(made) => (made, None),
            Err(error) if !retries => {
                handles.extend(kept.into_iter().chain(old));
                return Err(error);
            }
            Err(error) => {
                let again = |one: &ListenerHandle| {
                    let place = BindAddress {
                        address: one.address(),
                        is_optional: false,
                    };
                    (place, one.has_tls())
                };
                let again: Vec<_> = old.iter().map(again).collect();
                (listen(&again, tls).unwrap_or_default(), Some(error))
            }
        };
        // Of an address that is listened on anew, the old socket goes.
        let addresses = kept.iter().map(ListenerHandle::address).collect();
        handles.extend(kept);
        handles.extend(made.iter().filter_map(|one| one.handle().ok().flatten()));
        self.mail.send(0, RedisMail::Listen { made, addresses });
        failure.map_or(Ok(()), Err)
    }
}

fn listen(places: &[(BindAddress, bool)], tls: &TlsAcceptor) -> Result<Vec<Listener>, String> {
    let one = |(address, has_tls): &(BindAddress, bool)| address.listen(has_tls.then_some(tls));
    let made: Result<Vec<_>, _> = places.iter().map(one).collect();
    match made {
        Ok(made) => Ok(made.into_iter().flatten().collect()),
        Err(error) => {
            tracing::warn!(%error, "Could not create server TCP listening socket");
            Err(error.to_string())
        }
    }
}

fn resolve(host: &str, port: u16) -> Option<SocketAddr> {
    match host {
        "*" => return Some(SocketAddr::from(([0, 0, 0, 0], port))),
        "::*" => return Some(SocketAddr::from(([0u16; 8], port))),
        _ => {}
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(SocketAddr::new(address, port));
    }
    // A malformed address is not a name to resolve.
    if host.is_empty()
        || host
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return None;
    }
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs().ok()?.collect();
    let first_v4 = found.iter().find(|address| address.is_ipv4());
    first_v4.or_else(|| found.first()).copied()
}

fn host_text(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) if address.is_unspecified() => "*".to_owned(),
        IpAddr::V6(address) if address.is_unspecified() => "::*".to_owned(),
        address => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bind_is_read_as_redis_reads_it() {
        let of = |text: &str| BindAddress::of(text, 7);
        let address = |text: &str, is_optional| BindAddress {
            address: text.parse().unwrap(),
            is_optional,
        };
        assert_eq!(
            of("* -::*").unwrap(),
            [address("0.0.0.0:7", false), address("[::]:7", true)]
        );
        assert_eq!(
            of("127.0.0.1 -::1").unwrap(),
            [address("127.0.0.1:7", false), address("[::1]:7", true)]
        );
        assert_eq!(of("").unwrap(), []);
        assert_eq!(of("999.999.999.999").unwrap_err(), "999.999.999.999");
    }
}
