//! A server for clients that speak TLS, with certificates made by the command `openssl`.

use super::LANES;
use crate::server::{Kind, Server, free_port};
use crate::shell::{Failure, Shell};
use std::fs;
use std::path::{Path, PathBuf};

/// A server with a port for TLS, which asks clients for no certificate.
#[derive(Debug)]
pub(super) struct TlsServer {
    _server: Server,
    /// Number of its port for TLS.
    pub(super) port: String,
    /// The certificate of the authority, in PEM.
    pub(super) authority: PathBuf,
}

impl TlsServer {
    /// Starts it; `None` if `openssl` is not installed.
    pub(super) fn start(
        shell: &Shell,
        binary: &Path,
        work: &Path,
    ) -> Result<Option<Self>, Failure> {
        if !shell.program("openssl", ["version"]).succeeds() {
            println!("openssl is absent: clients are not tested over TLS");
            return Ok(None);
        }
        let folder = work.join("tls");
        fs::create_dir_all(&folder).map_err(Failure::at(&folder))?;
        make_certificates(shell, &folder)?;
        let port = free_port()?.to_string();
        let file = |name: &str| folder.join(name).display().to_string();
        let address = format!("127.0.0.1:{port}");
        let (certificate, key) = (file("server.crt"), file("server.key"));
        let options = [
            "--resp-tls",
            &address,
            "--tls-cert",
            &certificate,
            "--tls-key",
            &key,
        ];
        let kind = Kind::tidewire(binary, LANES);
        let server = Server::start_at(&kind, free_port()?, &folder, &options.map(str::to_owned))?;
        Ok(Some(Self {
            _server: server,
            port,
            authority: folder.join("ca.crt"),
        }))
    }
}

/// Makes an authority and a certificate for `127.0.0.1` and `localhost`.
fn make_certificates(shell: &Shell, folder: &Path) -> Result<(), Failure> {
    let extensions = folder.join("server.ext");
    fs::write(&extensions, "subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        .map_err(Failure::at(&extensions))?;
    for command in [
        "ecparam -name prime256v1 -genkey -noout -out ca.key",
        "req -x509 -new -key ca.key -sha256 -days 30 -subj /CN=Authority -out ca.crt \
         -addext basicConstraints=critical,CA:TRUE",
        "ecparam -name prime256v1 -genkey -noout -out server.key",
        "req -new -key server.key -subj /CN=server -out server.csr",
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -sha256 \
         -extfile server.ext -out server.crt",
    ] {
        let program = shell.program("openssl", []).folder(folder);
        let words = command.split_whitespace();
        let program = words.fold(program, |program, word| program.argument(word));
        let log = folder.join("openssl.log");
        if !program.log(&log)? {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(Failure::new(format!("openssl {command}:\n{said}")));
        }
    }
    Ok(())
}
