//! Making streams, and keeping their settings.
//!
//! A stream's settings are a promise on which hubs rely: two hubs never own a source at once
//! because entries of the bucket of leases live for a known time. Any client with the right can
//! change them while hubs run.

use std::time::Duration;

use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{Context, ErrorCode};
use tidewire_retry::Seldom;
use tracing::warn;

use crate::Answer;
use crate::requests::info;
use crate::settings::StreamSettings;

/// What was done for a stream to be as it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Nothing,
    Made,
    Changed,
}

/// Makes a stream, or changes it.
pub(crate) async fn make(context: &Context, settings: StreamSettings) -> Answer {
    match ensure(context, settings).await {
        Ok(_) => Answer::Made,
        Err(answer) => answer,
    }
}

/// Looks whether a stream has the right settings, and puts them right otherwise. Returns what was
/// wrong, also if it no longer is.
pub(crate) async fn keep(context: &Context, settings: StreamSettings) -> Option<Answer> {
    let name = settings.name.clone();
    let settings = StreamSettings {
        must_exist: true,
        ..settings
    };
    match ensure(context, settings).await {
        Ok(Done::Nothing) => None,
        Ok(Done::Made | Done::Changed) => {
            warn!(name, "a stream had other settings; they are right again");
            let text = format!("stream {name} had other settings; they are right again");
            Some(Answer::Failed(text))
        }
        Err(answer) => Some(answer),
    }
}

async fn ensure(context: &Context, settings: StreamSettings) -> Result<Done, Answer> {
    let config = configuration(&settings);
    // Another client may make it at the same time, with another first sequence.
    let mut is_repeated = false;
    loop {
        let found = match info(context, &settings.name).await {
            Ok(info) => Some(info.config),
            Err(Answer::NoStream) if settings.must_exist => return Err(Answer::NoStream),
            Err(Answer::NoStream) => None,
            // It may have the right to make the stream, and none to look at it.
            Err(_) if settings.keeps_existing => None,
            Err(answer) => return Err(answer),
        };
        if let Some(found) = &found
            && let Some(fault) = unusable(&settings, found)
        {
            return Err(Answer::Failed(fault));
        }
        if found.is_some() && settings.keeps_existing {
            // Without a change, and so without the right to change it.
            return Ok(Done::Nothing);
        }
        let (right, done, made) = match found {
            Some(found) => {
                let config = changed(&config, &found);
                if config == found {
                    // It may have no right to change it, and needs none.
                    return Ok(Done::Nothing);
                }
                let made = context.update_stream(config).await.map(drop);
                ("UPDATE", Done::Changed, made)
            }
            None => {
                let made = context.create_stream(config.clone()).await.map(drop);
                ("CREATE", Done::Made, made)
            }
        };
        match made {
            Ok(()) => return Ok(done),
            Err(error) if was_made_meanwhile(&error.kind()) && settings.keeps_existing => {
                return Ok(Done::Nothing);
            }
            Err(error) if !is_repeated && was_made_meanwhile(&error.kind()) => is_repeated = true,
            Err(error) => return Err(Answer::Failed(not_made(&settings.name, right, &error))),
        }
    }
}

/// Returns the settings of a stream that does not exist yet.
fn configuration(settings: &StreamSettings) -> Config {
    Config {
        name: settings.name.clone(),
        subjects: settings.subjects.clone(),
        num_replicas: settings.replicas,
        max_messages_per_subject: settings
            .per_subject_max
            .map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX)),
        max_age: settings.age_max,
        max_bytes: settings
            .bytes_max
            .map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
        max_messages: -1,
        max_consumers: -1,
        max_message_size: -1,
        discard: match settings.refuses_when_full {
            true => DiscardPolicy::New,
            false => DiscardPolicy::Old,
        },
        duplicate_window: repeated_within(settings),
        storage: match settings.in_memory {
            true => StorageType::Memory,
            false => StorageType::File,
        },
        allow_direct: true,
        // With it one message erases all others of the stream, also those of others.
        allow_rollup: false,
        first_sequence: settings.first_sequence.filter(|&first| first > 0),
        ..Config::default()
    }
}

/// Returns why a stream that exists cannot be used, and is not changed.
fn unusable(settings: &StreamSettings, found: &Config) -> Option<String> {
    let name = &settings.name;
    if found.sealed {
        return Some(format!(
            "stream {name} is sealed: it stores nothing more, and no one can change that"
        ));
    }
    let (wanted, has) = (&settings.subjects, &found.subjects);
    let is_other = match settings.keeps_existing {
        true => !wanted
            .iter()
            .all(|one| has.iter().any(|by| covers(by, one))),
        false => has.iter().any(|one| !is_beside(one, wanted)),
    };
    if settings.takes_its_name || !is_other {
        return None;
    }
    let (has, wanted) = (has.join(", "), wanted.join(", "));
    Some(format!(
        "stream {name} is in use for other subjects and stays as it is: it has {has}, and this \
         hub needs {wanted}; give one of them another name, or change the stream's subjects"
    ))
}

