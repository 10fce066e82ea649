//! Plant tags of this hub for other hubs, and those of other hubs for the clients of this one.

use std::sync::Arc;

use tidewire_fanout::{ChangedNames, HubWrites, SharedTags, TagParts, TagView, TagViews};
use tidewire_lastvalue::TagStamp;
use tidewire_mx::value::DataType;
use tidewire_resp::Writer;

use crate::plant::{Plant, is_name, name_of};
use crate::tags::{Tag, value_of};
use crate::text;
use crate::writing::Waiter;

impl Plant {
    /// Has the names of changed tags noted from now on, and the ends of other hubs' writes told.
    pub fn share_tags(&self, names: Arc<ChangedNames>, writes: Arc<HubWrites>) {
        let _ = self.shared.set(names);
        let _ = self.hub_writes.set(writes);
    }

    /// Notes a change of a tag, for other hubs.
    #[inline]
    pub(crate) fn note_shared(&self, tag: &Tag) {
        if let Some(names) = self.shared.get() {
            names.note(&tag.channel);
        }
    }
}

impl SharedTags for Plant {
    fn tag_names(&self, wanted: &dyn Fn(&[u8]) -> bool, names: &mut Vec<Arc<[u8]>>) {
        let count = u32::try_from(self.board.len()).unwrap_or(u32::MAX);
        let tags = (0..count).filter_map(|number| self.board.tag(number));
        let wanted = tags.filter(|tag| wanted(&tag.channel));
        names.extend(wanted.map(|tag| Arc::from(&*tag.channel)));
    }

    fn tag_state(&self, name: &[u8], show: &mut dyn FnMut(Option<&TagParts<'_>>)) {
        let tag = self.board.find_channel(name);
        let Some((tag, state)) = tag.map(|tag| {
            let state = tag.state();
            (tag, state)
        }) else {
            return show(None);
        };
        if state.updates == 0 {
            return show(None);
        }
        let (data_type, is_array) = tag.data_type();
        show(Some(&TagParts {
            name,
            data_type: (data_type.code(), is_array),
            value_kind: state.kind,
            value: state.bytes.as_slice(),
            is_stale: state.stale,
            quality: state.quality,
            status: state.status,
            source_time: state.source_time,
            receive_time_ns: state.receive_time_ns,
            sequence: state.sequence,
        }));
    }

    fn write_tag(&self, number: u64, name: &[u8], value: &[u8]) -> bool {
        let Some(name) = name_of(name) else {
            return false;
        };
        self.send_write(Waiter::Hub(number), name, value);
        true
    }
}

/// Makes tags of other hubs look like own ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteTags;

impl TagViews for RemoteTags {
    fn view(&self, parts: &TagParts<'_>) -> Option<Arc<dyn TagView>> {
        name_of(parts.name).filter(|name| is_name(name))?;
        let tag = Tag::remote(parts.name);
        let (code, is_array) = parts.data_type;
        tag.set_data_type(DataType::from_code(code), is_array);
        let stamp = TagStamp {
            stale: parts.is_stale,
            quality: parts.quality,
            status: parts.status,
            source_time: parts.source_time,
            receive_time_ns: parts.receive_time_ns,
            sequence: parts.sequence,
        };
        tag.slot.store(parts.value_kind, parts.value, stamp);
        Some(Arc::new(tag))
    }
}

impl TagView for Tag {
    fn bare(&self, out: &mut Vec<u8>) -> bool {
        text::write_bare(out, &value_of(&self.state()))
    }

    fn reply_elements(&self, reply: &mut Writer<'_>) -> bool {
        text::reply_elements(reply, &value_of(&self.state()))
    }

    fn fields(&self, is_lost: bool, fields: &mut dyn FnMut(&[u8], &[u8])) {
        let mut state = self.state();
        state.stale |= is_lost;
        text::write_fields(self, &state, fields);
    }

    fn json(&self, is_lost: bool, out: &mut Vec<u8>) {
        let mut state = self.state();
        state.stale |= is_lost;
        text::write_json(out, self, &state, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_of_another_hub_looks_like_an_own_one() {
        let parts = TagParts {
            name: b"mx:Tank1.Level",
            data_type: (2, false),
            value_kind: 2,
            value: &7_i32.to_le_bytes(),
            is_stale: false,
            quality: 192,
            status: 0,
            source_time: 0,
            receive_time_ns: 5,
            sequence: 9,
        };
        let view = RemoteTags.view(&parts).unwrap();
        let (mut bare, mut fields) = (Vec::new(), Vec::new());
        assert!(view.bare(&mut bare));
        view.fields(true, &mut |name, value| {
            fields.push((name.to_vec(), value.to_vec()));
        });
        assert_eq!(bare, b"7");
        assert!(fields.contains(&(b"stale".to_vec(), b"1".to_vec())));
        assert!(fields.contains(&(b"seq".to_vec(), b"9".to_vec())));
        let other = TagParts {
            name: b"mx:nothing",
            ..parts
        };
        assert!(RemoteTags.view(&other).is_none());
    }
}
