//! A plant that the hub dials, and a Redis client that writes one of its tags.

use tidewire_mx::plant::{LinkId, Plant, PlantConfig};
use tidewire_resp::Value;

use super::resp_link::RespLink;
use crate::link::Link;
use crate::peer::{Around, PeerOfHub, Verdict};
use crate::plan::{End, Plan};
use crate::random::Random;

/// A plant, which lives on when the hub's process ends.
pub(crate) struct SimulatedPlant {
    plant: Plant,
    links: Vec<(LinkId, Link)>,
    /// Where the tag that is written stands among all.
    place: usize,
}

impl SimulatedPlant {
    pub(crate) fn new(random: &mut Random) -> Self {
        let config = PlantConfig {
            tags: 20,
            seed: random.next(),
            first_change_ns: (1_000_000, 3_000_000_000),
            ..PlantConfig::default()
        };
        let plant = Plant::new(config);
        let place = plant.tags().all_names().position(|name| name == TAG);
        Self {
            place: place.expect("the plant has the tag"),
            plant,
            links: Vec::new(),
        }
    }
}

impl PeerOfHub for SimulatedPlant {
    fn name(&self) -> String {
        "plant".to_owned()
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        while let Some((_, socket)) = around.lanes.take_dialed() {
            let link = Link::over(socket, around.random);
            self.links.push((self.plant.connected(), link));
        }
        self.plant.handle_timeout(around.now_ns);
        let mut links = std::mem::take(&mut self.links);
        for (id, mut link) in links.drain(..) {
            if let Some(outgoing) = self.plant.outgoing(id) {
                link.outgoing.append(outgoing);
            }
            let is_open = link.step(around);
            let used = self.plant.receive(id, &link.incoming, around.now_ns);
            let used = used.map_err(|error| error.to_string())?;
            link.incoming.drain(..used);
            let leaves = !around.is_quiet && around.random.chance(1);
            if !is_open || leaves || self.plant.wants_close(id) {
                self.plant.disconnected(id);
            } else {
                self.links.push((id, link));
            }
        }
        let setpoint = self.plant.tags().value_text(self.place);
        // As `Float64(21.5)`.
        let setpoint = setpoint.unwrap_or_default();
        let number = setpoint.trim_end_matches(')').rsplit('(').next();
        around.ledger.setpoint = number.unwrap_or_default().to_owned();
        Ok(())
    }

    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        for (id, _) in std::mem::take(&mut self.links) {
            self.plant.disconnected(id);
        }
    }

    fn is_settled(&self) -> bool {
        !self.links.is_empty()
    }

    fn check(&mut self, _around: &mut Around<'_>) -> Verdict {
        Ok(())
    }
}

/// A Redis client that writes the setpoint of a tank, and reads it back.
#[derive(Default)]
pub(crate) struct TagWriter {
    link: RespLink,
    asked: Asked,
    /// The greatest value that was written, and the greatest that the plant has taken.
    tried: u64,
    taken: u64,
    /// What was read last over this connection.
    read: u64,
    asked_ns: u64,
    is_right: bool,
    /// What was read last, for reports.
    shown: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    Nothing,
    Write(u64),
    Read,
}

impl TagWriter {
    fn take(&mut self, around: &Around<'_>, reply: Value) -> Verdict {
        match (std::mem::take(&mut self.asked), reply) {
            (Asked::Write(value), Value::Simple(_)) => self.taken = value,
            (Asked::Write(_), Value::Error(text)) => {
                let codes: [&[u8]; 4] = [b"UNKNOWN ", b"NOLINK ", b"LOADING ", b"ERR "];
                let text = text.as_slice();
                if !codes.iter().any(|code| text.starts_with(code)) {
                    return Err(format!("a write ends with {}", text.escape_ascii()));
                }
            }
            (Asked::Read, Value::NullBulk) => {}
            (Asked::Read, Value::Error(text)) if text.starts_with(b"LOADING ") => {}
            (Asked::Read, Value::Bulk(text)) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                self.is_right = text.parse::<f64>() == around.ledger.setpoint.parse();
                self.shown = format!("{text} against {}", around.ledger.setpoint);
                return self.note_read(&text);
            }
            (asked, reply) => return Err(format!("{reply:?} answers {asked:?}")),
        }
        Ok(())
    }

    fn note_read(&mut self, text: &str) -> Verdict {
        // Before anything is written the plant has a value of its own, with a fraction.
        let Ok(value) = text.parse::<u64>() else {
            return Ok(());
        };
        let before = std::mem::replace(&mut self.read, value);
        if value < before || value > self.tried && self.tried > 0 && before > 0 {
            let tried = self.tried;
            return Err(format!(
                "the tag is {value} after {before}, and {tried} was written"
            ));
        }
        Ok(())
    }
}

impl PeerOfHub for TagWriter {
    fn name(&self) -> String {
        format!("tag writer ({})", self.shown)
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        if !self.link.is_open() {
            if self.asked != Asked::Nothing {
                return Err(format!("the connection was closed amid {:?}", self.asked));
            }
            self.link.connect(around);
            self.read = 0;
        }
        self.link.step(around)?;
        if let Some(reply) = self.link.reply() {
            self.take(around, reply)?;
        }
        if self.asked != Asked::Nothing {
            let is_overdue = around.now_ns > self.asked_ns + PATIENCE_NS;
            return match around.is_quiet && is_overdue {
                true => Err(format!("no reply to {:?}", self.asked)),
                false => Ok(()),
            };
        }
        let writes = !around.is_quiet && around.random.chance(300);
        if !self.link.is_open() || !writes && !around.is_quiet && !around.random.chance(300) {
            return Ok(());
        }
        self.asked_ns = around.now_ns;
        if writes {
            self.tried += 1_000;
            self.link.send(&["SET", KEY, &self.tried.to_string()]);
            self.asked = Asked::Write(self.tried);
        } else {
            self.link.send(&["GET", KEY]);
            self.asked = Asked::Read;
        }
        Ok(())
    }

    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        self.link.close();
        (self.asked, self.is_right) = (Asked::Nothing, false);
    }

    fn is_settled(&self) -> bool {
        self.is_right
    }

    fn check(&mut self, around: &mut Around<'_>) -> Verdict {
        let value = around.ledger.setpoint.parse::<f64>().unwrap_or_default();
        match value < self.taken as f64 {
            true => Err(format!(
                "the plant has {value}, and had taken {}",
                self.taken
            )),
            false => Ok(()),
        }
    }
}

const TAG: &str = "Tank1.Setpoint";
const KEY: &str = "mx:Tank1.Setpoint";
/// For so long a reply may be waited for, simulated ns.
const PATIENCE_NS: u64 = 120_000_000_000;