/// Whether a subject begins as one of these do, with two parts that name what they belong to.
fn is_beside(subject: &str, others: &[String]) -> bool {
    let begin = |subject: &str| {
        let mut parts = subject.split('.');
        (
            parts.next().map(str::to_owned),
            parts.next().map(str::to_owned),
        )
    };
    others.iter().any(|other| begin(other) == begin(subject))
}

/// Whether each subject of the pattern `inner` is one of the pattern `outer`.
fn covers(outer: &str, inner: &str) -> bool {
    let mut inner = inner.split('.');
    for part in outer.split('.') {
        match (part, inner.next()) {
            (_, None) => return false,
            (">", Some(_)) => return true,
            ("*", Some(other)) if other != ">" => {}
            (part, Some(other)) if part == other => {}
            _ => return false,
        }
    }
    inner.next().is_none()
}

/// Says why a stream is not as it must be. The servers do not answer a user without the right.
fn not_made(name: &str, right: &str, error: &CreateStreamError) -> String {
    let (what, asks) = match right {
        "UPDATE" => ("has other settings, which cannot be changed", "changing it"),
        _ => ("cannot be made", "making it"),
    };
    match error.kind() {
        CreateStreamErrorKind::TimedOut => format!(
            "stream {name} {what}: no answer; {asks} needs the right to publish to \
             $JS.API.STREAM.{right}.{name}"
        ),
        CreateStreamErrorKind::JetStreamUnavailable => error.to_string(),
        _ => format!("stream {name} {what}: {error}"),
    }
}

/// Returns the settings for a stream that exists: only what a hub relies on is changed. It keeps
/// its first sequence, and its copies if they are more: another client's messages rely on them.
fn changed(config: &Config, found: &Config) -> Config {
    let (name, copies) = (&config.name, found.num_replicas);
    if copies > config.num_replicas
        && let Some(left_out) = MORE_COPIES.note_now()
    {
        let wanted = config.num_replicas;
        warn!(
            name,
            copies, wanted, left_out, "a stream has more copies than this hub wants; it keeps them"
        );
    }
    if found.allow_rollup
        && let Some(left_out) = ROLLUPS.note_now()
    {
        warn!(
            name,
            left_out,
            "who may publish to a stream can erase all that others have stored there, with the \
             header Nats-Rollup; set the stream's allow_rollup_hdrs to false"
        );
    }
    // Of a stream without a limit it says nothing.
    let is_limited = config.max_bytes >= 0;
    let discard = match config.discard {
        DiscardPolicy::Old if !is_limited => found.discard,
        wanted => wanted,
    };
    // A stream that refuses what it has no room for loses nothing by an administrator's limit.
    let max_bytes = match config.discard {
        DiscardPolicy::New if !is_limited => found.max_bytes,
        _ => config.max_bytes,
    };
    Config {
        subjects: config.subjects.clone(),
        num_replicas: copies.max(config.num_replicas),
        max_messages_per_subject: config.max_messages_per_subject,
        max_age: config.max_age,
        max_bytes,
        max_messages: config.max_messages,
        max_message_size: config.max_message_size,
        discard,
        duplicate_window: config.duplicate_window,
        allow_direct: config.allow_direct,
        no_ack: false,
        retention: RetentionPolicy::Limits,
        subject_transform: None,
        ..found.clone()
    }
}

/// Limits the lines about copies: settings are looked at again and again.
static MORE_COPIES: Seldom = Seldom::new(5, 600);
/// The same for lines about streams that take rollups.
static ROLLUPS: Seldom = Seldom::new(5, 600);

fn was_made_meanwhile(kind: &CreateStreamErrorKind) -> bool {
    match kind {
        CreateStreamErrorKind::JetStream(error) => {
            error.error_code() == ErrorCode::STREAM_NAME_EXIST
        }
        _ => false,
    }
}

