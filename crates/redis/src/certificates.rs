//! TLS of the listening ports and of the link to a master: the parameters whose names begin with
//! `tls-`.
//!
//! Files are read when the server starts, when CONFIG SET names one of these parameters, on SIGHUP,
//! and when they change ([`CertificateWatch`]). Connections keep the certificates that they began
//! with.

mod files;
mod watch;

pub use watch::CertificateWatch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidewire_lane::{ConnectionId, Context, TlsAcceptor, TlsConnector};
use tidewire_retry::note_failed_login;
use tidewire_tls::{
    CertificateFacts, Client, ClientSettings, Clients, Error, Offer, ServerSettings, Trust,
};

use crate::access::{Reason, User};
use crate::identity::note;
use crate::parameters::{
    TLS_AUTH_CLIENTS, TLS_AUTH_CLIENTS_USER, TLS_CERT_FILE, TLS_CIPHERS, TLS_CIPHERSUITES,
    TLS_CLIENT_CERT_FILE, TLS_CLUSTER, TLS_KEY_FILE, TLS_PORT, TLS_PREFER_SERVER_CIPHERS,
    TLS_PROTOCOLS, TLS_REPLICATION, TLS_SESSION_CACHE_TIMEOUT, TLS_SESSION_CACHING,
    TLS_VERIFY_HOSTNAME,
};
use crate::server::Server;

use files::Files;
use watch::Stamps;

/// Certificates in use.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// For the clients of all ports.
    pub(crate) acceptor: TlsAcceptor,
    /// For links to other servers: to a master, of MIGRATE, and to sources.
    connector: TlsConnector,
    in_use: Mutex<InUse>,
    /// Locked while files are read, so that two readings never mix.
    reading: Mutex<()>,
    /// Clients whose certificate names no user.
    unknown: AtomicU64,
    /// Readings of the files after the start that were successful, and those that were not.
    reloads: [AtomicU64; 2],
}

/// The certificates in use, and the state of the files that they came from.
#[derive(Debug, Default)]
struct InUse {
    server: Option<Dated>,
    client: Option<Dated>,
    stamps: Option<Stamps>,
}

/// A certificate's file, and the time in which it is valid: that of the first to expire, of those
/// that are sent with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dated {
    pub(crate) file: String,
    pub(crate) begins_s: i64,
    pub(crate) ends_s: i64,
    /// It is for the other side of a connection (extended key usage): peers refuse it.
    pub(crate) is_of_other_side: bool,
}

impl Dated {
    /// Reads the certificates of a file. `is_for_it` tells whether they are for their side.
    fn read(file: String, pem: &[u8], is_for_it: fn(&CertificateFacts) -> bool) -> Option<Self> {
        let facts = CertificateFacts::read_all(pem).ok()?;
        Some(Self {
            is_of_other_side: !is_for_it(facts.first()?),
            file,
            begins_s: facts.iter().map(|one| one.begins_s).max()?,
            ends_s: facts.iter().map(|one| one.ends_s).min()?,
        })
    }

    /// Returns the whole days until it expires; negative once it has expired.
    pub(crate) fn days_left(&self, now_s: i64) -> i64 {
        (self.ends_s - now_s).div_euclid(86_400)
    }
}

impl Certificates {
    pub(crate) fn new(acceptor: TlsAcceptor, connector: TlsConnector) -> Self {
        Self {
            acceptor,
            connector,
            in_use: Mutex::default(),
            reading: Mutex::default(),
            unknown: AtomicU64::new(0),
            reloads: Default::default(),
        }
    }

    /// Returns what a link to another server is made with.
    pub(crate) fn client(&self) -> Option<Client> {
        self.connector.current()
    }

    /// Returns the dates of the server's certificate.
    pub(crate) fn server_dates(&self) -> Option<Dated> {
        self.in_use.lock().server.clone()
    }

    /// Returns the dates of the certificate for links to other servers.
    pub(crate) fn client_dates(&self) -> Option<Dated> {
        self.in_use.lock().client.clone()
    }

