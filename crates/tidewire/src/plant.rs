//! Configuration of the plant: options, environment and file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use tidewire_lane::TlsConnector;
use tidewire_plant::{NAME_BYTES_MAX, PlantOptions};

use crate::config::FilePlace;
use crate::failure::Failure;
use crate::target::Place;
use crate::units::parse_duration;

/// The plant whose tags are mounted as `mx:` keys.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PlantArguments {
    /// A plant that speaks NMX over TCP, HOST:PORT or tls://HOST:PORT (see --tls-ca): its tags are
    /// the keys mx:OBJECT.ATTRIBUTE [default: none].
    #[arg(long, value_name = "ADDR", env = "TIDEWIRE_MX")]
    pub(crate) mx: Option<Place>,
    /// A tag to follow from the start; repeatable. Other tags are followed once a client names
    /// them.
    #[arg(
        long,
        value_name = "NAME",
        env = "TIDEWIRE_MX_TAG",
        value_delimiter = ','
    )]
    pub(crate) mx_tag: Vec<String>,
    /// A file of such names, one per line; # starts a comment.
    #[arg(long, value_name = "FILE", env = "TIDEWIRE_MX_TAGS")]
    pub(crate) mx_tags: Option<PathBuf>,
    /// Silence of the plant after which a tag is uncertain; 0 for never [default: 60s].
    #[arg(long, value_name = "DURATION", env = "TIDEWIRE_MX_UNCERTAIN_AFTER",
          value_parser = parse_duration)]
    pub(crate) mx_uncertain_after: Option<Duration>,
    /// Silence of the plant after which a tag is bad; 0 for never [default: 180s].
    #[arg(long, value_name = "DURATION", env = "TIDEWIRE_MX_BAD_AFTER",
          value_parser = parse_duration)]
    pub(crate) mx_bad_after: Option<Duration>,
    /// How long SET waits for the plant's answer [default: 10s].
    #[arg(long, value_name = "DURATION", env = "TIDEWIRE_MX_WRITE_TIMEOUT",
          value_parser = parse_duration)]
    pub(crate) mx_write_timeout: Option<Duration>,
}

/// The same options in the configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct PlantTable {
    address: Option<String>,
    tag: Vec<String>,
    tags: Option<PathBuf>,
    tags_max: Option<usize>,
    uncertain_after: Option<String>,
    bad_after: Option<String>,
    write_timeout: Option<String>,
}

/// Returns the plant that the options or the file configure, if any.
pub(crate) fn options(
    given: &PlantArguments,
    file: &PlantTable,
    place: &FilePlace,
    connector: &TlsConnector,
) -> Result<Option<PlantOptions>, Failure> {
    let given_place: Place = match (&given.mx, &file.address) {
        (Some(given), _) => given.clone(),
        (None, Some(text)) => text.parse().map_err(|error| {
            Failure::usage(format!("{} = '{text}': {error}", place.of("mx.address")))
        })?,
        (None, None) => return needs_plant(given, file, place).map(|()| None),
    };
    let endpoint = given_place.endpoint();
    if endpoint.tcp().is_none() {
        let text = format!("--mx {endpoint}: a plant is reached over TCP: HOST:PORT is expected");
        return Err(Failure::usage(text));
    }
    let mut options = PlantOptions::new(endpoint.clone());
    let host = given_place.host().map(str::to_owned);
    options.tls = host.map(|host| (connector.clone(), host));
    let durations = [
        (
            "mx.uncertain-after",
            &mut options.uncertain_after_ns,
            given.mx_uncertain_after,
            &file.uncertain_after,
        ),
        (
            "mx.bad-after",
            &mut options.bad_after_ns,
            given.mx_bad_after,
            &file.bad_after,
        ),
        (
            "mx.write-timeout",
            &mut options.write_timeout_ns,
            given.mx_write_timeout,
            &file.write_timeout,
        ),
    ];
    for (name, target, given, text) in durations {
        let read = |text: &String| {
            parse_duration(text)
                .map_err(|error| Failure::usage(format!("{} = '{text}': {error}", place.of(name))))
        };
        if let Some(duration) =
            given.map_or_else(|| text.as_ref().map(read).transpose(), |d| Ok(Some(d)))?
        {
            *target = duration.as_nanos() as u64;
        }
    }
    if options.write_timeout_ns == 0 {
        return Err(Failure::usage("--mx-write-timeout: must be above 0"));
    }
    let both = [options.uncertain_after_ns, options.bad_after_ns];
    if both[1] != 0 && both[0] > both[1] {
        let [uncertain, bad] = both.map(Duration::from_nanos);
        return Err(Failure::usage(format!(
            "--mx-uncertain-after {uncertain:?} is longer than --mx-bad-after {bad:?}; a tag \
             becomes uncertain first, so give the shorter time to --mx-uncertain-after"
        )));
    }
    if let Some(tags_max) = file.tags_max {
        options.tags_max = tags_max;
    }
    options.tags = names(given, file, place)?;
    Ok(Some(options))
}

