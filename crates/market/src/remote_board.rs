//! Topics of other hubs beyond market data, as clients of this hub see them.
//!
//! The thread of the cluster writes; every lane reads. A name is put here, and taken away, only
//! under the lock of its shard, so that it is either a key of this hub or a topic of another one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};
use tidewire_cluster::writes::{NAME_LENGTH_MAX, VALUE_LENGTH_MAX};
use tidewire_fanout::{AskedWrite, GONE, HubWrites, SharedKeys, TagView, WriteAction};
use tidewire_keyspace::{Bare, Mount, MountChange, MountPush, MountWrite, Pushed, glob};
use tidewire_resp::Writer;

/// A hub whose topics are received.
#[derive(Debug)]
pub struct RemoteHub {
    /// Its name in the cluster.
    pub name: Box<str>,
    /// Whether it is not heard, or has ended.
    pub is_stale: AtomicBool,
    /// Whether its topics are those of a reign that is over, and those of the next one have not
    /// all come.
    pub is_doubtful: AtomicBool,
}

impl RemoteHub {
    /// Returns 1 if the hub is not heard, 2 if its topics are in doubt, 0 otherwise.
    pub fn staleness(&self) -> u8 {
        // A hub that is heard again is in doubt before.
        match self.is_stale.load(Ordering::Acquire) {
            true => 1,
            false if self.is_doubtful.load(Ordering::Acquire) => 2,
            false => 0,
        }
    }
}

/// A topic of another hub.
#[derive(Debug)]
pub struct RemoteTopic {
    /// The hub.
    pub hub: Arc<RemoteHub>,
    /// The value, as its subscribers get it.
    pub value: Arc<[u8]>,
    /// The plant tag that it is, if it is one.
    pub tag: Option<Arc<dyn TagView>>,
    /// Time of the change at the hub, nanoseconds since the UNIX epoch.
    pub time_ns: u64,
    /// When it came, nanoseconds since the UNIX epoch.
    pub receive_time_ns: u64,
    /// Sequence in the hub's stream.
    pub sequence: u64,
}

impl RemoteTopic {
    /// Returns whether its hub is not heard, has ended, or has not said yet what it has now.
    pub fn is_lost(&self) -> bool {
        self.hub.staleness() != 0
    }
}

/// The topics of other hubs, by the prefixes of their names.
#[derive(Debug)]
pub struct RemoteBoard {
    shelves: Vec<Arc<Shelf>>,
    keys: OnceLock<Weak<dyn SharedKeys>>,
    writes: OnceLock<Arc<HubWrites>>,
    versions: AtomicU64,
    lines: Mutex<Vec<(String, String)>>,
    /// Patterns of the names that this hub shares itself; unset if no name is reserved.
    shared: OnceLock<Vec<Vec<u8>>>,
    /// Whether the topics of the hubs that are heard have come once.
    is_joined: AtomicBool,
}

/// A prefix of names, and the mount that this hub has under it.
pub type SharedPrefix = (Vec<u8>, Option<Arc<dyn Mount>>);

/// The topics with one prefix.
#[derive(Debug)]
struct Shelf {
    prefix: Box<[u8]>,
    places: RwLock<Places>,
    /// The mount that has this prefix at this hub: its topics come before those of other hubs.
    own: Option<Arc<dyn Mount>>,
    /// Whether the prefix is that of plant tags, and this hub has no plant.
    is_of_tags: bool,
}

#[derive(Debug, Default)]
struct Places {
    numbers: HashMap<Arc<[u8]>, u32, RandomState>,
    topics: Vec<Option<Place>>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Place {
    name: Arc<[u8]>,
    topic: Arc<RemoteTopic>,
    version: u64,
}

impl RemoteBoard {
    /// Creates a board for names with these prefixes; beside each the mount that this hub has under
    /// it, if there is one.
    pub fn new(prefixes: Vec<SharedPrefix>) -> Arc<Self> {
        let shelf = |(prefix, own): SharedPrefix| {
            Arc::new(Shelf {
                is_of_tags: prefix == TAG_PREFIX && own.is_none(),
                prefix: prefix.into(),
                places: RwLock::default(),
                own,
            })
        };
        let prefixes = prefixes.into_iter();
        Arc::new(Self {
            shelves: prefixes
                .filter(|(prefix, _)| !prefix.is_empty())
                .map(shelf)
                .collect(),
            keys: OnceLock::new(),
            writes: OnceLock::new(),
            versions: AtomicU64::new(0),
            lines: Mutex::default(),
            shared: OnceLock::new(),
            is_joined: AtomicBool::new(false),
        })
    }

