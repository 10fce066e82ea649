//! The plant's tags: names, types, values and scripts.
//!
//! There are many objects `TankN`; every other object exists once.
//!
//! | tag | type | behaviour |
//! |---|---|---|
//! | `TankN.Level` | Float | drifts; read-only (SecurityError) |
//! | `TankN.Setpoint` | Double | keeps the written value |
//! | `TankN.Running` | Boolean | flips |
//! | `TankN.Count` | Integer | counts |
//! | `TankN.Name` | String | product names in several scripts, in turn |
//! | `TankN.Started` | Time | the time of the change |
//! | `TankN.Uptime` | ElapsedTime | counts ms; on the wire an Int32 |
//! | `TankN.Label` | InternationalizedString | in turn, as `Name`; on the wire a String |
//! | `TankN.Alarms`, `.History`, `.Profile` | Boolean[], Integer[], Float[] | one of 8 changes |
//! | `TankN.Trend`, `.Recipe`, `.Shifts` | Double[], String[], Time[] | one of 8 changes |
//! | `Faults.CATEGORY` (`Faults.SecurityError`, …) | Integer | each write ends with that category |
//! | `Faults.Lost`, `Faults.Delayed` | Integer | the completion never comes; comes late |
//! | `Faults.Disconnect` | Integer | the link is dropped in the middle of the write |
//! | `Troubles.CATEGORY` | Integer | answers an Advise with that category |
//! | `Quality.Good`, `.Uncertain`, `.Bad` | Integer | counts, with that quality |
//!
//! An array is read whole as `Tank1.Trend[]`, and one element as `Tank1.Trend[1]` to `[8]`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::NO_SUCH_ITEM;
use super::random::Random;
use crate::handle::{HandleIds, HandleProjection, ReferenceHandle};
use crate::status::{Category, MxStatus, Quality};
use crate::time::FileTime;
use crate::value::{DataType, OwnedValue, Value};

/// Maximum number of tank tags.
pub const TAGS_MAX: usize = 1_000_000;
/// Elements of each array.
pub const ELEMENTS: usize = 8;

/// All tags of a plant.
#[derive(Debug)]
pub struct Tags {
    tags: Vec<Tag>,
    tank_tags: usize,
}

/// The tag, and the part of it, that a reference refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) tag: u32,
    pub(super) element: Element,
}

/// The part of a tag that a reference refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// The only value.
    Scalar,
    /// A whole array, requested with `[]`.
    Whole,
    /// A whole array, requested without `[]`.
    Bulk,
    /// One element, counted from 1.
    At(u16),
}

/// The scripted behaviour of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Plain,
    ReadOnly,
    Write(Category),
    LoseCompletion,
    DelayCompletion,
    DropLink,
    Trouble(Category),
    Quality(Quality),
}

#[derive(Debug)]
struct Tag {
    value: OwnedValue,
    quality: Quality,
    script: Script,
    changing: bool,
    subscribers: Vec<u64>,
}

impl Tags {
    pub(super) fn new(count: usize, random: &mut Random) -> Self {
        let tank_tags = count.min(TAGS_MAX);
        let tanks = (0..tank_tags).map(|index| {
            let value = first_value(index % TANK.len(), random);
            let script = if TANK[index % TANK.len()].0 == "Level" {
                Script::ReadOnly
            } else {
                Script::Plain
            };
            (value, script)
        });
        let special = SPECIAL
            .iter()
            .map(|(_, _, script)| (OwnedValue::Int32(0), *script));
        let tags = tanks.chain(special).map(|(value, script)| Tag {
            value,
            quality: match script {
                Script::Quality(quality) => quality,
                _ => Quality::GOOD,
            },
            script,
            changing: false,
            subscribers: Vec::new(),
        });
        Self {
            tags: tags.collect(),
            tank_tags,
        }
    }

    /// Returns the number of tags.
    pub fn len(&self) -> usize {
        self.tags.len()
    }

    /// Returns whether there is no tag; always false, because the special tags always exist.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Returns a tag's name as an item definition, with `[]` for arrays; tanks come first.
    pub fn name(&self, index: usize) -> Option<String> {
        let (object, attribute) = self.names(index as u32)?;
        let array = if self.is_array(index as u32) {
            "[]"
        } else {
            ""
        };
        Some(format!("{object}.{attribute}{array}"))
    }

    /// Iterates over all names, as [`Tags::name`] returns them.
    pub fn all_names(&self) -> impl Iterator<Item = String> {
        (0..self.len()).filter_map(|index| self.name(index))
    }

