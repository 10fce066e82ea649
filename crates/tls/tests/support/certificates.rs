//! Certificates of tests, also of those of other crates.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tidewire_tls::{Client, Server, Trust};

/// What a certificate is to say.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    /// A DNS name or an address.
    pub(crate) name: String,
    /// As the subject's common name, instead of where names belong.
    pub(crate) is_common_name: bool,
    /// Valid from the first day of one year to that of another.
    pub(crate) years: [i32; 2],
}

impl Named {
    pub(crate) fn new(name: &str) -> Named {
        Named {
            name: name.to_owned(),
            is_common_name: false,
            years: [2020, 2120],
        }
    }

    fn params(&self) -> CertificateParams {
        let names = match self.is_common_name {
            true => Vec::new(),
            false => vec![self.name.clone()],
        };
        let mut params = CertificateParams::new(names).unwrap();
        if self.is_common_name {
            let subject = &mut params.distinguished_name;
            subject.push(DnType::CommonName, self.name.as_str());
        }
        let [from, to] = self.years.map(|year| date_time_ymd(year, 1, 1));
        (params.not_before, params.not_after) = (from, to);
        params
    }
}

/// A server's certificate.
pub(crate) struct Made {
    pub(crate) pem: String,
    pub(crate) key_pem: String,
    /// What is to be trusted.
    pub(crate) root_pem: String,
    params: CertificateParams,
    key: KeyPair,
}

impl Made {
    /// By an authority that nothing else is issued by.
    pub(crate) fn issued(named: &Named) -> Made {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("Authority {}", NEXT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let root_pem = params.self_signed(&key).unwrap().pem();
        Made {
            root_pem,
            ..issue(named, &Issuer::new(params, key))
        }
    }

    pub(crate) fn self_signed(named: &Named) -> Made {
        let (params, key) = (named.params(), KeyPair::generate().unwrap());
        let pem = params.self_signed(&key).unwrap().pem();
        Made {
            root_pem: pem.clone(),
            key_pem: key.serialize_pem(),
            pem,
            params,
            key,
        }
    }

    /// What the owner of this one can make with its key.
    pub(crate) fn issue(&self, named: &Named) -> Made {
        let issuer = Issuer::from_params(&self.params, &self.key);
        let made = issue(named, &issuer);
        Made {
            pem: format!("{}{}", made.pem, self.pem),
            ..made
        }
    }

    /// One that is made once.
    pub(crate) fn known() -> &'static Made {
        static KNOWN: OnceLock<Made> = OnceLock::new();
        KNOWN.get_or_init(|| Made::issued(&Named::new("hub.example")))
    }

    pub(crate) fn server(&self) -> Server {
        Server::new(self.pem.as_bytes(), self.key_pem.as_bytes()).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.trust()).unwrap()
    }

    pub(crate) fn trust(&self) -> Trust<'_> {
        Trust {
            pem: self.root_pem.as_bytes(),
            ..Trust::default()
        }
    }
}

fn issue(named: &Named, issuer: &Issuer<'_, impl rcgen::SigningKey>) -> Made {
    let (params, key) = (named.params(), KeyPair::generate().unwrap());
    Made {
        pem: params.signed_by(&key, issuer).unwrap().pem(),
        key_pem: key.serialize_pem(),
        root_pem: String::new(),
        params,
        key,
    }
}
