//! The files that the `tls-` parameters name.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tidewire_files::read_bounded;
use tidewire_tls::{
    Error, check_authorities, check_certificates, check_key, is_encrypted, usable_key,
};

use crate::parameters::{
    TLS_CA_CERT_DIR, TLS_CA_CERT_FILE, TLS_CERT_FILE, TLS_CLIENT_CERT_FILE, TLS_CLIENT_KEY_FILE,
    TLS_CLIENT_KEY_FILE_PASS, TLS_KEY_FILE, TLS_KEY_FILE_PASS,
};
use crate::server::Server;

/// The texts of the files.
pub(super) struct Files {
    /// The server's own certificate and key.
    pub(super) own: Option<Pair>,
    /// Those for links to other servers, if they are others.
    pub(super) client: Option<Pair>,
    pub(super) authorities: Vec<u8>,
}

/// A certificate and its key.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// Returns whether 'tidewire certs' has left a file that is to replace this one.
pub(super) fn is_unfinished(file: &str) -> bool {
    let path = Path::new(file);
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        let other = path.with_file_name(format!(".{name}.unfinished"));
        other.symlink_metadata().is_ok()
    })
}

impl Files {
    pub(super) fn read(server: &Server) -> Result<Self, String> {
        let parameters = &server.parameters;
        let own = [TLS_CERT_FILE, TLS_KEY_FILE, TLS_KEY_FILE_PASS];
        let client = [
            TLS_CLIENT_CERT_FILE,
            TLS_CLIENT_KEY_FILE,
            TLS_CLIENT_KEY_FILE_PASS,
        ];
        let [own, client] = [own, client].map(|ids| {
            let names = ids.each_ref().map(|id| id.name());
            read_pair(names, ids.map(|id| parameters.read(id)))
        });
        let file = parameters.read(TLS_CA_CERT_FILE);
        let directory = parameters.read(TLS_CA_CERT_DIR);
        let mut authorities = match file.as_str() {
            "" => Vec::new(),
            file => {
                let text = read("tls-ca-cert-file", file)?;
                let wrong = |error| format!("tls-ca-cert-file: {file}: {error}");
                check_authorities(&text).map_err(wrong)?;
                text
            }
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

/// Reads a certificate, and its key with the password. `names` are those of the three parameters.
fn read_pair(
    names: [&str; 3],
    [certificate, key, password]: [String; 3],
) -> Result<Option<Pair>, String> {
    let [certificate_name, key_name, password_name] = names;
    match (certificate.is_empty(), key.is_empty()) {
        (true, true) => return Ok(None),
        (true, false) => {
            let text = "the key's certificate is missing";
            return Err(format!("{key_name}: {key}: {text}; set {certificate_name}"));
        }
        (false, true) => {
            let text = "the certificate's key is missing";
            return Err(format!(
                "{certificate_name}: {certificate}: {text}; set {key_name}"
            ));
        }
        (false, false) => {}
    }
    let certificate_pem = read(certificate_name, &certificate)?;
    let key_pem = read(key_name, &key)?;
    check_certificates(&certificate_pem)
        .map_err(|error| format!("{certificate_name}: {certificate}: {error}"))?;
    warn_of_readers(&key);
    if !password.is_empty() && !is_encrypted(&key_pem) {
        tracing::warn!(
            file = key,
            "a password is set for a key that is not encrypted"
        );
    }
    let wrong_key = |error| format!("{key_name}: {key}: {error}");
    let key_pem = usable_key(&key_pem, password.as_bytes());
    let key_pem = key_pem.map_err(|error| match error {
        Error::NoPassword => format!("{}; set {password_name}", wrong_key(error)),
        error => wrong_key(error),
    })?;
    check_key(&key_pem).map_err(wrong_key)?;
    Ok(Some((certificate_pem, key_pem)))
}

fn read(what: &str, path: &str) -> Result<Vec<u8>, String> {
    read_file(Path::new(path)).map_err(|error| format!("{what}: {path}: {error}"))
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read_bounded(path, FILE_BYTES_MAX)
}

/// More than any certificates have.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Appends the certificates of a directory, in the order of their files' names.
fn read_directory(directory: &str, authorities: &mut Vec<u8>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("tls-ca-cert-dir: {directory}: {error}");
    let entries = fs::read_dir(directory).map_err(failed)?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.is_file()) {
        let text = read_file(path).map_err(failed)?;
        let is_certificate = text.windows(BEGIN.len()).any(|part| part == BEGIN);
        // Directories of certificates have links by other names to the same files.
        let is_new = authorities
            .windows(text.len().max(1))
            .all(|part| part != text);
        if is_certificate && is_new {
            let wrong = |error| format!("tls-ca-cert-dir: {}: {error}", path.display());
            check_authorities(&text).map_err(wrong)?;
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