    /// Returns a tag's value as text for people; for tests.
    pub fn value_text(&self, index: usize) -> Option<String> {
        let tag = u32::try_from(index).ok()?;
        let element = if self.is_array(tag) {
            Element::Whole
        } else {
            Element::Scalar
        };
        let mut text = None;
        self.with_value(Place { tag, element }, |value| {
            text = Some(format!("{value:?}"))
        });
        text
    }

    pub(super) fn resolve(
        &self,
        definition: impl Iterator<Item = char>,
    ) -> Result<Place, MxStatus> {
        let definition: String = definition.take(NAME_CHARACTERS_MAX + 1).collect();
        let lower = definition.to_ascii_lowercase();
        let (object, rest) = lower.split_once('.').ok_or(NO_SUCH_ITEM)?;
        let (attribute, index) = match rest.split_once('[') {
            Some((attribute, index)) => (
                attribute,
                Some(index.strip_suffix(']').ok_or(NO_SUCH_ITEM)?),
            ),
            None => (rest, None),
        };
        let tag = self.tag(object, attribute).ok_or(NO_SUCH_ITEM)?;
        let element = match (self.is_array(tag), index) {
            (false, None) => Element::Scalar,
            (true, None) => Element::Bulk,
            (true, Some("")) => Element::Whole,
            (true, Some(index)) => match index.parse::<u16>() {
                Ok(index) if (1..=ELEMENTS as u16).contains(&index) => Element::At(index),
                _ => return Err(NO_SUCH_ITEM),
            },
            (false, Some(_)) => return Err(NO_SUCH_ITEM),
        };
        Ok(Place { tag, element })
    }

    fn tag(&self, object: &str, attribute: &str) -> Option<u32> {
        if let Some(number) = object.strip_prefix("tank") {
            let number: usize = number.parse().ok()?;
            let attribute = TANK
                .iter()
                .position(|(name, _, _)| name.eq_ignore_ascii_case(attribute))?;
            let index = number.checked_sub(1)?.checked_mul(TANK.len())? + attribute;
            return (index < self.tank_tags).then_some(index as u32);
        }
        let special = SPECIAL.iter().position(|(of, name, _)| {
            of.eq_ignore_ascii_case(object) && name.eq_ignore_ascii_case(attribute)
        })?;
        Some((self.tank_tags + special) as u32)
    }

    /// Returns the tag of a handle whose signatures match the tag's names.
    pub(super) fn find(&self, handle: &HandleProjection) -> Option<Place> {
        let object = usize::from(handle.object_id());
        let high = usize::from(handle.primitive_id() as u16);
        let attribute = usize::try_from(handle.attribute_id()).ok()?;
        let index = if object == SPECIAL_OBJECT {
            self.tank_tags + attribute
        } else if attribute < TANK.len() {
            (high * TANKS_A_PRIMITIVE + object) * TANK.len() + attribute
        } else {
            return None;
        };
        let element = match handle.attribute_index() {
            -1 => Element::Whole,
            0 => Element::Scalar,
            index => Element::At(index as u16),
        };
        let tag = u32::try_from(index).ok()?;
        let place = Place { tag, element };
        self.tags.get(index)?;
        (self.handle(place).projection() == *handle).then_some(place)
    }

    pub(super) fn handle(&self, place: Place) -> ReferenceHandle {
        let index = place.tag as usize;
        let (object, attribute) = self.names(place.tag).unwrap_or_default();
        let (object_id, primitive_id, attribute_id) = match index.checked_sub(self.tank_tags) {
            Some(special) => (SPECIAL_OBJECT, 0, special),
            None => {
                let tank = index / TANK.len();
                let primitive = tank / TANKS_A_PRIMITIVE;
                (tank % TANKS_A_PRIMITIVE, primitive, index % TANK.len())
            }
        };
        let ids = HandleIds {
            galaxy_id: 1,
            platform_id: 1,
            engine_id: 5,
            object_id: object_id as u16,
            primitive_id: primitive_id as i16,
            attribute_id: attribute_id as i16,
            property_id: 10,
            attribute_index: match place.element {
                Element::Scalar => 0,
                Element::Whole | Element::Bulk => -1,
                Element::At(index) => index as i16,
            },
        };
        ReferenceHandle::from_names(ids, &object, attribute)
    }

    pub(super) fn data_type(&self, tag: u32) -> DataType {
        match (tag as usize).checked_sub(self.tank_tags) {
            Some(_) => DataType::Integer,
            None => TANK[tag as usize % TANK.len()].1,
        }
    }

    pub(super) fn script(&self, tag: u32) -> Script {
        self.tags
            .get(tag as usize)
            .map_or(Script::Plain, |tag| tag.script)
    }

