//! A Redis client that reads market topics as hashes.

use std::collections::BTreeMap;

use tidewire_resp::Value;

use super::model::number;
use super::resp_link::RespLink;
use super::{Around, PeerOfHub, Verdict};
use crate::plan::{End, Plan};

/// See the [module](self).
#[derive(Default)]
pub(crate) struct MarketReader {
    link: RespLink,
    /// The topic that is asked for.
    asked: Option<String>,
    /// The last bids over this connection, whole units.
    bids: BTreeMap<String, i64>,
    /// All bids are what they must be.
    is_right: bool,
}

impl MarketReader {
    fn take(&mut self, name: String, reply: &Value) -> Verdict {
        let bid = match reply {
            Value::Bulk(text) => number(text),
            Value::NullBulk => 0,
            Value::Error(text) if text.starts_with(b"LOADING ") => return Ok(()),
            other => return Err(format!("the bid of {name} is {other:?}")),
        };
        let before = self.bids.insert(name.clone(), bid).unwrap_or(0);
        match bid < before {
            true => Err(format!(
                "the bid of {name} goes back from {before} to {bid}"
            )),
            false => Ok(()),
        }
    }
}

impl PeerOfHub for MarketReader {
    fn name(&self) -> String {
        "market reader".to_owned()
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        if !self.link.is_open() {
            self.link.connect(around);
            (self.asked, self.bids) = (None, BTreeMap::new());
        }
        self.link.step(around)?;
        if let Some(reply) = self.link.reply() {
            let name = self.asked.take().ok_or("a reply to nothing")?;
            self.take(name, &reply)?;
        }
        let due = around.is_quiet || around.random.chance(200);
        let names: Vec<&String> = around.ledger.bids.keys().collect();
        if self.asked.is_none() && due && self.link.is_open() && !names.is_empty() {
            let name = (*around.random.pick(&names)).clone();
            self.link.send(&["HGET", &format!("md:{name}"), "bid"]);
            self.asked = Some(name);
        }
        let is_right = |(name, bid): (&String, &i64)| self.bids.get(name) == Some(&(bid / UNIT));
        self.is_right = around.ledger.bids.iter().all(is_right);
        Ok(())
    }

    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        self.link.close();
        self.is_right = false;
    }

    fn is_settled(&self) -> bool {
        self.is_right
    }

    fn check(&mut self, _around: &mut Around<'_>) -> Verdict {
        Ok(())
    }
}

/// One, in units of 1e-9.
const UNIT: i64 = 1_000_000_000;
