//! The addresses on which ports other than that of Redis clients are served with TLS: options,
//! environment and file. All of them have the certificate of `--tls-cert`.

use clap::Args;
use tidewire_hub::port;
use tidewire_lane::{Endpoint, EndpointError};

use crate::config::FilePlace;
use crate::failure::Failure;

/// A port with TLS beside the one without it. Each needs --tls-cert and --tls-key.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TlsPorts {
    /// ZeroMQ subscribers with TLS, by wss:// (WebSocket) [default: none].
    #[arg(long, value_name = "ENDPOINT", env = "TIDEWIRE_ZMQ_PUB_TLS",
          value_parser = parse_zmq)]
    pub(crate) zmq_pub_tls: Option<Endpoint>,
    /// ZeroMQ PUSH peers with TLS, by wss:// [default: none].
    #[arg(long, value_name = "ENDPOINT", env = "TIDEWIRE_ZMQ_PULL_TLS",
          value_parser = parse_zmq)]
    pub(crate) zmq_pull_tls: Option<Endpoint>,
    /// ZeroMQ REQ and DEALER peers with TLS, by wss:// [default: none].
    #[arg(long, value_name = "ENDPOINT", env = "TIDEWIRE_ZMQ_ROUTER_TLS",
          value_parser = parse_zmq)]
    pub(crate) zmq_router_tls: Option<Endpoint>,
    /// Native feed with TLS [default: none].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_FEED_TLS")]
    pub(crate) feed_tls: Option<Endpoint>,
    /// Databento's live clients with TLS; needs --databento-key [default: none].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_DATABENTO_TLS")]
    pub(crate) databento_tls: Option<Endpoint>,
    /// Web pages over HTTPS, with their stream by wss:// [default: none].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_WEB_TLS")]
    pub(crate) web_tls: Option<Endpoint>,
    /// Metrics for Prometheus over HTTPS [default: none].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_ADMIN_TLS")]
    pub(crate) admin_tls: Option<Endpoint>,
}

/// One such address.
#[derive(Clone, Debug)]
pub(crate) struct TlsPlace {
    /// The option that names it.
    pub(crate) option: &'static str,
    pub(crate) endpoint: Endpoint,
    /// The tag of its connections.
    pub(crate) port: u16,
}

impl TlsPlace {
    /// Returns the option's name, as the file has it.
    pub(crate) fn name(&self) -> &'static str {
        self.option.trim_start_matches('-')
    }
}

/// The texts of the configuration file, in the order of [`PORTS`].
pub(crate) type Texts<'a> = [&'a Option<String>; PORTS.len()];

impl TlsPorts {
    /// Returns the addresses of the options and, where an option is not given, those of the file.
    pub(crate) fn places(
        &self,
        texts: Texts<'_>,
        place: &FilePlace,
    ) -> Result<Vec<TlsPlace>, Failure> {
        let given = [
            &self.zmq_pub_tls,
            &self.zmq_pull_tls,
            &self.zmq_router_tls,
            &self.feed_tls,
            &self.databento_tls,
            &self.admin_tls,
            &self.web_tls,
        ];
        let mut places = Vec::new();
        for ((given, text), (option, port)) in given.into_iter().zip(texts).zip(PORTS) {
            let endpoint = match (given, text) {
                (Some(endpoint), _) => endpoint.clone(),
                (None, Some(text)) => parse(text, port).map_err(|error| {
                    let name = place.of(option.trim_start_matches('-'));
                    Failure::usage(format!("{name} = '{text}': {error}"))
                })?,
                (None, None) => continue,
            };
            places.push(TlsPlace {
                option,
                endpoint,
                port,
            });
        }
        Ok(places)
    }
}

fn parse(text: &str, port: u16) -> Result<Endpoint, EndpointError> {
    match port {
        port::ZMQ_PUBLISH | port::ZMQ_PULL | port::ZMQ_ROUTER => parse_zmq(text),
        _ => text.parse(),
    }
}

/// Reads an address as ZeroMQ's clients write it, or as the other options have it.
fn parse_zmq(text: &str) -> Result<Endpoint, EndpointError> {
    text.strip_prefix("wss://").unwrap_or(text).parse()
}

/// The options and their ports.
const PORTS: [(&str, u16); 7] = [
    ("--zmq-pub-tls", port::ZMQ_PUBLISH),
    ("--zmq-pull-tls", port::ZMQ_PULL),
    ("--zmq-router-tls", port::ZMQ_ROUTER),
    ("--feed-tls", port::FEED),
    ("--databento-tls", port::DATABENTO),
    ("--admin-tls", port::ADMIN),
    ("--web-tls", port::WEB),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_wins_over_the_file_and_each_error_names_its_line() {
        let ports = TlsPorts {
            feed_tls: "127.0.0.1:7001".parse().ok(),
            ..TlsPorts::default()
        };
        let text = |text: &str| Some(text.to_owned());
        let texts = [
            text("wss://127.0.0.1:7002"),
            None,
            None,
            text("127.0.0.1:7003"),
            None,
            text("127.0.0.1:7004"),
            text("127.0.0.1:7005"),
        ];
        let texts = texts.each_ref();
        let places = ports.places(texts, &FilePlace::default()).unwrap();
        let shown: Vec<_> = places
            .iter()
            .map(|one| (one.name(), one.endpoint.to_string(), one.port))
            .collect();
        let expected = [
            ("zmq-pub-tls", "127.0.0.1:7002", port::ZMQ_PUBLISH),
            ("feed-tls", "127.0.0.1:7001", port::FEED),
            ("admin-tls", "127.0.0.1:7004", port::ADMIN),
            ("web-tls", "127.0.0.1:7005", port::WEB),
        ];
        let expected = expected.map(|(name, endpoint, port)| (name, endpoint.to_owned(), port));
        assert_eq!(shown, expected);
        let wrong = [
            &None,
            &None,
            &None,
            &None,
            &None,
            &text("https://hub:1"),
            &None,
        ];
        let error = ports.places(wrong, &FilePlace::default()).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("admin-tls = 'https://hub:1': unknown"),
            "{error}"
        );
    }
}