    pub(super) fn quality(&self, tag: u32) -> Quality {
        self.tags
            .get(tag as usize)
            .map_or(Quality::BAD, |tag| tag.quality)
    }

    fn is_array(&self, tag: u32) -> bool {
        (tag as usize) < self.tank_tags && TANK[tag as usize % TANK.len()].2
    }

    fn names(&self, tag: u32) -> Option<(String, &'static str)> {
        match (tag as usize).checked_sub(self.tank_tags) {
            Some(special) => {
                let (object, attribute, _) = SPECIAL.get(special)?;
                Some((object.to_string(), attribute))
            }
            None => {
                let tank = tag as usize / TANK.len() + 1;
                Some((format!("Tank{tank}"), TANK[tag as usize % TANK.len()].0))
            }
        }
    }
}

/// Subscriptions.
impl Tags {
    pub(super) fn subscribe(&mut self, tag: u32, subscription: u64) {
        if let Some(tag) = self.tags.get_mut(tag as usize) {
            tag.subscribers.push(subscription);
        }
    }

    pub(super) fn unsubscribe(&mut self, tag: u32, subscription: u64) {
        if let Some(tag) = self.tags.get_mut(tag as usize) {
            tag.subscribers.retain(|other| *other != subscription);
        }
    }

    pub(super) fn has_subscribers(&self, tag: u32) -> bool {
        self.tags
            .get(tag as usize)
            .is_some_and(|tag| !tag.subscribers.is_empty())
    }

    pub(super) fn subscribers(&self, tag: u32) -> Vec<u64> {
        let tag = self.tags.get(tag as usize);
        tag.map_or(Vec::new(), |tag| tag.subscribers.clone())
    }

    /// Marks a tag as changing by itself. Returns whether it was not before.
    pub(super) fn begin_changing(&mut self, tag: u32) -> bool {
        let tag = self.tags.get_mut(tag as usize);
        tag.is_some_and(|tag| !core::mem::replace(&mut tag.changing, true))
    }

    pub(super) fn end_changing(&mut self, tag: u32) {
        if let Some(tag) = self.tags.get_mut(tag as usize) {
            tag.changing = false;
        }
    }
}

/// Values.
impl Tags {
    /// Changes a tag by itself. Returns false if its value stays.
    pub(super) fn change(
        &mut self,
        tag: u32,
        quality: Quality,
        time: FileTime,
        random: &mut Random,
    ) -> bool {
        let is_setpoint =
            (tag as usize) < self.tank_tags && TANK[tag as usize % TANK.len()].0 == "Setpoint";
        let Some(tag) = self.tags.get_mut(tag as usize) else {
            return false;
        };
        let old_quality = tag.quality;
        match tag.script {
            Script::Plain | Script::ReadOnly => tag.quality = quality,
            Script::Quality(_) => {}
            // These tags change only when written.
            _ => return false,
        }
        if is_setpoint {
            return tag.quality != old_quality;
        }
        change(&mut tag.value, time, random);
        true
    }

    /// Sets a tag's value. Returns false if the type does not fit.
    pub(super) fn set(&mut self, place: Place, value: &Value<'_>) -> bool {
        let Some(tag) = self.tags.get_mut(place.tag as usize) else {
            return false;
        };
        let done = match place.element {
            Element::At(index) => set_element(&mut tag.value, usize::from(index) - 1, value),
            Element::Scalar | Element::Whole | Element::Bulk => set(&mut tag.value, value),
        };
        if done && !matches!(tag.script, Script::Quality(_)) {
            tag.quality = Quality::GOOD;
        }
        done
    }