    /// Returns how often the files were read again with success, and without.
    pub(crate) fn reloads(&self) -> [u64; 2] {
        [0, 1].map(|at| self.reloads[at].load(Ordering::Relaxed))
    }

    /// Returns the number of clients whose certificate named no user.
    pub(crate) fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }
}

impl Server {
    /// Reads the certificates that the parameters name, if TLS is in use. If that fails, those that
    /// are in use stay.
    ///
    /// # Errors
    /// The text names the file or the parameter, and what is wrong with it.
    pub fn load_certificates(&self) -> Result<(), String> {
        // The thread that looks at the files may hang in a file system that does not answer.
        let reading = self.certificates.reading.try_lock_for(READING_TIME_MAX);
        let Some(_reading) = reading else {
            return Err("the certificate files are being read; try again".to_owned());
        };
        self.load()
    }

    /// Reads the files again, at a running server. Returns whether TLS is in use.
    ///
    /// # Errors
    /// See [`Server::load_certificates`].
    pub fn reload_certificates(&self) -> Result<bool, String> {
        let _reading = self.certificates.reading.lock();
        let stamps = Stamps::read(&self.parameters);
        let loaded = self.load();
        let mut in_use = self.certificates.in_use.lock();
        if loaded.is_err() {
            // Until they change again, they are not read again.
            in_use.stamps = Some(stamps);
        }
        let at = usize::from(loaded.is_err());
        self.certificates.reloads[at].fetch_add(1, Ordering::Relaxed);
        loaded.map(|()| in_use.server.is_some() || in_use.client.is_some())
    }

    fn load(&self) -> Result<(), String> {
        let parameters = &self.parameters;
        let is_port = parameters.read(TLS_PORT) != 0 || self.config.has_tls_ports;
        let wants_authority = [TLS_REPLICATION, TLS_CLUSTER];
        let wants_authority = wants_authority.into_iter().find(|&id| parameters.read(id));
        let is_link = wants_authority.is_some() || self.config.has_tls_links;
        if !is_port && !is_link {
            *self.certificates.in_use.lock() = InUse::default();
            return Ok(());
        }
        // Before the files are read: a change in between is found later.
        let stamps = Stamps::read(parameters);
        let files = Files::read(self)?;
        if let Some(id) = wants_authority
            && files.authorities.is_empty()
        {
            let name = id.name();
            return Err(format!("{name} needs tls-ca-cert-file or tls-ca-cert-dir"));
        }
        let server = is_port.then(|| self.tls_server(&files)).transpose()?;
        let client = is_link.then(|| self.tls_client(&files)).transpose()?;
        let dated = |id, pair: Option<&(Vec<u8>, Vec<u8>)>, is_for_it| {
            Dated::read(parameters.read(id), &pair?.0, is_for_it)
        };
        let own = files.own.as_ref();
        let in_use = InUse {
            server: dated(TLS_CERT_FILE, own.filter(|_| is_port), |own| {
                own.is_for_servers
            }),
            client: match &files.client {
                _ if !is_link => None,
                Some(pair) => dated(TLS_CLIENT_CERT_FILE, Some(pair), |own| own.is_for_clients),
                // Few servers ask links for a certificate.
                None => dated(TLS_CERT_FILE, own, |_| true),
            },
            stamps: Some(stamps),
        };
        *self.certificates.in_use.lock() = in_use;
        if let Some(server) = server {
            self.certificates.acceptor.replace(Some(server));
        }
        if let Some(client) = client {
            self.certificates.connector.replace(Some(client));
        }
        Ok(())
    }

