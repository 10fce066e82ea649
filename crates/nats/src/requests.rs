//! Requests to JetStream, and what comes of them.

use std::time::Duration;

use async_nats::client::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Info, InfoError, RawMessageErrorKind, State};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, HeaderMap, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt;

use crate::replies::{Expected, Replies, was_passed_on};
use crate::{Answer, Asking, Entry, Expectation, Extent, Fetching, Part, Purging, Storing};

/// The header by which a publisher says what a stream's last sequence is.
pub(crate) const EXPECTED_LAST_SEQUENCE: &str = "Nats-Expected-Last-Sequence";
const EXPECTED_LAST_SUBJECT_SEQUENCE: &str = "Nats-Expected-Last-Subject-Sequence";
/// An id by which a stream finds repeated messages.
const MESSAGE_ID: &str = "Nats-Msg-Id";
/// What a message of a bucket does to its key.
const KEY_OPERATION: &str = "KV-Operation";
/// Why the server itself has put a deletion into a bucket, such as the end of an entry's time.
const MARKER_REASON: &str = "Nats-Marker-Reason";
/// The server's answer after the last message of a batch.
const END_OF_BATCH: u16 = 204;

/// Sends a message to be stored. Returns what waits for the acknowledgement.
pub(crate) async fn begin_store(
    client: &Client,
    replies: &Replies,
    storing: Storing,
) -> Result<Expected, Answer> {
    let mut headers = HeaderMap::new();
    if storing.is_deletion {
        headers.insert(KEY_OPERATION, "DEL");
    }
    if !storing.id.is_empty() {
        headers.insert(MESSAGE_ID, storing.id);
    }
    match storing.expectation {
        Expectation::None => {}
        Expectation::Stream(last) => headers.insert(EXPECTED_LAST_SEQUENCE, last.to_string()),
        Expectation::Subject(last) => {
            headers.insert(EXPECTED_LAST_SUBJECT_SEQUENCE, last.to_string());
        }
    }
    let expected = replies.expect_of(storing.stream);
    let (reply, expected) = expected.ok_or_else(too_many)?;
    let (subject, payload) = (storing.subject, storing.payload);
    let sent = match headers.is_empty() {
        true => client.publish_with_reply(subject, reply, payload).await,
        false => {
            let sent = client.publish_with_reply_and_headers(subject, reply, headers, payload);
            sent.await
        }
    };
    sent.map_err(|error| not_sent(client, &error))?;
    Ok(expected)
}

/// Returns what came of a message to be stored.
pub(crate) fn stored(reply: Option<async_nats::Message>) -> Answer {
    let Some(message) = reply else {
        return Answer::TimedOut;
    };
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return Answer::NoStream;
    }
    match serde_json::from_slice::<Response<PublishAck>>(&message.payload) {
        Ok(Response::Ok(acknowledgement)) => Answer::Stored {
            sequence: acknowledgement.sequence,
            is_repeated: acknowledgement.duplicate,
        },
        Ok(Response::Err { error }) => match error.error_code() {
            ErrorCode::STREAM_WRONG_LAST_SEQUENCE => Answer::Refused,
            _ => Answer::Failed(error.to_string()),
        },
        Err(error) => Answer::Failed(error.to_string()),
    }
}

fn too_many() -> Answer {
    Answer::Failed("too many answers are awaited".to_owned())
}

fn not_sent(client: &Client, error: &PublishError) -> Answer {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => Answer::TooLarge {
            payload_max: client.max_payload(),
        },
        _ => Answer::Failed(error.to_string()),
    }
}

/// Sends a request to another client. Returns what waits for the reply, and how long.
pub(crate) async fn begin_ask(
    client: &Client,
    replies: &Replies,
    asking: Asking,
) -> Result<(Expected, Duration), Answer> {
    let expected = replies.expect(asking.reply.clone());
    let expected = expected.ok_or_else(too_many)?;
    let sent = client.publish_with_reply(asking.subject, asking.reply, asking.payload);
    sent.await.map_err(|error| not_sent(client, &error))?;
    Ok((expected, asking.timeout))
}

/// Returns what came of a request.
pub(crate) fn replied(reply: Option<async_nats::Message>) -> Answer {
    match reply {
        None => Answer::TimedOut,
        Some(message) if message.status == Some(StatusCode::NO_RESPONDERS) => Answer::NotHeard,
        Some(message) => Answer::Reply(message.payload),
    }
}