/// Returns an error for options that need a plant.
fn needs_plant(
    given: &PlantArguments,
    file: &PlantTable,
    place: &FilePlace,
) -> Result<(), Failure> {
    let options = [
        ("--mx-tag", !given.mx_tag.is_empty()),
        ("--mx-tags", given.mx_tags.is_some()),
        ("--mx-uncertain-after", given.mx_uncertain_after.is_some()),
        ("--mx-bad-after", given.mx_bad_after.is_some()),
        ("--mx-write-timeout", given.mx_write_timeout.is_some()),
    ];
    if let Some((name, _)) = options.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!("{name} needs --mx ADDR")));
    }
    let keys = [
        ("mx.tag", !file.tag.is_empty()),
        ("mx.tags", file.tags.is_some()),
        ("mx.tags-max", file.tags_max.is_some()),
        ("mx.uncertain-after", file.uncertain_after.is_some()),
        ("mx.bad-after", file.bad_after.is_some()),
        ("mx.write-timeout", file.write_timeout.is_some()),
    ];
    if let Some((name, _)) = keys.into_iter().find(|(_, is_given)| *is_given) {
        let text = format!("{} needs mx.address", place.of(name));
        return Err(Failure::usage(text));
    }
    Ok(())
}

fn names(
    given: &PlantArguments,
    file: &PlantTable,
    place: &FilePlace,
) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    let mut add = |name: &str, place: &str| {
        let name = name.strip_prefix("mx:").unwrap_or(name);
        let parts = name.split_once('.');
        let is_name =
            parts.is_some_and(|(object, attribute)| !object.is_empty() && !attribute.is_empty());
        if !is_name || name.len() > NAME_BYTES_MAX {
            let text = format!("{place}: '{name}' is not a tag: OBJECT.ATTRIBUTE is expected");
            return Err(Failure::usage(text));
        }
        names.push(name.to_owned());
        Ok(())
    };
    let (listed, option) = match given.mx_tag.is_empty() {
        true => (&file.tag, place.of("mx.tag")),
        false => (&given.mx_tag, "--mx-tag".to_owned()),
    };
    for name in listed {
        add(name, &option)?;
    }
    if let Some(path) = given.mx_tags.as_ref().or(file.tags.as_ref()) {
        for (number, line) in read_lines(path)?.lines().enumerate() {
            let name = line.split('#').next().unwrap_or_default().trim();
            if !name.is_empty() {
                add(name, &format!("{}, line {}", path.display(), number + 1))?;
            }
        }
    }
    Ok(names)
}

fn read_lines(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(address: &str) -> PlantArguments {
        PlantArguments {
            mx: Some(address.parse().unwrap()),
            ..PlantArguments::default()
        }
    }

    fn error(given: &PlantArguments, file: &PlantTable) -> String {
        let failure =
            options(given, file, &FilePlace::default(), &TlsConnector::default()).unwrap_err();
        format!("{failure:?}")
    }

    #[test]
    fn a_plant_is_what_the_options_say_or_else_the_file() {
        assert!(
            options(
                &PlantArguments::default(),
                &PlantTable::default(),
                &FilePlace::default(),
                &TlsConnector::default()
            )
            .unwrap()
            .is_none()
        );
        let file = PlantTable {
            address: Some("127.0.0.1:1".to_owned()),
            tag: vec!["mx:A.B".to_owned()],
            bad_after: Some("2m".to_owned()),
            tags_max: Some(7),
            ..PlantTable::default()
        };
        let plant = options(
            &PlantArguments::default(),
            &file,
            &FilePlace::default(),
            &TlsConnector::default(),
        )
        .unwrap()
        .unwrap();
        assert_eq!(plant.tags, ["A.B"]);
        assert_eq!((plant.bad_after_ns, plant.tags_max), (120_000_000_000, 7));
        let given = PlantArguments {
            mx_tag: vec!["C.D".to_owned()],
            mx_bad_after: Some(Duration::from_secs(70)),
            ..arguments("127.0.0.1:2")
        };
        let plant = options(
            &given,
            &file,
            &FilePlace::default(),
            &TlsConnector::default(),
        )
        .unwrap()
        .unwrap();
        assert_eq!(plant.endpoint.to_string(), "127.0.0.1:2");
        assert_eq!(
            (plant.tags, plant.bad_after_ns),
            (vec!["C.D".to_owned()], 70_000_000_000)
        );
    }

    #[test]
    fn mistakes_are_named() {
        let file = PlantTable::default();
        assert!(error(&arguments("ipc:///tmp/x"), &file).contains("over TCP"));
        let given = PlantArguments {
            mx_tag: vec!["A.B".to_owned()],
            ..PlantArguments::default()
        };
        assert!(error(&given, &file).contains("--mx-tag needs --mx"));
        let tags = PlantTable {
            tag: vec!["A.B".to_owned()],
            ..PlantTable::default()
        };
        assert!(error(&PlantArguments::default(), &tags).contains("mx.tag needs mx.address"));
        let given = PlantArguments {
            mx_uncertain_after: Some(Duration::from_secs(200)),
            ..arguments("127.0.0.1:2")
        };
        assert!(error(&given, &file).contains("is longer than --mx-bad-after"));
        let given = PlantArguments {
            mx_tag: vec!["Tank1".to_owned()],
            ..arguments("127.0.0.1:2")
        };
        assert!(error(&given, &file).contains("'Tank1' is not a tag"));
        let given = PlantArguments {
            mx_tags: Some("/nowhere/tags".into()),
            ..arguments("127.0.0.1:2")
        };
        assert!(error(&given, &file).contains("cannot read /nowhere/tags"));
    }
}