    fn tls_server(&self, files: &Files) -> Result<tidewire_tls::Server, String> {
        let parameters = &self.parameters;
        let Some((certificates_pem, key_pem)) = &files.own else {
            let text = "a TLS port needs a certificate and its key: tls-cert-file and tls-key-file \
                        (--tls-cert and --tls-key)";
            return Err(text.to_owned());
        };
        let clients = match parameters.read(TLS_AUTH_CLIENTS) {
            "no" => Clients::Unasked,
            "optional" => Clients::Asked,
            _ => Clients::Required,
        };
        if clients != Clients::Unasked && files.authorities.is_empty() {
            let text = "tls-auth-clients needs tls-ca-cert-file or tls-ca-cert-dir (--tls-ca); or set \
                        tls-auth-clients no";
            return Err(text.to_owned());
        }
        let lifetime = Duration::from_secs(match parameters.read(TLS_SESSION_CACHE_TIMEOUT) {
            0 => SESSION_SECONDS,
            seconds => seconds,
        });
        let server = tidewire_tls::Server::with(&ServerSettings {
            certificates_pem,
            key_pem,
            clients,
            authorities_pem: &files.authorities,
            offer: self.tls_offer(),
            has_own_order: parameters.read(TLS_PREFER_SERVER_CIPHERS),
            sessions_for: parameters.read(TLS_SESSION_CACHING).then_some(lifetime),
        });
        let names = (
            parameters.read(TLS_CERT_FILE),
            parameters.read(TLS_KEY_FILE),
        );
        server.map_err(|error| match error {
            Error::KeyMismatch | Error::Malformed(_) => {
                let hint = match files::is_unfinished(&names.0) {
                    true => "; 'tidewire certs' was stopped before it was done: run it again",
                    false => "",
                };
                format!(
                    "tls-cert-file {}, tls-key-file {}: {error}{hint}",
                    names.0, names.1
                )
            }
            Error::NoAuthority => format!("tls-ca-cert-file, tls-ca-cert-dir: {error}"),
            error => error.to_string(),
        })
    }

    fn tls_client(&self, files: &Files) -> Result<Client, String> {
        let identity = files.client.as_ref().or(files.own.as_ref());
        let client = Client::with(&ClientSettings {
            trust: Trust {
                pem: &files.authorities,
                system: files.authorities.is_empty(),
                names_any: !self.parameters.read(TLS_VERIFY_HOSTNAME),
                ..Trust::default()
            },
            identity: identity.map(|(certificate, key)| (&certificate[..], &key[..])),
            offer: self.tls_offer(),
        });
        client.map_err(|error| format!("the certificate for links to other servers: {error}"))
    }

    fn tls_offer(&self) -> Offer {
        Offer {
            protocols: self.parameters.read(TLS_PROTOCOLS),
            ciphers: self.parameters.read(TLS_CIPHERS),
            ciphersuites: self.parameters.read(TLS_CIPHERSUITES),
        }
    }

    /// Returns whether each client of a port with TLS must show a certificate.
    pub fn requires_certificates(&self) -> bool {
        !matches!(self.parameters.read(TLS_AUTH_CLIENTS), "no" | "optional")
    }

    /// Returns the user that a client's certificate names, as `tls-auth-clients-user` says. A
    /// certificate that names no enabled user is counted and logged.
    pub fn user_of_certificate(
        &self,
        context: &Context,
        id: ConnectionId,
        address: &str,
    ) -> Option<Arc<User>> {
        let field = self.parameters.read(TLS_AUTH_CLIENTS_USER);
        if field == "off" {
            return None;
        }
        let names = context.peer_names(id)?;
        let names = match field {
            "CN" => names.common_name.into_iter().collect(),
            _ => names.uris,
        };
        let users = names
            .iter()
            .filter_map(|name| self.access.find(name.as_bytes()));
        let user = users.into_iter().find(|user| user.is_enabled());
        if user.is_none() {
            self.certificates.unknown.fetch_add(1, Ordering::Relaxed);
            let name = names.first().map_or("", String::as_str);
            note_failed_login("TLS certificate", address, name.as_bytes());
            let client = format!("addr={address}");
            note(self, (Reason::Certificate, b""), name.as_bytes(), client);
        }
        user
    }
}

/// How long a client's lane waits for another reading of the files.
const READING_TIME_MAX: Duration = Duration::from_millis(100);
/// How long a session can be resumed if `tls-session-cache-timeout` is 0, as in Redis.
const SESSION_SECONDS: u64 = 300;