/// Removes messages.
pub(crate) async fn purge(context: &Context, purging: Purging) -> Answer {
    let stream = match context.get_stream_no_info(&purging.stream).await {
        Ok(stream) => stream,
        Err(error) => return Answer::Failed(error.to_string()),
    };
    let mut purge = stream.purge();
    if !purging.subject.is_empty() {
        purge = purge.filter(purging.subject);
    }
    let purged = match purging.part {
        Part::All => purge.await,
        Part::Before(sequence) => purge.sequence(sequence).await,
        Part::AllBut(count) => purge.keep(count).await,
    };
    match purged {
        Ok(_) => Answer::Made,
        Err(error) => Answer::Failed(error.to_string()),
    }
}

/// Asks a stream's leader for the newest message, of one subject or of all.
pub(crate) async fn newest(context: &Context, stream: &str, subject: Option<String>) -> Answer {
    let stream = match context.get_stream_no_info(stream).await {
        Ok(stream) => stream,
        Err(error) => return Answer::Failed(error.to_string()),
    };
    let message = match subject {
        Some(subject) => {
            let found = stream.get_last_raw_message_by_subject(&subject).await;
            if let Err(error) = &found
                && let RawMessageErrorKind::JetStream(error) = error.kind()
                && error.error_code() == ErrorCode::STREAM_NOT_FOUND
            {
                return Answer::NoStream;
            }
            found.map_err(|error| (is_absent(error.to_string().as_str()), error.to_string()))
        }
        None => match stream.get_info().await {
            Ok(info) => {
                let last_sequence = info.state.last_sequence;
                if info.state.messages == 0 {
                    return Answer::NoMessage { last_sequence };
                }
                let found = stream.get_raw_message(last_sequence).await;
                if let Err(error) = &found
                    && matches!(error.kind(), RawMessageErrorKind::NoMessageFound)
                {
                    return Answer::NoMessage { last_sequence };
                }
                found.map_err(|error| (false, error.to_string()))
            }
            Err(error) => return no_info(&error),
        },
    };
    match message {
        Ok(message) => Answer::Newest(Some(entry(message, false))),
        Err((true, _)) => Answer::Newest(None),
        Err((false, error)) => Answer::Failed(error),
    }
}

/// Asks a stream's leader how many messages it has, of one subject or of all.
pub(crate) async fn count(context: &Context, stream: &str, subject: Option<String>) -> Answer {
    let Some(subject) = subject else {
        return match info(context, stream).await {
            Ok(info) => Answer::Count(info.state.messages),
            Err(answer) => answer,
        };
    };
    let stream = match context.get_stream_no_info(stream).await {
        Ok(stream) => stream,
        Err(error) => return Answer::Failed(error.to_string()),
    };
    let mut subjects = match stream.info_with_subjects(subject).await {
        Ok(subjects) => subjects,
        Err(error) => return no_info(&error),
    };
    let mut sum = 0;
    while let Some(next) = subjects.next().await {
        match next {
            Ok((_, count)) => sum += count as u64,
            Err(error) => return no_info(&error),
        }
    }
    Answer::Count(sum)
}

/// Asks a stream's leader what it has.
pub(crate) async fn extent(context: &Context, name: &str) -> Answer {
    let mut info = match info(context, name).await {
        Ok(info) => info,
        Err(answer) => return answer,
    };
    if has_holes(&info.state) {
        let stream = match context.get_stream_no_info(name).await {
            Ok(stream) => stream,
            Err(error) => return Answer::Failed(error.to_string()),
        };
        info = match stream.info_builder().with_deleted(true).fetch().await {
            Ok(details) => details.info,
            Err(error) => return no_info(&error),
        };
    }
    let age = info.state.last_timestamp - info.created;
    Answer::Extent(Extent {
        origin: info.config.first_sequence.unwrap_or(1).max(1),
        missing: last_missing(&info.state),
        last: info.state.last_sequence,
        age_ms: u64::try_from(age.whole_milliseconds()).unwrap_or(0),
    })
}

/// Whether messages between the first and the last are missing.
fn has_holes(state: &State) -> bool {
    let span = state.last_sequence.saturating_add(1);
    state.messages > 0 && state.messages < span.saturating_sub(state.first_sequence)
}

/// Returns the last sequence that is missing.
fn last_missing(state: &State) -> u64 {
    if state.messages == 0 {
        return state.last_sequence;
    }
    let before = state.first_sequence.saturating_sub(1);
    if !has_holes(state) {
        return before;
    }
    let span = state.last_sequence.saturating_add(1) - state.first_sequence;
    match &state.deleted {
        Some(deleted) if deleted.len() as u64 == span - state.messages => {
            deleted.iter().copied().fold(before, u64::max)
        }
        // Which they are is not told.
        _ => state.last_sequence,
    }
}

