//! Bars as keys.

use std::borrow::Cow;
use std::sync::Arc;

use tidewire_keyspace::Mount;

use super::{Bars, Interval, prefix};

/// The bars of one interval as keys, such as `bar:1m:RELIANCE`. A key exists for each symbol; its
/// bars are made from its first reading on. Listings show the bars that are made.
#[derive(Debug)]
pub struct BarMount {
    bars: Arc<Bars>,
    interval: Interval,
}

impl BarMount {
    /// Returns the mounts of all intervals.
    pub fn all(bars: &Arc<Bars>) -> impl Iterator<Item = BarMount> {
        Interval::ALL.into_iter().map(|interval| BarMount {
            bars: bars.clone(),
            interval,
        })
    }

    fn symbol<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        key.strip_prefix(self.prefix())
    }
}

impl Mount for BarMount {
    fn prefix(&self) -> &[u8] {
        prefix(self.interval)
    }

    fn contains(&self, key: &[u8]) -> bool {
        let symbol = self.symbol(key);
        symbol.is_some_and(|symbol| self.bars.board.find(symbol).is_some())
    }

    fn read(&self, key: &[u8], fields: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let Some(name) = self.symbol(key) else {
            return false;
        };
        let Some(topic) = self.bars.board.find(name) else {
            return false;
        };
        let bars = self.bars.bars_of(&topic, self.interval);
        let mut state = bars.state.lock();
        let mut shown = state.shown();
        if topic.symbol() != name {
            state.read_as_venue();
            shown = shown.and_then(|shown| state.shown_as_venue(&shown));
        }
        match shown {
            Some(shown) => state.fields(&shown, fields),
            None => fields(b"trades", b"0"),
        }
        true
    }

    fn version(&self, key: &[u8]) -> u64 {
        let topic = self.symbol(key).and_then(|name| self.bars.board.find(name));
        let Some(topic) = topic else {
            return 0;
        };
        let bars = topic
            .derived
            .bars()
            .and_then(|bars| bars.get(self.interval));
        bars.map_or(1, |bars| bars.state.lock().version() + 1)
    }

    fn len(&self) -> usize {
        self.bars.existing[self.interval as usize].read().len()
    }

    fn name(&self, position: usize, out: &mut Vec<u8>) -> bool {
        let topics = self.bars.existing[self.interval as usize].read();
        let Some(bars) = topics.get(position) else {
            return false;
        };
        out.extend_from_slice(bars.name());
        true
    }

    fn write_error(&self, _: &[u8]) -> Cow<'static, str> {
        "READONLY 'bar:' keys are live market data and can't be written".into()
    }
}
