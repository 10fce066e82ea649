//! Who a hub is for NATS servers, and which of them it trusts.

use std::path::{Path, PathBuf};

use tidewire_nats::{Credentials, TlsFiles};

use crate::config::FilePlace;
use crate::failure::Failure;

/// Names of the file that say it.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) credentials: Option<PathBuf>,
    pub(super) nkey: Option<PathBuf>,
    pub(super) user: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) tls_ca: Option<PathBuf>,
    pub(super) tls_cert: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
}

impl Login {
    /// Returns whether nothing is said.
    pub(super) fn is_empty(&self) -> bool {
        let files = [
            &self.credentials,
            &self.nkey,
            &self.password_file,
            &self.tls_ca,
            &self.tls_cert,
            &self.tls_key,
        ];
        self.user.is_none() && files.iter().all(|file| file.is_none())
    }

    /// Returns who the hub is.
    pub(super) fn credentials(&self, place: &FilePlace) -> Result<Credentials, Failure> {
        let line = |path: &Path, name: &str| {
            let text = std::fs::read_to_string(path).map_err(|error| {
                let path = path.display();
                Failure::usage(format!("{}: cannot read {path}: {error}", place.of(name)))
            })?;
            Ok::<_, Failure>(text.lines().next().unwrap_or_default().trim().to_owned())
        };
        if self.password_file.is_some() && self.user.is_none() {
            let text = format!("{}: user is needed, too", place.of("password-file"));
            return Err(Failure::usage(text));
        }
        match (&self.credentials, &self.nkey, &self.user) {
            (None, None, None) => Ok(Credentials::None),
            (Some(path), None, None) => Ok(Credentials::File(path.clone())),
            (None, Some(path), None) => Ok(Credentials::Nkey(line(path, "nkey")?)),
            (None, None, Some(user)) => {
                let Some(path) = &self.password_file else {
                    let text = format!("{}: password-file is needed, too", place.of("user"));
                    return Err(Failure::usage(text));
                };
                let password = line(path, "password-file")?;
                Ok(Credentials::Password(user.clone(), password))
            }
            _ => {
                let text = "only one of credentials, nkey and user is possible";
                Err(Failure::usage(format!(
                    "{}: {text}",
                    place.of("credentials")
                )))
            }
        }
    }

    /// Returns the files for TLS.
    pub(super) fn tls(&self, place: &FilePlace) -> Result<TlsFiles, Failure> {
        let own = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => {
                let text = format!("{}: tls-key is needed, too", place.of("tls-cert"));
                return Err(Failure::usage(text));
            }
            (None, Some(_)) => {
                let text = format!("{}: tls-cert is needed, too", place.of("tls-key"));
                return Err(Failure::usage(text));
            }
        };
        // Who gives files for TLS does not want a link without it.
        let is_required = own.is_some() || self.tls_ca.is_some();
        Ok(TlsFiles {
            authorities: self.tls_ca.clone(),
            own,
            is_required,
        })
    }
}
