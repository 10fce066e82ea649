//! The web port: its options, and the files of the console, which are part of the program.

use clap::Args;
use tidewire_hub::{WebAsset, WebConfig};
use tidewire_lane::{Endpoint, EndpointError};
use tidewire_redis::is_loopback;
use tidewire_web::websocket::Origins;

use crate::config::FilePlace;
use crate::failure::Failure;

/// Options of the web port.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WebArguments {
    /// Web pages: the console, and the stream for pages of your own; off for none [default:
    /// 127.0.0.1:8080, if that is free].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_WEB", value_parser = parse_place)]
    pub(crate) web: Option<Place>,
    /// Web pages of other hosts whose scripts may connect to the web port: https://HOST,
    /// http://HOST:PORT, or * for all; also other names of the hub. Repeat it, or separate them by
    /// commas [default: none].
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "TIDEWIRE_WEB_ORIGINS",
        value_delimiter = ','
    )]
    pub(crate) web_origins: Vec<String>,
    /// Serve --web without TLS to other machines: passwords and values travel in clear text.
    #[arg(long, env = "TIDEWIRE_WEB_INSECURE")]
    pub(crate) web_insecure: bool,
}

/// What `--web` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// There is no web port.
    Off,
    /// The address.
    At(Endpoint),
}

/// The address of the web port.
#[derive(Clone, Debug)]
pub(crate) struct WebPlace {
    pub(crate) endpoint: Endpoint,
    /// Whether it is the default: if it is in use, the hub runs without a web port.
    pub(crate) is_default: bool,
}

/// The lines of the configuration file.
#[derive(Debug)]
pub(crate) struct WebLines<'f> {
    pub(crate) web: Option<&'f str>,
    pub(crate) origins: Option<&'f Vec<String>>,
    pub(crate) insecure: Option<bool>,
}

impl WebArguments {
    /// Returns the address, if there is a web port, by the options or else by the file.
    pub(crate) fn place(
        &self,
        lines: &WebLines<'_>,
        file: &FilePlace,
    ) -> Result<Option<WebPlace>, Failure> {
        let place = match (&self.web, lines.web) {
            (Some(place), _) => place.clone(),
            (None, Some(text)) => parse_place(text).map_err(|error| {
                Failure::usage(format!("{} = '{text}': {error}", file.of("web")))
            })?,
            (None, None) => {
                let endpoint = Endpoint::Tcp(([127, 0, 0, 1], PORT).into());
                return Ok(Some(WebPlace {
                    endpoint,
                    is_default: true,
                }));
            }
        };
        let Place::At(endpoint) = place else {
            return Ok(None);
        };
        let is_elsewhere = endpoint.tcp().is_some_and(|tcp| !is_loopback(tcp.ip()));
        if is_elsewhere && !self.web_insecure && lines.insecure != Some(true) {
            return Err(Failure::usage(format!(
                "--web {endpoint}: other machines reach it, and passwords would travel in clear \
                 text: use --web-tls {endpoint}, a proxy with TLS in front of 127.0.0.1, or \
                 --web-insecure"
            )));
        }
        Ok(Some(WebPlace {
            endpoint,
            is_default: false,
        }))
    }

    /// Returns what is served.
    pub(crate) fn config(
        &self,
        lines: &WebLines<'_>,
        file: &FilePlace,
    ) -> Result<WebConfig, Failure> {
        let (origins, option) = match (lines.origins, self.web_origins.is_empty()) {
            (Some(origins), true) => (origins, file.of("web-origins")),
            _ => (&self.web_origins, "--web-origins".to_owned()),
        };
        let origins = Origins::new(origins);
        let origins = origins.map_err(|error| Failure::usage(format!("{option}: {error}")))?;
        let assets = FILES.iter().filter_map(|(path, body, packed)| {
            Some(WebAsset {
                path,
                content_type: type_of(path)?,
                body,
                packed: (packed.len() < body.len()).then_some(packed),
            })
        });
        let mut config = WebConfig::new(assets.collect(), origins.into());
        config.log_lines = crate::log::lines();
        Ok(config)
    }
}

fn parse_place(text: &str) -> Result<Place, EndpointError> {
    match text {
        "off" | "none" => Ok(Place::Off),
        _ => text
            .strip_prefix("http://")
            .unwrap_or(text)
            .parse()
            .map(Place::At),
    }
}

/// Returns the type of a file; `None` for one that is not served.
fn type_of(path: &str) -> Option<&'static str> {
    let (_, ending) = path.rsplit_once('.')?;
    Some(match ending {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "ts" | "txt" | "LICENSE" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" if path == "/manifest.json" => "application/json",
        _ => return None,
    })
}

/// The default port of `--web`.
const PORT: u16 = 8080;

// `FILES`: each file of assets/web with its path. The build script makes it.
include!(concat!(env!("OUT_DIR"), "/web_files.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    fn place(options: &[&str], line: Option<&str>) -> Result<Option<WebPlace>, Failure> {
        let arguments = WebArguments {
            web: options.first().map(|text| parse_place(text).unwrap()),
            web_insecure: options.len() > 1,
            ..WebArguments::default()
        };
        let lines = WebLines {
            web: line,
            origins: None,
            insecure: None,
        };
        arguments.place(&lines, &FilePlace::default())
    }

    #[test]
    fn other_machines_are_served_without_tls_only_if_that_is_said() {
        let shown = |place: Option<WebPlace>| place.map(|one| one.endpoint.to_string());
        let default = place(&[], None).unwrap().unwrap();
        assert!(default.is_default && default.endpoint.to_string() == "127.0.0.1:8080");
        assert_eq!(shown(place(&["off"], None).unwrap()), None);
        assert_eq!(shown(place(&[], Some("off")).unwrap()), None);
        let own = shown(place(&["127.0.0.1:1"], Some("off")).unwrap());
        assert_eq!(own.as_deref(), Some("127.0.0.1:1"));
        let error = place(&["0.0.0.0:8080"], None).unwrap_err().to_string();
        assert!(error.contains("--web-insecure"), "{error}");
        assert!(place(&["0.0.0.0:8080", "insecure"], None).is_ok());
    }

    #[test]
    fn the_first_page_is_served_and_package_files_are_not() {
        assert!(FILES.iter().any(|(path, ..)| *path == "/index.html"));
        assert_eq!(type_of("/package.json"), None);
        assert_eq!(type_of("/tidewire.d.ts"), Some("text/plain; charset=utf-8"));
    }
}
