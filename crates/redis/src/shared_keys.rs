//! Live keys that other hubs get, and topics of other hubs among the keys.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use tidewire_fanout::{
    ChangedNames, GONE, HubWrites, Origin, OwnWrite, Publication, SharedKeys, WriteEnd,
};
use tidewire_keyspace::{Event, MountPush, MountWriter, Pushed};
use tidewire_lane::unix_ms;

use crate::attention::Obstacles;
use crate::live::{LiveObserver, has_form, write_value};
use crate::mail::RedisMail;
use crate::server::Server;

impl Server {
    /// Has the names of changed live keys noted from now on, and the ends of other hubs' writes
    /// told.
    pub fn share_keys(&self, names: Arc<ChangedNames>, writes: Arc<HubWrites>) {
        let _ = self.shared.set(names);
        let _ = self.hub_writes.set(writes);
    }

    /// Notes a change of a live key, for other hubs.
    #[inline]
    pub(crate) fn note_shared(&self, key: &[u8]) {
        if let Some(names) = self.shared.get()
            && self.keyspace.has_live_name(key)
        {
            names.note(key);
        }
    }

    /// Passes a value to the hub that has a topic, if this hub has none of the name.
    pub fn push_to_hub(&self, push: &MountPush<'_>) -> Pushed {
        self.keyspace.push_mounted(push)
    }

    /// Notes that many live keys have changed at once.
    pub(crate) fn note_all_shared(&self) {
        if let Some(names) = self.shared.get() {
            names.note_all();
        }
    }

    /// Appends the names of other hubs' topics that are wanted.
    pub(crate) fn shared_names(&self, wanted: &dyn Fn(&[u8]) -> bool, names: &mut Vec<Arc<[u8]>>) {
        let mut name = Vec::new();
        let mounts = self.keyspace.mounts().iter();
        for mount in mounts.filter(|mount| mount.is_shared()) {
            for position in 0..mount.len() {
                name.clear();
                if mount.name(position, &mut name) && wanted(&name) {
                    names.push(name.as_slice().into());
                }
            }
        }
    }

    /// Appends the value of another hub's topic as its subscribers get it; returns false if the
    /// name is none.
    pub fn write_shared(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let mount = self.keyspace.mount_of(0, name);
        mount.is_some_and(|mount| mount.publish(name, out))
    }

    /// This hub follows no master any more, and has topics of other hubs again. What clients have
    /// cached of their names meanwhile is wrong.
    pub(crate) fn note_shared_reopened(&self) {
        if self.shared.get().is_some() {
            self.invalidate_everything();
        }
    }

    /// Publishes the state of another hub's topic. The name is locked.
    fn publish_remote(&self, name: &[u8], is_stored: bool, was_there: bool) {
        let mount = self.keyspace.mount_of(0, name);
        if mount.is_some_and(|mount| !mount.is_shared()) || mount.is_none() && is_stored {
            // The name is an own topic's.
            return;
        }
        self.notify_remote(name, was_there, mount.is_some());
        let route = self.post.subscriptions.route(name);
        if route.lanes == 0 {
            return;
        }
        let mut publication = Publication::default();
        let version = self.live_version.fetch_add(1, Ordering::AcqRel) + 1;
        publication.push_with(name, Origin::Live, version, |out| {
            if !mount.is_some_and(|mount| mount.publish(name, out)) {
                out.extend_from_slice(GONE);
            }
        });
        self.post.send(route.lanes, &Arc::new(publication));
    }

    /// Publishes the keyspace events of another hub's topic. Its hub knows which command or TTL it
    /// was; here the topic looks like a hash that is set or deleted.
    fn notify_remote(&self, name: &[u8], was_there: bool, is_there: bool) {
        let classes = self.keyspace.notifications();
        let events: &[Event] = match (was_there, is_there) {
            (_, false) => &[Event::Delete],
            (true, true) => &[Event::HashSet],
            (false, true) => &[Event::New, Event::HashSet],
        };
        for &event in events {
            if classes.intersects(event.class()) {
                crate::notifications::publish(self, 0, name, event);
            }
        }
    }
}

impl SharedKeys for Server {
    fn is_open(&self) -> bool {
        let closed = [Obstacles::LOADING, Obstacles::FOLLOWS];
        !closed.into_iter().any(|closed| self.attention.has(closed))
    }

    fn own_value(&self, name: &[u8], show: &mut dyn FnMut(Option<&[u8]>)) {
        let mut bytes = Vec::new();
        let is_there = self.keyspace.live_state(name, unix_ms(), |value| {
            let value = value.filter(|_| !self.is_mounted(name));
            value.is_some_and(|value| write_value(value, &mut bytes))
        });
        show(is_there.then_some(&bytes[..]));
    }

    fn own_names(&self, wanted: &dyn Fn(&[u8]) -> bool, names: &mut Vec<Arc<[u8]>>) {
        let mut wanted = |key: &[u8]| self.keyspace.has_live_name(key) && wanted(key);
        self.keyspace
            .for_each_live(unix_ms(), &mut wanted, &mut |key, value| {
                names.extend(has_form(value).then(|| Arc::from(key)));
            });
    }

    fn change_remote(&self, name: &[u8], change: &mut dyn FnMut(bool) -> bool) {
        let observer = &mut LiveObserver(self);
        self.keyspace.change_shared(name, observer, |is_stored| {
            let was_there = self.is_mounted(name);
            let is_changed = change(is_stored);
            if is_changed {
                self.publish_remote(name, is_stored, was_there);
            }
            is_changed
        });
    }

    fn has_caches(&self) -> bool {
        // A client that begins to track now reads afterwards what the caller has stored.
        fence(Ordering::SeqCst);
        self.attention.has(Obstacles::TRACKED)
    }

    fn invalidate_remote(&self, name: &[u8]) {
        self.keyspace
            .invalidate_shared(name, &mut LiveObserver(self));
    }

    fn tell_caches(&self) {
        if self.attention.has(Obstacles::TRACKED) {
            self.broadcast_changed();
        }
    }

    fn tell_writer(&self, writer: MountWriter, result: WriteEnd) {
        let mail = RedisMail::MountWritten(writer, result);
        self.mail.send(writer.lane, mail);
    }

    fn write_own(&self, write: OwnWrite) {
        // One lane has all, so that their order stays; the first one has the most other work.
        let lane = self.mail.lanes() - 1;
        self.mail.send(lane, RedisMail::WriteOwn(Box::new(write)));
    }
}
