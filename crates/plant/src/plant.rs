//! The plant state shared by all lanes: the `mx:` mount.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tidewire_fanout::{ChangedNames, HubWrites, Matches, Post, Topic, TopicSource, lane_bits};
use tidewire_keyspace::{Bare, Mount, MountChange, MountWrite, MountWriter};
use tidewire_lane::{Endpoint, MailSender, TlsConnector, unix_ns};
use tidewire_resp::Writer;

use crate::name_requests::NameRequests;
use crate::tags::{TagBoard, value_of};
use crate::text;
use crate::writing::{UNBLOCKED, Waiter, WriteRequest};

/// Prefix of plant tags among the keys.
pub const PLANT_PREFIX: &[u8] = b"mx:";

/// Settings of the connection to a plant.
#[derive(Clone, Debug)]
pub struct PlantOptions {
    /// Address of the plant.
    pub endpoint: Endpoint,
    /// If the plant is reached by TLS: what that is made with, and the name that the certificate
    /// must have.
    pub tls: Option<(TlsConnector, String)>,
    /// Tags that are advised from the start. Others are advised once a client requests them.
    pub tags: Vec<String>,
    /// Maximum number of tags.
    pub tags_max: usize,
    /// Time without a change after which a tag is uncertain; 0 for never.
    pub uncertain_after_ns: u64,
    /// Time without a change after which a tag is bad; 0 for never.
    pub bad_after_ns: u64,
    /// Timeout of a write's completion.
    pub write_timeout_ns: u64,
}

impl PlantOptions {
    /// Returns the default settings for a plant at `endpoint`.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            tls: None,
            tags: Vec::new(),
            tags_max: 1 << 20,
            uncertain_after_ns: 60_000_000_000,
            bad_after_ns: 180_000_000_000,
            write_timeout_ns: 10_000_000_000,
        }
    }
}

/// A plant, shared by all lanes.
#[derive(Debug)]
pub struct Plant {
    /// The settings.
    pub options: PlantOptions,
    /// The tags.
    pub board: TagBoard,
    /// The link's counters.
    pub counters: PlantCounters,
    pub(crate) asked: NameRequests,
    /// Names of tags that have changed, if other hubs are told.
    pub(crate) shared: OnceLock<Arc<ChangedNames>>,
    /// Where ends of other hubs' writes go, if it takes some.
    pub(crate) hub_writes: OnceLock<Arc<HubWrites>>,
    /// The lane that owns the link.
    lane: usize,
    pub(crate) post: Arc<Post>,
    pub(crate) mail: MailSender<PlantMail>,
}

/// Mail between lanes about a plant.
#[derive(Debug)]
pub enum PlantMail {
    /// Clients have requested names that the plant was not asked for yet.
    Asked,
    /// A client writes to a tag.
    Write(Box<WriteRequest>),
    /// The result of a client's write, with the client's error if there is one.
    Written(MountWriter, Result<(), String>),
}

/// Counters of the link since the start, and its state.
#[derive(Debug, Default)]
pub struct PlantCounters {
    /// Whether the plant has accepted the hub.
    pub connected: AtomicBool,
    /// Links established.
    pub links: AtomicU64,
    /// Changes received from the plant.
    pub updates: AtomicU64,
    /// Changes of quality by the hub itself: silent tags, and a lost link.
    pub stale_marks: AtomicU64,
    /// Tags advised again because they were silent.
    pub refreshes: AtomicU64,
    /// Names that the plant has refused.
    pub refused_names: AtomicU64,
    /// Messages, and parts of them, that could not be decoded.
    pub unreadable: AtomicU64,
    /// Tags whose values are arriving.
    pub live_tags: AtomicU64,
    /// Writes that the plant accepted.
    pub writes_ok: AtomicU64,
    /// Writes that the plant refused.
    pub writes_refused: AtomicU64,
    /// Writes with an unknown result.
    pub writes_unknown: AtomicU64,
    /// Writes that were not sent: no link, no such tag, or a value of another type.
    pub writes_not_sent: AtomicU64,
    /// Pending writes.
    pub writes_waiting: AtomicU64,
}

impl Plant {
    /// Creates a plant that publishes through `post`.
    pub fn new(options: PlantOptions, post: Arc<Post>, mail: MailSender<PlantMail>) -> Self {
        assert!(mail.lanes() > 0, "the link is on the last lane");
        Self {
            board: TagBoard::new(options.tags_max, lane_bits(mail.lanes())),
            counters: PlantCounters::default(),
            shared: OnceLock::new(),
            hub_writes: OnceLock::new(),
            asked: NameRequests::new(options.tags_max.min(ASKED_MAX)),
            // The last lane, because the first one has the most other work.
            lane: mail.lanes() - 1,
            post,
            mail,
            options,
        }
    }

    /// Returns the lane that owns the link.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// Has the link write to a tag; the writer hears of the end.
    pub(crate) fn send_write(&self, writer: Waiter, name: &str, value: &[u8]) {
        let request = WriteRequest {
            writer,
            name: name.into(),
            text: value.to_vec(),
        };
        let mail = PlantMail::Write(Box::new(request));
        self.mail.send(self.lane, mail);
    }

    /// Notes that a client wants a tag that is not on the board. The link requests it from the
    /// plant, unless the name is invalid or was requested before.
    pub(crate) fn want(&self, name: &str) {
        if is_name(name) && self.asked.add(name, unix_ns()) {
            self.mail.send(self.lane, PlantMail::Asked);
        }
    }