    /// Reserves names for topics of other hubs. A plant tag is never a key of a hub without a
    /// plant. Another name becomes no key until [`RemoteBoard::set_joined`], unless it matches
    /// one of the patterns that this hub shares itself.
    pub fn reserve(&self, shared: &[String]) {
        let shared = shared.iter().map(|pattern| pattern.as_bytes().to_vec());
        let _ = self.shared.set(shared.collect());
    }

    /// The topics of the hubs that are heard have come.
    pub fn set_joined(&self) {
        self.is_joined.store(true, Ordering::Release);
    }

    /// Returns whether the topics of the hubs that are heard have come once since the start.
    pub fn is_joined(&self) -> bool {
        self.is_joined.load(Ordering::Acquire)
    }

    /// Sets the keys of this hub: while they are loaded, or those of a master, the board is closed.
    /// Writes to its topics go to `writes`.
    pub fn join(&self, keys: Weak<dyn SharedKeys>, writes: Arc<HubWrites>) {
        let _ = self.keys.set(keys);
        let _ = self.writes.set(writes);
    }

    /// Returns the mounts that show its topics among the keys.
    pub fn mounts(self: &Arc<Self>) -> impl Iterator<Item = Arc<dyn Mount>> {
        let mount = |shelf: &Arc<Shelf>| {
            Arc::new(RemoteMount {
                board: self.clone(),
                shelf: shelf.clone(),
            }) as Arc<dyn Mount>
        };
        self.shelves.iter().map(mount)
    }

    /// Returns whether a topic of this name can be shown.
    pub fn takes(&self, name: &[u8]) -> bool {
        self.shelf(name).is_some()
    }

    /// Shows a topic, or none under this name. The name's shard is locked. Returns whether there is
    /// a topic now, or was one.
    pub fn put(&self, name: &Arc<[u8]>, topic: Option<Arc<RemoteTopic>>) -> bool {
        let Some(shelf) = self.shelf(name) else {
            return false;
        };
        let mut places = shelf.places.write();
        let known = places.numbers.get(name).copied();
        let Some(topic) = topic else {
            if let Some(number) = known {
                places.numbers.remove(name);
                places.topics[number as usize] = None;
                places.free.push(number);
            }
            return known.is_some();
        };
        let place = Place {
            name: name.clone(),
            topic,
            version: self.versions.fetch_add(1, Ordering::Relaxed) + 1,
        };
        let number = known.or_else(|| places.free.pop()).unwrap_or_else(|| {
            places.topics.push(None);
            places.topics.len() as u32 - 1
        });
        places.topics[number as usize] = Some(place);
        places.numbers.insert(name.clone(), number);
        true
    }

    /// Returns the topic that is shown under a name.
    pub fn topic(&self, name: &[u8]) -> Option<Arc<RemoteTopic>> {
        Some(self.shelf(name)?.place(name)?.topic)
    }

    /// Sets the lines that INFO shows.
    pub fn show(&self, lines: Vec<(String, String)>) {
        *self.lines.lock() = lines;
    }

    /// Returns the lines that INFO shows.
    pub fn lines(&self) -> Vec<(String, String)> {
        self.lines.lock().clone()
    }

    fn shelf(&self, name: &[u8]) -> Option<&Arc<Shelf>> {
        let mut shelves = self.shelves.iter();
        shelves.find(|shelf| name.starts_with(&shelf.prefix))
    }