    pub(super) fn with_value(&self, place: Place, give: impl FnOnce(Value<'_>)) {
        let Some(tag) = self.tags.get(place.tag as usize) else {
            return;
        };
        let index = match place.element {
            Element::At(index) => Some(usize::from(index) - 1),
            Element::Scalar | Element::Whole | Element::Bulk => None,
        };
        with_part(&tag.value, index, give);
    }
}

fn change(value: &mut OwnedValue, time: FileTime, random: &mut Random) {
    let index = random.below(ELEMENTS as u64) as usize;
    match value {
        OwnedValue::Boolean(value) => *value = !*value,
        OwnedValue::Int32(value) => *value = value.wrapping_add(1),
        OwnedValue::Float32(value) => *value = (*value + random.step() as f32).clamp(0.0, 100.0),
        OwnedValue::Float64(value) => *value = (*value + random.step()).clamp(0.0, 100.0),
        OwnedValue::String(text) => {
            let next = random.below(PRODUCTS.len() as u64) as usize;
            text.clear();
            text.push_str(PRODUCTS[next]);
        }
        OwnedValue::DateTime(value) => *value = time,
        OwnedValue::Booleans(values) => change_at(values, index, |value| *value = !*value),
        OwnedValue::Int32s(values) => {
            change_at(values, index, |value| *value = value.wrapping_add(1));
        }
        OwnedValue::Float32s(values) => {
            change_at(values, index, |value| *value += random.step() as f32);
        }
        OwnedValue::Float64s(values) => change_at(values, index, |value| *value += random.step()),
        OwnedValue::Strings(values) => {
            let next = PRODUCTS[random.below(PRODUCTS.len() as u64) as usize];
            change_at(values, index, |value| *value = next.to_string());
        }
        OwnedValue::DateTimes(values) => change_at(values, index, |value| *value = time),
    }
}

fn set(old: &mut OwnedValue, new: &Value<'_>) -> bool {
    match (old, new) {
        (OwnedValue::Boolean(old), Value::Boolean(new)) => *old = *new,
        (OwnedValue::Int32(old), Value::Int32(new)) => *old = *new,
        (OwnedValue::Float32(old), Value::Float32(new)) => *old = *new,
        (OwnedValue::Float64(old), Value::Float64(new)) => *old = *new,
        (OwnedValue::String(old), Value::String(new)) => *old = new.to_string(),
        (OwnedValue::DateTime(old), Value::DateTime(new)) => *old = *new,
        (OwnedValue::Booleans(old), Value::BooleanArray(new)) => *old = new.iter().collect(),
        (OwnedValue::Int32s(old), Value::Int32Array(new)) => *old = new.iter().collect(),
        (OwnedValue::Float32s(old), Value::Float32Array(new)) => *old = new.iter().collect(),
        (OwnedValue::Float64s(old), Value::Float64Array(new)) => *old = new.iter().collect(),
        (OwnedValue::Strings(old), Value::StringArray(new)) => {
            *old = new.iter().map(|text| text.to_string()).collect();
        }
        (OwnedValue::DateTimes(old), Value::DateTimeArray(new)) => *old = new.iter().collect(),
        _ => return false,
    }
    true
}

fn set_element(old: &mut OwnedValue, index: usize, new: &Value<'_>) -> bool {
    match (old, new) {
        (OwnedValue::Booleans(old), Value::Boolean(new)) => put_at(old, index, *new),
        (OwnedValue::Int32s(old), Value::Int32(new)) => put_at(old, index, *new),
        (OwnedValue::Float32s(old), Value::Float32(new)) => put_at(old, index, *new),
        (OwnedValue::Float64s(old), Value::Float64(new)) => put_at(old, index, *new),
        (OwnedValue::Strings(old), Value::String(new)) => put_at(old, index, new.to_string()),
        (OwnedValue::DateTimes(old), Value::DateTime(new)) => put_at(old, index, *new),
        _ => false,
    }
}

/// Passes the value, or one element of it, to `give`. A client may have written a shorter array.
fn with_part(value: &OwnedValue, index: Option<usize>, give: impl FnOnce(Value<'_>)) {
    let Some(index) = index else {
        return value.with(give);
    };
    let element = match value {
        OwnedValue::Booleans(values) => values.get(index).copied().map(Value::Boolean),
        OwnedValue::Int32s(values) => values.get(index).copied().map(Value::Int32),
        OwnedValue::Float32s(values) => values.get(index).copied().map(Value::Float32),
        OwnedValue::Float64s(values) => values.get(index).copied().map(Value::Float64),
        OwnedValue::Strings(values) => values.get(index).map(|text| Value::text(text)),
        OwnedValue::DateTimes(values) => values.get(index).copied().map(Value::DateTime),
        _ => None,
    };
    give(element.unwrap_or(Value::None));
}

fn change_at<T>(values: &mut [T], index: usize, change: impl FnOnce(&mut T)) {
    if let Some(value) = values.get_mut(index) {
        change(value);
    }
}

fn put_at<T>(values: &mut [T], index: usize, value: T) -> bool {
    match values.get_mut(index) {
        Some(old) => {
            *old = value;
            true
        }
        None => false,
    }
}

fn first_value(attribute: usize, random: &mut Random) -> OwnedValue {
    let (_, data_type, is_array) = TANK[attribute];
    let number = random.below(100) as i32;
    let product = PRODUCTS[number as usize % PRODUCTS.len()];
    match (data_type, is_array) {
        (DataType::Boolean, false) => OwnedValue::Boolean(number % 2 == 0),
        (DataType::Float, false) => OwnedValue::Float32(number as f32),
        (DataType::Double, false) => OwnedValue::Float64(f64::from(number)),
        (DataType::String | DataType::InternationalizedString, false) => {
            OwnedValue::String(product.to_string())
        }
        (DataType::Time, false) => OwnedValue::DateTime(FileTime::from_unix_ns(0)),
        (_, false) => OwnedValue::Int32(number),
        (DataType::Boolean, true) => OwnedValue::Booleans(vec![false; ELEMENTS]),
        (DataType::Float, true) => OwnedValue::Float32s(vec![number as f32; ELEMENTS]),
        (DataType::Double, true) => OwnedValue::Float64s(vec![f64::from(number); ELEMENTS]),
        (DataType::String, true) => OwnedValue::Strings(vec![product.to_string(); ELEMENTS]),
        (DataType::Time, true) => OwnedValue::DateTimes(vec![FileTime::from_unix_ns(0); ELEMENTS]),
        (_, true) => OwnedValue::Int32s(vec![number; ELEMENTS]),
    }
}

/// Attribute name, type, and whether it is an array.
const TANK: [(&str, DataType, bool); 14] = [
    ("Level", DataType::Float, false),
    ("Setpoint", DataType::Double, false),
    ("Running", DataType::Boolean, false),
    ("Count", DataType::Integer, false),
    ("Name", DataType::String, false),
    ("Started", DataType::Time, false),
    ("Uptime", DataType::ElapsedTime, false),
    ("Label", DataType::InternationalizedString, false),
    ("Alarms", DataType::Boolean, true),
    ("History", DataType::Integer, true),
    ("Profile", DataType::Float, true),
    ("Trend", DataType::Double, true),
    ("Recipe", DataType::String, true),
    ("Shifts", DataType::Time, true),
];

/// The attribute of each script. The attribute of a category has the category's name.
const SPECIAL: &[(&str, &str, Script)] = &[
    fault(Category::Unknown),
    fault(Category::Ok),
    fault(Category::Pending),
    fault(Category::Warning),
    fault(Category::CommunicationError),
    fault(Category::ConfigurationError),
    fault(Category::OperationalError),
    fault(Category::SecurityError),
    fault(Category::SoftwareError),
    fault(Category::OtherError),
    ("Faults", "Lost", Script::LoseCompletion),
    ("Faults", "Delayed", Script::DelayCompletion),
    ("Faults", "Disconnect", Script::DropLink),
    trouble(Category::Unknown),
    trouble(Category::Pending),
    trouble(Category::CommunicationError),
    trouble(Category::ConfigurationError),
    trouble(Category::OperationalError),
    trouble(Category::SecurityError),
    trouble(Category::SoftwareError),
    trouble(Category::OtherError),
    ("Quality", "Good", Script::Quality(Quality::GOOD)),
    ("Quality", "Uncertain", Script::Quality(Quality::UNCERTAIN)),
    ("Quality", "Bad", Script::Quality(Quality::BAD)),
];

const fn fault(category: Category) -> (&'static str, &'static str, Script) {
    ("Faults", category.name(), Script::Write(category))
}

const fn trouble(category: Category) -> (&'static str, &'static str, Script) {
    ("Troubles", category.name(), Script::Trouble(category))
}

/// Products in several scripts, including one outside the Basic Multilingual Plane and an empty
/// text.
const PRODUCTS: [&str; 10] = [
    "Water",
    "Süßwasser",
    "Вода",
    "水",
    "ماء",
    "पानी",
    "น้ำ",
    "Ύδωρ",
    "💧 pure",
    "",
];

/// Maximum characters of a definition.
const NAME_CHARACTERS_MAX: usize = 256;
/// The object id of everything except tanks.
const SPECIAL_OBJECT: usize = 0xFFFF;
/// Number of tanks with distinct object ids; further ones differ in the primitive id.
const TANKS_A_PRIMITIVE: usize = 0x8000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_was_written_to_its_highest_goes_on() {
        let mut random = Random::new(1);
        let time = FileTime::from_unix_ns(0);
        let mut array = OwnedValue::Int32s(vec![i32::MAX; ELEMENTS]);
        change(&mut array, time, &mut random);
        let OwnedValue::Int32s(elements) = array else {
            unreachable!("the type stays")
        };
        let changed = elements.iter().filter(|&&element| element == i32::MIN);
        assert_eq!(changed.count(), 1);
        let mut scalar = OwnedValue::Int32(i32::MAX);
        change(&mut scalar, time, &mut random);
        assert_eq!(scalar, OwnedValue::Int32(i32::MIN));
    }
}
