//! TLS of the listening ports and of the link to a master: the parameters whose names begin with
//! `tls-`.
//!
//! Files are read when the server starts and when CONFIG SET names one of these parameters.
//! Connections keep the certificates that they began with.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidewire_lane::{ConnectionId, Context, TlsAcceptor};
use tidewire_retry::note_failed_login;
use tidewire_tls::{Client, ClientSettings, Clients, Offer, ServerSettings, Trust};

use crate::access::{Reason, User};
use crate::identity::note;
use crate::parameters::{
    TLS_AUTH_CLIENTS, TLS_AUTH_CLIENTS_USER, TLS_CA_CERT_DIR, TLS_CA_CERT_FILE, TLS_CERT_FILE,
    TLS_CIPHERS, TLS_CIPHERSUITES, TLS_CLIENT_CERT_FILE, TLS_CLIENT_KEY_FILE,
    TLS_CLIENT_KEY_FILE_PASS, TLS_KEY_FILE, TLS_KEY_FILE_PASS, TLS_PORT, TLS_PREFER_SERVER_CIPHERS,
    TLS_PROTOCOLS, TLS_REPLICATION, TLS_SESSION_CACHE_TIMEOUT, TLS_SESSION_CACHING,
    TLS_VERIFY_HOSTNAME,
};
use crate::server::Server;

/// Certificates in use.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// For the clients of all ports.
    pub(crate) acceptor: TlsAcceptor,
    /// For the link to a master.
    client: Mutex<Option<Client>>,
    /// Clients whose certificate names no user.
    unknown: AtomicU64,
}

impl Certificates {
    pub(crate) fn new(acceptor: TlsAcceptor) -> Self {
        Self {
            acceptor,
            client: Mutex::default(),
            unknown: AtomicU64::new(0),
        }
    }

    /// Returns what a link to another server is made with.
    pub(crate) fn client(&self) -> Option<Client> {
        self.client.lock().clone()
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
        let is_port = self.parameters.read(TLS_PORT) != 0 || self.config.has_tls_ports;
        let is_link = self.parameters.read(TLS_REPLICATION);
        if !is_port && !is_link {
            return Ok(());
        }
        let files = Files::read(self)?;
        let server = is_port.then(|| self.tls_server(&files)).transpose()?;
        let client = is_link.then(|| self.tls_client(&files)).transpose()?;
        if let Some(server) = server {
            self.certificates.acceptor.replace(Some(server));
        }
        if let Some(client) = client {
            *self.certificates.client.lock() = Some(client);
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
        server.map_err(|error| format!("{} and {}: {error}", names.0, names.1))
    }

    fn tls_client(&self, files: &Files) -> Result<Client, String> {
        if files.authorities.is_empty() {
            return Err("tls-replication needs tls-ca-cert-file or tls-ca-cert-dir".to_owned());
        }
        let identity = files.client.as_ref().or(files.own.as_ref());
        let client = Client::with(&ClientSettings {
            trust: Trust {
                pem: &files.authorities,
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

/// The texts of the files.
struct Files {
    /// The server's own certificate and key.
    own: Option<Pair>,
    /// Those for links to other servers, if they are others.
    client: Option<Pair>,
    authorities: Vec<u8>,
}

/// A certificate and its key.
type Pair = (Vec<u8>, Vec<u8>);

impl Files {
    fn read(server: &Server) -> Result<Self, String> {
        let parameters = &server.parameters;
        let own = [TLS_CERT_FILE, TLS_KEY_FILE, TLS_KEY_FILE_PASS];
        let client = [
            TLS_CLIENT_CERT_FILE,
            TLS_CLIENT_KEY_FILE,
            TLS_CLIENT_KEY_FILE_PASS,
        ];
        let [own, client] = [own, client].map(|ids| read_pair(ids.map(|id| parameters.read(id))));
        let file = parameters.read(TLS_CA_CERT_FILE);
        let directory = parameters.read(TLS_CA_CERT_DIR);
        let mut authorities = match file.as_str() {
            "" => Vec::new(),
            file => read("tls-ca-cert-file", file)?,
        };
        if !directory.is_empty() {
            read_directory(&directory, &mut authorities)?;
        }
        Ok(Self {
            own: own?,
            client: client?,
            authorities,
        })
    }
}

fn read_pair([certificate, key, password]: [String; 3]) -> Result<Option<Pair>, String> {
    match (certificate.is_empty(), key.is_empty()) {
        (true, true) => return Ok(None),
        (true, false) => return Err(format!("{key}: the key's certificate is missing")),
        (false, true) => return Err(format!("{certificate}: the certificate's key is missing")),
        (false, false) => {}
    }
    let pair = (read("certificate", &certificate)?, read("key", &key)?);
    warn_of_readers(&key);
    let is_encrypted = |text: &[u8]| {
        let mut lines = text.split(|&byte| byte == b'\n');
        lines.any(|line| line.windows(9).any(|word| word == b"ENCRYPTED"))
    };
    if is_encrypted(&pair.1) {
        return Err(format!(
            "{key}: encrypted keys are not supported; decrypt it (openssl pkey -in FILE -out FILE) \
             and let only the server's user read it"
        ));
    }
    if !password.is_empty() {
        tracing::warn!(
            file = key,
            "a password is set for a key that is not encrypted"
        );
    }
    Ok(Some(pair))
}

fn read(what: &str, path: &str) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{what}: {path}: {error}"))
}

/// Appends the certificates of a directory, in the order of their files' names.
fn read_directory(directory: &str, authorities: &mut Vec<u8>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("tls-ca-cert-dir: {directory}: {error}");
    let entries = fs::read_dir(directory).map_err(failed)?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.is_file()) {
        let text = fs::read(path).map_err(failed)?;
        let is_certificate = text.windows(BEGIN.len()).any(|part| part == BEGIN);
        // Directories of certificates have links by other names to the same files.
        let is_new = authorities
            .windows(text.len().max(1))
            .all(|part| part != text);
        if is_certificate && is_new {
            authorities.extend_from_slice(&text);
            authorities.push(b'\n');
        }
    }
    Ok(())
}

fn warn_of_readers(key: &str) {
    let mode = fs::metadata(key).map(|metadata| metadata.permissions().mode());
    if let Ok(mode) = mode
        && mode & 0o007 != 0
    {
        let mode = format!("{:03o}", mode & 0o777);
        tracing::warn!(
            file = key,
            mode,
            "other users can read the private key; use chmod 640"
        );
    }
}

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
/// How long a session can be resumed if `tls-session-cache-timeout` is 0, as in Redis.
const SESSION_SECONDS: u64 = 300;
