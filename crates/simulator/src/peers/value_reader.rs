//! A Redis client that reads what others than Redis clients have written.

use std::collections::BTreeMap;

use tidewire_resp::Value;

use super::model::number;
use super::resp_link::RespLink;
use crate::peer::{Around, Ledger, PeerOfHub, Verdict};
use crate::plan::{End, Plan};

/// Reads the bids of market topics, and live keys that ZeroMQ peers push.
#[derive(Default)]
pub(crate) struct ValueReader {
    link: RespLink,
    /// The key that is asked for.
    asked: Option<String>,
    /// The last values over this connection.
    values: BTreeMap<String, i64>,
    /// What differs from what it must be in the end.
    wrong: Option<String>,
}

impl ValueReader {
    fn take(&mut self, key: String, reply: &Value) -> Verdict {
        let value = match reply {
            Value::Bulk(text) => number(text),
            Value::NullBulk => 0,
            Value::Error(text) if text.starts_with(b"LOADING ") => return Ok(()),
            other => return Err(format!("{key} is {other:?}")),
        };
        let before = self.values.insert(key.clone(), value).unwrap_or(0);
        match value < before {
            true => Err(format!("{key} goes back from {before} to {value}")),
            false => Ok(()),
        }
    }

    fn compare(&mut self, expected: &BTreeMap<String, i64>) {
        let is_wrong = |(key, value): &(&String, &i64)| self.values.get(*key) != Some(*value);
        self.wrong = expected.iter().find(is_wrong).map(|(key, value)| {
            let read = self.values.get(key);
            format!("{key} must be {value}, and is {read:?}")
        });
    }
}

impl PeerOfHub for ValueReader {
    fn name(&self) -> String {
        match &self.wrong {
            Some(wrong) => format!("value reader ({wrong})"),
            None => "value reader".to_owned(),
        }
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        if !self.link.is_open() {
            self.link.connect(around);
            (self.asked, self.values) = (None, BTreeMap::new());
        }
        self.link.step(around)?;
        if let Some(reply) = self.link.reply() {
            let key = self.asked.take().ok_or("a reply to nothing")?;
            self.take(key, &reply)?;
            let read = self.values.iter();
            let read = read.map(|(key, value)| (key.clone().into_bytes(), *value as u64));
            around.ledger.read = read.collect();
        }
        let expected = expected(around.ledger);
        let is_due = around.is_quiet || around.random.chance(200);
        let keys: Vec<&String> = expected.keys().collect();
        if self.asked.is_none() && is_due && self.link.is_open() && !keys.is_empty() {
            let key = (*around.random.pick(&keys)).clone();
            match key.starts_with("md:") {
                true => self.link.send(&["HGET", &key, "bid"]),
                false => self.link.send(&["GET", &key]),
            }
            self.asked = Some(key);
        }
        self.compare(&expected);
        Ok(())
    }

    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        self.link.close();
    }

    fn is_settled(&self) -> bool {
        self.wrong.is_none()
    }

    fn check(&mut self, _around: &mut Around<'_>) -> Verdict {
        Ok(())
    }
}

fn expected(ledger: &Ledger) -> BTreeMap<String, i64> {
    let bids = ledger
        .bids
        .iter()
        .map(|(name, bid)| (format!("md:{name}"), bid / UNIT));
    let live = ledger.live.iter().filter_map(|(topic, value)| {
        let is_pushed = topic.starts_with(b"live:p");
        let key = String::from_utf8_lossy(topic).into_owned();
        is_pushed.then_some((key, *value as i64))
    });
    bids.chain(live).collect()
}

/// One, in units of 1e-9.
const UNIT: i64 = 1_000_000_000;