pub(crate) async fn info(context: &Context, stream: &str) -> Result<Info, Answer> {
    match context.get_stream_no_info(stream).await {
        Ok(stream) => stream.get_info().await.map_err(|error| no_info(&error)),
        Err(error) => Err(Answer::Failed(error.to_string())),
    }
}

fn no_info(error: &InfoError) -> Answer {
    let cause = std::error::Error::source(error);
    let told = cause.and_then(|cause| cause.downcast_ref::<jetstream::Error>());
    match told.map(jetstream::Error::error_code) {
        Some(ErrorCode::STREAM_NOT_FOUND) => Answer::NoStream,
        _ => Answer::Failed(error.to_string()),
    }
}

fn is_absent(words: &str) -> bool {
    words.contains("no message found")
}

/// Returns a message of a stream, as its leader has it or, with headers about itself, as a copy
/// sends it.
fn entry(message: StreamMessage, is_of_copy: bool) -> Entry {
    let is_sent = !was_passed_on(&message.headers, is_of_copy);
    Entry {
        subject: message.subject.into_string(),
        sequence: message.sequence,
        is_deletion: is_sent && deletes(&message.headers),
        is_fenced: is_sent && message.headers.get(EXPECTED_LAST_SEQUENCE).is_some(),
        payload: match is_sent {
            true => message.payload,
            false => Bytes::new(),
        },
    }
}

fn deletes(headers: &HeaderMap) -> bool {
    headers.get(KEY_OPERATION).is_some() || headers.get(MARKER_REASON).is_some()
}

/// Returns the request for the newest message of each subject.
pub(crate) fn newest_of_each(subjects: &[String]) -> String {
    let mut text = String::from("{\"batch\":1024,\"multi_last\":[");
    for (number, subject) in subjects.iter().enumerate() {
        if number > 0 {
            text.push(',');
        }
        push_quoted(&mut text, subject);
    }
    text.push_str("]}");
    text
}

/// Returns the request for messages behind a sequence.
pub(crate) fn fetch(fetching: &Fetching) -> String {
    let after = fetching.after.saturating_add(1);
    let (count, bytes) = (fetching.count_max, fetching.bytes_max);
    let mut text = format!("{{\"seq\":{after},\"batch\":{count},\"max_bytes\":{bytes},");
    text.push_str("\"next_by_subj\":");
    push_quoted(&mut text, &fetching.subject);
    text.push('}');
    text
}

/// Appends a subject as a string of JSON. Subjects are visible ASCII, so two characters need care.
fn push_quoted(text: &mut String, subject: &str) {
    text.push('"');
    for character in subject.chars() {
        if matches!(character, '"' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push('"');
}

/// Asks any copy of a stream for a batch of messages.
pub(crate) async fn batch(
    client: &Client,
    subject: String,
    request: String,
    timeout: Duration,
) -> Answer {
    let inbox = client.new_inbox();
    let mut subscription = match client.subscribe(inbox.clone()).await {
        Ok(subscription) => subscription,
        Err(error) => return Answer::Failed(error.to_string()),
    };
    let sent = client.publish_with_reply(subject, inbox, request.into());
    if let Err(error) = sent.await {
        return Answer::Failed(error.to_string());
    }
    let mut entries = Vec::new();
    loop {
        let message = match tokio::time::timeout(timeout, subscription.next()).await {
            Ok(Some(message)) => message,
            // What has come is as good as a shorter batch.
            _ if !entries.is_empty() => return Answer::Entries(entries),
            _ => return Answer::TimedOut,
        };
        match message.status {
            Some(StatusCode::NOT_FOUND) => return Answer::Entries(entries),
            Some(StatusCode::NO_RESPONDERS) => return Answer::NoStream,
            Some(status) if status.as_u16() == END_OF_BATCH => return Answer::Entries(entries),
            Some(status) if message.payload.is_empty() && status != StatusCode::OK => {
                let words = message.description.unwrap_or_default();
                return Answer::Failed(format!("{status} {words}"));
            }
            _ => {}
        }
        match StreamMessage::try_from(message) {
            Ok(message) => entries.push(entry(message, true)),
            Err(error) => return Answer::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_json_that_the_servers_read() {
        let fetching = Fetching {
            stream: "LOG".to_owned(),
            subject: "tw.a.log.\"x\".*".to_owned(),
            after: 41,
            count_max: 64,
            bytes_max: 1_000,
        };
        assert_eq!(
            fetch(&fetching),
            r#"{"seq":42,"batch":64,"max_bytes":1000,"next_by_subj":"tw.a.log.\"x\".*"}"#
        );
        let subjects = ["a.1".to_owned(), "a.2".to_owned()];
        assert_eq!(
            newest_of_each(&subjects),
            r#"{"batch":1024,"multi_last":["a.1","a.2"]}"#
        );
    }
}