    /// Does the same as [`Plant::want`] for a channel name; nothing for a name without the
    /// prefix.
    fn want_channel(&self, channel: &[u8]) {
        if let Some(name) = name_of(channel)
            && self.board.find(name).is_none()
        {
            self.want(name);
        }
    }

    /// Handles a ZeroMQ subscription to a prefix. If the board has no name with this prefix, the
    /// prefix may be the name of one tag.
    fn want_prefix(&self, prefix: &[u8]) {
        let Some(name) = name_of(prefix).filter(|name| is_name(name)) else {
            return;
        };
        if !self.board.has_names_with(name) {
            self.want(name);
        }
    }
}

impl TopicSource for Plant {
    fn topic(&self, number: u32) -> Option<Arc<dyn Topic>> {
        Some(self.board.tag(number)?)
    }

    fn find(&self, channel: &[u8]) -> Option<Arc<dyn Topic>> {
        Some(self.board.find_channel(channel)?)
    }

    fn prefix(&self) -> &[u8] {
        PLANT_PREFIX
    }

    fn count(&self) -> u32 {
        self.board.len() as u32
    }

    fn matching(
        &self,
        numbers: Range<u32>,
        wanted: Matches<'_>,
        _asks: Matches<'_>,
        found: &mut Vec<Arc<dyn Topic>>,
    ) {
        self.board.with_tags(numbers, |tags| {
            let wanted = tags.iter().filter(|tag| wanted(&tag.channel));
            found.extend(wanted.map(|tag| tag.clone() as Arc<_>));
        });
    }

    fn write(&self, number: u32, snapshot: bool, out: &mut Vec<u8>) -> Option<u64> {
        let tag = self.board.tag(number)?;
        let state = tag.state();
        if state.updates == 0 {
            return None;
        }
        text::write_json(out, &tag, &state, snapshot);
        Some(state.updates)
    }

    fn want(&self, name: &[u8], is_prefix: bool) {
        match is_prefix {
            true => self.want_prefix(name),
            false => self.want_channel(name),
        }
    }
}

impl Mount for Plant {
    fn prefix(&self) -> &[u8] {
        PLANT_PREFIX
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.board.find_channel(key).is_some()
    }

    fn read(&self, key: &[u8], fields: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let Some(tag) = self.board.find_channel(key) else {
            self.want_channel(key);
            return false;
        };
        text::write_fields(&tag, &tag.state(), fields);
        true
    }

    fn version(&self, key: &[u8]) -> u64 {
        let tag = self.board.find_channel(key);
        tag.map_or(0, |tag| tag.state().updates + 1)
    }

    fn bare(&self, key: &[u8], out: &mut Vec<u8>) -> Bare {
        let Some(tag) = self.board.find_channel(key) else {
            self.want_channel(key);
            return Bare::Missing;
        };
        let state = tag.state();
        match value_of(&state) {
            tidewire_mx::value::Value::None => Bare::Missing,
            value if text::write_bare(out, &value) => Bare::Text,
            _ => Bare::Other,
        }
    }

    fn reply_elements(&self, key: &[u8], reply: &mut Writer<'_>) -> bool {
        let Some(tag) = self.board.find_channel(key) else {
            return false;
        };
        let state = tag.state();
        text::reply_elements(reply, &value_of(&state))
    }

    fn len(&self) -> usize {
        self.board.len()
    }

    fn name(&self, position: usize, out: &mut Vec<u8>) -> bool {
        self.board.channel(position, out)
    }

    fn write(&self, write: &MountWrite<'_>) -> Option<&'static str> {
        let name = name_of(write.key)?;
        let MountChange::Value(value) = write.change else {
            return None;
        };
        if value.len() > VALUE_BYTES_MAX {
            return None;
        }
        self.send_write(Waiter::Client(write.writer), name, value);
        Some(UNBLOCKED)
    }

    fn write_error(&self, _: &[u8]) -> Cow<'static, str> {
        WRITE_ERROR.into()
    }
}

/// The error of every write except a plain SET.
pub(crate) const WRITE_ERROR: &str = "READONLY 'mx:' keys are plant tags: a plain SET writes one to the plant, without options, \
     outside of MULTI and scripts";

/// Returns the tag name of a channel or key.
pub(crate) fn name_of(channel: &[u8]) -> Option<&str> {
    let name = channel.strip_prefix(PLANT_PREFIX)?;
    std::str::from_utf8(name).ok()
}

/// Returns whether a plant may have a tag of this name: an object and an attribute.
pub(crate) fn is_name(name: &str) -> bool {
    let parts = name.split_once('.');
    parts.is_some_and(|(object, attribute)| !object.is_empty() && !attribute.is_empty())
        && name.len() <= NAME_BYTES_MAX
        && !name
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || c == '*' || c == '?')
}

/// Maximum bytes of a value's text; longer than any message that could carry it.
const VALUE_BYTES_MAX: usize = 64 << 20;
/// Maximum names requested and not yet answered by the plant.
const ASKED_MAX: usize = 65_536;
/// Maximum bytes of a tag name in UTF-8.
pub const NAME_BYTES_MAX: usize = 512;

impl PlantCounters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_an_object_and_an_attribute() {
        for name in ["Tank1.Level", "Tank1.Trend[]", "a.b.c", "Größe.Ω"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "Tank1", ".Level", "Tank1.", "Tank1.*", "a b.c", "a.\n"] {
            assert!(!is_name(name), "{name}");
        }
        assert!(!is_name(&format!("a.{}", "b".repeat(NAME_BYTES_MAX))));
        assert_eq!(name_of(b"mx:A.B"), Some("A.B"));
        assert_eq!(name_of(b"md:A.B"), None);
    }
}
