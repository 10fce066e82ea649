//! The items of a session.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::WriteError;
use crate::guid::Guid;
use crate::handle::{HandleProjection, ReferenceHandle};
use crate::value::{DataType, Value};

/// The id of an item in a session. The id of a removed item never matches a later item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl ItemId {
    /// Returns a small number, for tables beside the session; reused after the item is removed.
    pub const fn index(self) -> usize {
        self.slot as usize
    }
}

/// On whose behalf an item is advised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdviseMode {
    /// A user (Advise).
    User,
    /// The host (AdviseSupervisory).
    Supervisory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemState {
    /// The platform does not know the item.
    Absent,
    /// The item was requested.
    Adding,
    /// The platform has the item.
    Added,
    /// The item is advised; no value has arrived yet.
    Advising,
    /// Values are arriving.
    Live,
    /// The platform refused the item.
    Refused,
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) definition: Box<str>,
    pub(super) state: ItemState,
    /// Changes with the state, so that a timeout with an older stamp is ignored.
    pub(super) stamp: u32,
    pub(super) wanted: Option<AdviseMode>,
    pub(super) suspended: bool,
    pub(super) handle: ReferenceHandle,
    pub(super) data_type: Option<DataType>,
    pub(super) operation_id: Option<Guid>,
}

impl Item {
    pub(super) fn move_to(&mut self, state: ItemState) {
        self.state = state;
        self.stamp = self.stamp.wrapping_add(1);
    }

    /// Returns the handle to write a value of this type to.
    pub(super) fn check_write(&self, value: &Value<'_>) -> Result<HandleProjection, WriteError> {
        match self.state {
            ItemState::Added | ItemState::Advising | ItemState::Live => {}
            ItemState::Refused => return Err(WriteError::NoItem),
            ItemState::Absent | ItemState::Adding => return Err(WriteError::TypeUnknown),
        }
        let data_type = self.data_type.ok_or(WriteError::TypeUnknown)?;
        let projection = self.handle.projection();
        let is_array = projection.attribute_index() == -1;
        let wanted = data_type.wire_kind(is_array);
        let wanted = wanted.ok_or(WriteError::NotWritable { data_type })?;
        if value.wire_kind() != wanted || matches!(value, Value::Raw { .. }) {
            return Err(WriteError::WrongType {
                data_type,
                is_array,
                given: value.kind_name(),
            });
        }
        Ok(projection)
    }
}

#[derive(Debug, Default)]
pub(super) struct Items {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    item: Option<Item>,
}

impl Items {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, definition: &str) -> ItemId {
        let item = Item {
            definition: definition.into(),
            state: ItemState::Absent,
            stamp: 0,
            wanted: None,
            suspended: false,
            handle: ReferenceHandle::default(),
            data_type: None,
            operation_id: None,
        };
        if let Some(slot) = self.free.pop()
            && let Some(place) = self.slots.get_mut(slot as usize)
        {
            place.item = Some(item);
            return ItemId {
                slot,
                generation: place.generation,
            };
        }
        self.slots.push(Slot {
            generation: 0,
            item: Some(item),
        });
        ItemId {
            slot: (self.slots.len() - 1) as u32,
            generation: 0,
        }
    }

    pub(super) fn remove(&mut self, id: ItemId) {
        if let Some(place) = self.place(id)
            && place.item.take().is_some()
        {
            place.generation = place.generation.wrapping_add(1);
            self.free.push(id.slot);
        }
    }

    pub(super) fn get(&self, id: ItemId) -> Option<&Item> {
        let place = self.slots.get(id.slot as usize)?;
        let is_same = place.generation == id.generation;
        is_same.then_some(place.item.as_ref())?
    }

    pub(super) fn get_mut(&mut self, id: ItemId) -> Option<&mut Item> {
        self.place(id)?.item.as_mut()
    }

    /// Returns the current item of a slot.
    pub(super) fn entry(&mut self, slot: u32) -> Option<(ItemId, &mut Item)> {
        let place = self.slots.get_mut(slot as usize)?;
        let generation = place.generation;
        Some((ItemId { slot, generation }, place.item.as_mut()?))
    }

    pub(super) fn at_stamp(
        &mut self,
        slot: u32,
        stamp: u32,
        state: ItemState,
    ) -> Option<(ItemId, &mut Item)> {
        self.entry(slot)
            .filter(|(_, item)| item.stamp == stamp && item.state == state)
    }

    pub(super) fn generation(&self, slot: u32) -> Option<u32> {
        let place = self.slots.get(slot as usize)?;
        place.item.as_ref().map(|_| place.generation)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        let filled = |(_, place): &(usize, &Slot)| place.item.is_some();
        let slots = self.slots.iter().enumerate().filter(filled);
        slots.map(|(slot, _)| slot as u32)
    }

    pub(super) fn forget_link(&mut self) {
        for item in self
            .slots
            .iter_mut()
            .filter_map(|place| place.item.as_mut())
        {
            item.move_to(ItemState::Absent);
            item.operation_id = None;
        }
    }

    fn place(&mut self, id: ItemId) -> Option<&mut Slot> {
        let place = self.slots.get_mut(id.slot as usize)?;
        (place.generation == id.generation).then_some(place)
    }
}
