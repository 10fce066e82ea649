//! Live keys that other hubs get, and topics of other hubs among the keys.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_fanout::{
    ChangedNames, GONE, HubWrites, Origin, OwnWrite, Publication, SharedKeys, WriteEnd,
};
use tidewire_keyspace::{MountPush, MountWriter, Pushed};
use tidewire_lane::unix_ms;

use crate::attention::Obstacles;
use crate::live::{has_form, write_value};
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

    /// Publishes the state of another hub's topic. The name is locked.
    fn publish_remote(&self, name: &[u8], is_stored: bool) {
        let mount = self.keyspace.mount_of(0, name);
        if mount.is_some_and(|mount| !mount.is_shared()) || mount.is_none() && is_stored {
            // The name is an own topic's.
            return;
        }
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
        self.keyspace.with_stored(name, |is_stored| {
            if change(is_stored) {
                self.publish_remote(name, is_stored);
            }
        });
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