    fn is_open(&self) -> bool {
        let keys = self.keys.get().and_then(Weak::upgrade);
        keys.is_some_and(|keys| keys.is_open())
    }
}

impl Shelf {
    fn place(&self, name: &[u8]) -> Option<Place> {
        let places = self.places.read();
        let number = *places.numbers.get(name)?;
        places.topics.get(number as usize)?.clone()
    }
}

/// The topics of one prefix among the keys.
#[derive(Debug)]
struct RemoteMount {
    board: Arc<RemoteBoard>,
    shelf: Arc<Shelf>,
}

impl RemoteMount {
    /// Returns the topic that a name is, unless this hub has its own.
    fn find(&self, key: &[u8]) -> Option<Place> {
        let place = self.shelf.place(key)?;
        let is_own = self.shelf.own.as_ref().is_some_and(|own| own.contains(key));
        (!is_own && self.board.is_open()).then_some(place)
    }
}

impl Mount for RemoteMount {
    fn prefix(&self) -> &[u8] {
        &self.shelf.prefix
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn tells_changes(&self) -> bool {
        // A topic that the hub's own mount has under a name hides that of another hub untold.
        self.shelf.own.is_none()
    }

    fn claims(&self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    fn is_reserved(&self, key: &[u8]) -> bool {
        let board = &self.board;
        let Some(shared) = board.shared.get() else {
            return false;
        };
        let is_shared = || shared.iter().any(|pattern| glob::matches(pattern, key));
        let is_reserved = self.shelf.is_of_tags || !board.is_joined() && !is_shared();
        is_reserved && board.is_open()
    }

    fn publish(&self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(place) = self.find(key) else {
            return false;
        };
        if let Some(tag) = &place.topic.tag {
            tag.json(place.topic.is_lost(), out);
            return true;
        }
        let value = &place.topic.value;
        out.extend_from_slice(value);
        let rest = value.strip_prefix(GONE);
        if rest.is_some_and(|rest| rest.iter().all(|&byte| byte == b' ')) {
            // As for an own key: no value is taken for a removal.
            out.push(b' ');
        }
        true
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.claims(key)
    }

    fn read(&self, key: &[u8], fields: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let Some(Place { topic, .. }) = self.find(key) else {
            return false;
        };
        if let Some(tag) = &topic.tag {
            tag.fields(topic.is_lost(), fields);
            fields(b"hub", topic.hub.name.as_bytes());
            return true;
        }
        let mut number = itoa::Buffer::new();
        fields(b"value", &topic.value);
        fields(b"hub", topic.hub.name.as_bytes());
        fields(b"seq", number.format(topic.sequence).as_bytes());
        fields(b"ts", number.format(topic.time_ns).as_bytes());
        fields(b"recv_ts", number.format(topic.receive_time_ns).as_bytes());
        let stale: &[u8] = match topic.hub.staleness() {
            0 => b"0",
            1 => b"1",
            _ => b"2",
        };
        fields(b"stale", stale);
        true
    }

    fn bare(&self, key: &[u8], out: &mut Vec<u8>) -> Bare {
        let Some(place) = self.find(key) else {
            return Bare::Missing;
        };
        match &place.topic.tag {
            None => out.extend_from_slice(&place.topic.value),
            Some(tag) if tag.bare(out) => {}
            Some(_) => return Bare::Other,
        }
        Bare::Text
    }

    fn reply_elements(&self, key: &[u8], reply: &mut Writer<'_>) -> bool {
        let place = self.find(key);
        let tag = place.as_ref().and_then(|place| place.topic.tag.as_ref());
        tag.is_some_and(|tag| tag.reply_elements(reply))
    }

    fn version(&self, key: &[u8]) -> u64 {
        self.find(key).map_or(0, |place| place.version)
    }

    fn len(&self) -> usize {
        self.shelf.places.read().topics.len()
    }

    fn count(&self) -> usize {
        self.shelf.places.read().numbers.len()
    }

    fn name(&self, position: usize, out: &mut Vec<u8>) -> bool {
        let places = self.shelf.places.read();
        let place = places.topics.get(position).cloned().flatten();
        drop(places);
        let place = place.filter(|place| self.claims(&place.name));
        if let Some(place) = &place {
            out.extend_from_slice(&place.name);
        }
        place.is_some()
    }

    fn write(&self, write: &MountWrite<'_>) -> Option<&'static str> {
        let place = self.find(write.key)?;
        let keys = self.board.keys.get().and_then(Weak::upgrade)?;
        let writes = self.board.writes.get()?;
        let (bytes, action) = match write.change {
            MountChange::Value(value) => (value.len(), WriteAction::Value(value.into())),
            MountChange::Command { .. } if place.topic.tag.is_some() => return None,
            MountChange::Command { words, protocol } => {
                let lengths = words.iter().map(|word| word.len() + 4);
                let words = words.into();
                (
                    1 + lengths.sum::<usize>(),
                    WriteAction::Command { words, protocol },
                )
            }
        };
        let is_long = bytes > VALUE_LENGTH_MAX || write.key.len() > NAME_LENGTH_MAX;
        let asked = || AskedWrite {
            writer: Some(write.writer),
            hub: place.topic.hub.name.clone(),
            name: write.key.into(),
            action,
            user: write.user.into(),
            address: write.address.into(),
        };
        let refusal = match is_long {
            true => Some(TOO_LONG),
            false => (!writes.ask(asked())).then_some(BUSY),
        };
        if let Some(text) = refusal {
            writes
                .counters
                .asked
                .refused
                .fetch_add(1, Ordering::Relaxed);
            keys.tell_writer(write.writer, Err(text.to_owned()));
        }
        Some(UNBLOCKED)
    }

    fn push(&self, push: &MountPush<'_>) -> Pushed {
        let place = self
            .find(push.key)
            .filter(|place| place.topic.tag.is_none());
        let (Some(place), Some(writes)) = (place, self.board.writes.get()) else {
            return Pushed::Refused;
        };
        if push.value.len() > VALUE_LENGTH_MAX || push.key.len() > NAME_LENGTH_MAX {
            return Pushed::Refused;
        }
        let asked = AskedWrite {
            writer: None,
            hub: place.topic.hub.name.clone(),
            name: push.key.into(),
            action: WriteAction::Value(push.value.into()),
            user: push.user.into(),
            address: push.address.into(),
        };
        match writes.has_room_for_push() && writes.ask(asked) {
            true => Pushed::Taken,
            false => Pushed::Full,
        }
    }

    fn write_error(&self, key: &[u8]) -> Cow<'static, str> {
        let Some(place) = self.find(key) else {
            return match self.board.is_joined() {
                true => NO_TAG,
                false => NOT_JOINED,
            }
            .into();
        };
        let hub = &*place.topic.hub.name;
        match place.topic.tag.is_some() {
            true => format!(
                "READONLY this tag belongs to hub '{hub}': a plain SET writes it, without options, \
                 outside of MULTI and scripts"
            ),
            false => format!(
                "READONLY this topic belongs to hub '{hub}': a command that changes this key alone \
                 and does not wait (SET, DEL, HSET, INCR, EXPIRE and so on) writes it, outside of \
                 MULTI and scripts"
            ),
        }
        .into()
    }
}

/// What the names of plant tags begin with.
const TAG_PREFIX: &[u8] = b"mx:";
const NOT_JOINED: &str = "NOLINK the topics of the other hubs are not known yet, and the name may be \
                          one of them: nothing was written";
const NO_TAG: &str = "ERR no hub that is received has a tag of this name, and a hub without a plant \
                      keeps no keys under mx: (nothing was written)";
const TOO_LONG: &str =
    "ERR a value or command for another hub has at most 524288 bytes: nothing was written";
const _: () = assert!(VALUE_LENGTH_MAX == 524_288);
pub(crate) const BUSY: &str = "BUSY too many writes wait for other hubs: nothing was written";
const UNBLOCKED: &str = "UNKNOWN the client was unblocked before the hub of the topic answered: it \
                         may have taken the value, or not";

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_fanout::OwnWrite;
    use tidewire_fanout::WriteEnd;
    use tidewire_keyspace::MountWriter;
    use tidewire_resp::{ArgumentList, Protocol};

    #[derive(Debug)]
    struct Open(AtomicBool, Mutex<Vec<(MountWriter, WriteEnd)>>);

    fn open() -> Arc<Open> {
        Arc::new(Open(AtomicBool::new(true), Mutex::default()))
    }

    impl SharedKeys for Open {
        fn is_open(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn own_value(&self, _: &[u8], show: &mut dyn FnMut(Option<&[u8]>)) {
            show(None);
        }

        fn own_names(&self, _: &dyn Fn(&[u8]) -> bool, _: &mut Vec<Arc<[u8]>>) {}

        fn change_remote(&self, _: &[u8], change: &mut dyn FnMut(bool) -> bool) {
            change(false);
        }

        fn has_caches(&self) -> bool {
            false
        }

        fn invalidate_remote(&self, _: &[u8]) {}

        fn tell_caches(&self) {}

        fn tell_writer(&self, writer: MountWriter, result: WriteEnd) {
            self.1.lock().push((writer, result));
        }

        fn write_own(&self, _: OwnWrite) {}
    }

    fn topic(value: &[u8]) -> Option<Arc<RemoteTopic>> {
        let hub = RemoteHub {
            name: "a".into(),
            is_stale: AtomicBool::new(false),
            is_doubtful: AtomicBool::new(false),
        };
        Some(Arc::new(RemoteTopic {
            hub: Arc::new(hub),
            value: value.into(),
            tag: None,
            time_ns: 1,
            receive_time_ns: 2,
            sequence: 3,
        }))
    }

    fn names(mount: &dyn Mount) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        for position in 0..mount.len() {
            let mut name = Vec::new();
            if mount.name(position, &mut name) {
                names.push(name);
            }
        }
        names
    }

    #[test]
    fn topics_come_and_go_and_keep_their_positions() {
        let board = RemoteBoard::new(vec![(b"live:".to_vec(), None), (Vec::new(), None)]);
        let keys: Arc<dyn SharedKeys> = open();
        board.join(Arc::downgrade(&keys), Arc::default());
        let mount = board.mounts().next().unwrap();
        let [one, two, three] = [b"live:1", b"live:2", b"live:3"].map(|name| Arc::from(&name[..]));
        for name in [&one, &two] {
            assert!(board.put(name, topic(b"x")));
        }
        assert!(board.put(&one, None) && !board.put(&one, None));
        assert!(!mount.claims(b"live:1") && mount.claims(b"live:2"));
        assert_eq!((mount.len(), mount.count()), (2, 1));
        assert_eq!(names(&*mount), [b"live:2"]);
        assert!(board.put(&three, topic(b"y")));
        assert_eq!(names(&*mount), [b"live:3", b"live:2"]);
        assert!(!board.put(&Arc::from(&b"other"[..]), topic(b"z")));
    }

    #[test]
    fn a_board_is_closed_while_keys_are_loaded_or_a_masters() {
        let board = RemoteBoard::new(vec![(b"live:".to_vec(), None)]);
        let mount = board.mounts().next().unwrap();
        board.put(&Arc::from(&b"live:1"[..]), topic(b"x"));
        assert!(!mount.claims(b"live:1"), "there are no keys yet");
        let open = open();
        let keys: Arc<dyn SharedKeys> = open.clone();
        board.join(Arc::downgrade(&keys), Arc::default());
        assert!(mount.claims(b"live:1"));
        open.0.store(false, Ordering::Relaxed);
        assert!(!mount.claims(b"live:1") && names(&*mount).is_empty());
    }

    /// A hub that had just started made a key of its own under the name of another hub's topic. The
    /// key hid the topic from then on.
    #[test]
    fn a_hub_that_had_not_joined_made_keys_of_the_names_of_topics() {
        let board = RemoteBoard::new(vec![(b"live:".to_vec(), None), (b"mx:".to_vec(), None)]);
        let open = open();
        let keys: Arc<dyn SharedKeys> = open.clone();
        board.join(Arc::downgrade(&keys), Arc::default());
        let [live, tags] = [0, 1].map(|at| board.mounts().nth(at).unwrap());
        assert!(
            !live.is_reserved(b"live:a"),
            "it receives no topics of other hubs"
        );
        board.reserve(&["live:own:*".to_owned()]);
        assert!(live.is_reserved(b"live:a") && tags.is_reserved(b"mx:Tank1.Level"));
        assert!(live.write_error(b"live:a").starts_with("NOLINK "));
        assert!(tags.write_error(b"mx:Tank1.Level").starts_with("NOLINK "));
        assert!(!live.is_reserved(b"live:own:a"), "this hub shares it");
        open.0.store(false, Ordering::Relaxed);
        assert!(
            !live.is_reserved(b"live:a"),
            "what is loaded or a master's is stored"
        );
        open.0.store(true, Ordering::Relaxed);
        board.set_joined();
        assert!(!live.is_reserved(b"live:a") && tags.is_reserved(b"mx:Tank1.Level"));
        assert!(
            tags.write_error(b"mx:Tank1.Level")
                .starts_with("ERR no hub")
        );
    }

    #[test]
    fn a_write_goes_to_the_hub_of_the_topic_or_is_refused_by_mail() {
        let board = RemoteBoard::new(vec![(b"live:".to_vec(), None)]);
        let (open, writes) = (open(), Arc::new(HubWrites::default()));
        let keys: Arc<dyn SharedKeys> = open.clone();
        board.join(Arc::downgrade(&keys), writes.clone());
        board.put(&Arc::from(&b"live:1"[..]), topic(b"x"));
        let mount = board.mounts().next().unwrap();
        let writer = MountWriter {
            lane: 1,
            client: 2,
            token: 3,
        };
        let write = MountWrite {
            key: b"live:1",
            change: MountChange::Value(b"y"),
            writer,
            user: b"ada",
            address: "127.0.0.1:5",
        };
        let other = MountWrite {
            key: b"live:2",
            ..write
        };
        assert!(mount.write(&other).is_none(), "it is no topic");
        assert!(mount.write(&write).is_some());
        let asked = writes.take_asked();
        assert_eq!(
            (asked.len(), &*asked[0].hub, &*asked[0].user),
            (1, "a", &b"ada"[..])
        );
        let words = ArgumentList::from_slices(&[b"HSET", b"live:1", b"field", b"y"]);
        let command = MountWrite {
            change: MountChange::Command {
                words: words.as_arguments(),
                protocol: Protocol::Resp3,
            },
            ..write
        };
        assert!(mount.write(&command).is_some());
        let asked = writes.take_asked().pop().unwrap().action;
        let WriteAction::Command { words, protocol } = asked else {
            panic!("a command is asked for")
        };
        assert_eq!((words.as_arguments().len(), protocol), (4, Protocol::Resp3));
        let text = mount.write_error(b"live:1");
        assert!(text.contains("hub 'a'") && text.contains("HSET"), "{text}");
        let long = MountWrite {
            change: MountChange::Value(&vec![0; VALUE_LENGTH_MAX + 1]),
            ..write
        };
        assert!(mount.write(&long).is_some());
        assert!(writes.take_asked().is_empty());
        assert_eq!(*open.1.lock(), [(writer, Err(TOO_LONG.to_owned()))]);
        assert_eq!(writes.counters.asked.get(), [0, 1, 0]);
    }

    #[test]
    fn a_value_that_looks_like_a_removal_is_published_with_a_space() {
        let board = RemoteBoard::new(vec![(b"live:".to_vec(), None)]);
        let keys: Arc<dyn SharedKeys> = open();
        board.join(Arc::downgrade(&keys), Arc::default());
        board.put(&Arc::from(&b"live:1"[..]), topic(GONE));
        let mount = board.mounts().next().unwrap();
        let (mut published, mut bare) = (Vec::new(), Vec::new());
        assert!(mount.publish(b"live:1", &mut published));
        assert_eq!(published, [GONE, b" "].concat());
        assert_eq!(mount.bare(b"live:1", &mut bare), Bare::Text);
        assert_eq!(bare, GONE);
    }
}