/// Returns how long ids are remembered: not longer than the messages, which the servers refuse.
fn repeated_within(settings: &StreamSettings) -> Duration {
    match settings.age_max.is_zero() {
        true => settings.repeated_within,
        false => settings.repeated_within.min(settings.age_max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hub whose file lacked `replicas` lowered the streams of all hubs to one copy.
    #[test]
    fn a_stream_keeps_its_copies_when_a_client_wants_fewer() {
        let with = |num_replicas, first_sequence| Config {
            num_replicas,
            first_sequence,
            ..Config::default()
        };
        let found = with(3, Some(7));
        assert_eq!(changed(&with(1, Some(9)), &found), found);
        assert_eq!(changed(&with(5, None), &found), with(5, Some(7)));
    }

    /// Settings that an administrator had made were taken back, or the servers refused that.
    #[test]
    fn a_stream_keeps_the_settings_on_which_no_hub_relies() {
        let wanted = Config {
            max_bytes: -1,
            discard: DiscardPolicy::Old,
            max_age: Duration::from_secs(3),
            ..Config::default()
        };
        let found = Config {
            description: Some("made by hand".to_owned()),
            discard: DiscardPolicy::New,
            deny_delete: true,
            allow_rollup: true,
            max_age: Duration::from_secs(9),
            ..wanted.clone()
        };
        let expected = Config {
            max_age: wanted.max_age,
            ..found.clone()
        };
        assert_eq!(changed(&wanted, &found), expected);
        let limited = Config {
            max_bytes: 1,
            ..wanted
        };
        assert_eq!(changed(&limited, &found).discard, DiscardPolicy::Old);
        let of_keys = |max_bytes| Config {
            max_bytes,
            discard: DiscardPolicy::New,
            ..Config::default()
        };
        assert_eq!(changed(&of_keys(-1), &of_keys(9_000)).max_bytes, 9_000);
    }

    fn of(name: &str, subject: &str) -> StreamSettings {
        StreamSettings {
            name: name.to_owned(),
            subjects: vec![subject.to_owned()],
            ..StreamSettings::default()
        }
    }

    fn with_subjects(subjects: &[&str]) -> Config {
        Config {
            subjects: subjects.iter().map(|&subject| subject.to_owned()).collect(),
            ..Config::default()
        }
    }

    /// The hub of another cluster, whose names made the same stream name, took it away for good.
    #[test]
    fn a_stream_that_has_subjects_of_another_cluster_is_not_changed() {
        let wanted = of("TW_d_LOG_x_LOG_y", "tw.d_LOG_x.log.y.>");
        let found = with_subjects(&["tw.d.log.x_LOG_y.>"]);
        let fault = unusable(&wanted, &found).unwrap();
        for named in [
            "TW_d_LOG_x_LOG_y",
            "tw.d_LOG_x.log.y.>",
            "tw.d.log.x_LOG_y.>",
        ] {
            assert!(fault.contains(named), "{fault}");
        }
        for subjects in [&["tw.d_LOG_x.log.y.>"][..], &["tw.d_LOG_x.log.z"], &[]] {
            assert_eq!(unusable(&wanted, &with_subjects(subjects)), None);
        }
        for subjects in [
            &["tw.d_LOG_x.log.y.>", "other"][..],
            &[">"],
            &["tw.*.log.y.>"],
        ] {
            assert!(unusable(&wanted, &with_subjects(subjects)).is_some());
        }
    }

    #[test]
    fn a_stream_that_stays_as_it_is_must_have_the_subjects() {
        let wanted = StreamSettings {
            keeps_existing: true,
            ..of("TW_desk_AUDIT", "tw.desk.audit.>")
        };
        for subject in ["tw.desk.audit.>", "tw.*.audit.>", "tw.desk.>", ">"] {
            assert_eq!(
                unusable(&wanted, &with_subjects(&[subject])),
                None,
                "{subject}"
            );
        }
        for subject in ["tw.desk.audit.*", "tw.d.audit.>", "tw.desk.audit", "*"] {
            assert!(
                unusable(&wanted, &with_subjects(&[subject])).is_some(),
                "{subject}"
            );
        }
    }

    /// Hubs that waited for a lease said only that NATS refused it.
    #[test]
    fn a_sealed_stream_is_named() {
        let found = Config {
            sealed: true,
            ..with_subjects(&["$KV.TW_desk.>"])
        };
        let age = Duration::from_secs(3);
        let wanted = StreamSettings::leases("KV_TW_desk".into(), "$KV.TW_desk.>".into(), age, 1);
        assert!(
            unusable(&wanted, &found)
                .unwrap()
                .contains("KV_TW_desk is sealed")
        );
        // The name of a bucket says what its subjects are: they are put right.
        assert_eq!(unusable(&wanted, &with_subjects(&["$KV.other.>"])), None);
    }

    #[test]
    fn what_keeps_messages_out_of_a_stream_is_taken_back() {
        let wanted = Config::default();
        let found = Config {
            no_ack: true,
            retention: RetentionPolicy::Interest,
            ..wanted.clone()
        };
        assert_eq!(changed(&wanted, &found), wanted);
    }
}
