//! All that a hub holds, to compare it with what another one holds.

use tidewire_resp::Value;

use super::resp_link::RespLink;
use crate::peer::Around;

/// Values of all keys, their deadlines, and where the stream of replication ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Audit {
    digest: String,
    /// Keys and their deadlines, ms, of each database.
    keys: Vec<(usize, String, i64)>,
    offset: String,
}

/// Asks a hub for its audit.
#[derive(Debug)]
pub(crate) struct Auditor {
    link: RespLink,
    replies: Vec<Value>,
}

impl Auditor {
    pub(crate) fn new(around: &mut Around<'_>) -> Self {
        let mut link = RespLink::default();
        link.connect(around);
        link.send(&["DEBUG", "DIGEST"]);
        link.send(&["INFO", "replication"]);
        for database in DATABASES {
            link.send(&["SELECT", &database.to_string()]);
            link.send(&["EVAL", DEADLINES, "0"]);
        }
        Self {
            link,
            replies: Vec::new(),
        }
    }

    /// Goes on; the audit, once all replies have come.
    pub(crate) fn step(&mut self, around: &mut Around<'_>) -> Result<Option<Audit>, String> {
        self.link.step(around)?;
        self.replies
            .extend(std::iter::from_fn(|| self.link.reply()));
        match self.replies.len() == 2 + 2 * DATABASES.len() {
            true => Audit::read(&self.replies).map(Some),
            false => Ok(None),
        }
    }
}

impl Audit {
    fn read(replies: &[Value]) -> Result<Self, String> {
        let [Value::Simple(digest), Value::Bulk(info), lists @ ..] = replies else {
            return Err(format!("an audit is answered with {replies:?}"));
        };
        let info = String::from_utf8_lossy(info);
        let mut lines = info.lines();
        let offset = lines.find_map(|line| line.strip_prefix("master_repl_offset:"));
        let mut keys = Vec::new();
        let (lists, _) = lists.as_chunks::<2>();
        for (database, list) in DATABASES.iter().zip(lists) {
            let [Value::Simple(_), Value::Array(list)] = list else {
                return Err(format!("keys are {list:?}"));
            };
            let (pairs, _) = list.as_chunks::<2>();
            for pair in pairs {
                let [Value::Bulk(key), Value::Integer(deadline_ms)] = pair else {
                    return Err(format!("a key is {pair:?}"));
                };
                keys.push((*database, key.escape_ascii().to_string(), *deadline_ms));
            }
        }
        keys.sort();
        Ok(Self {
            digest: String::from_utf8_lossy(digest).into_owned(),
            keys,
            offset: offset.unwrap_or_default().to_owned(),
        })
    }

    /// Whether the keys are the same.
    pub(crate) fn has_same_keys(&self, other: &Self) -> bool {
        (&self.digest, &self.keys) == (&other.digest, &other.keys)
    }

    /// In what two differ, for reports.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let only = |one: &Self, other: &Self| {
            let keys = one.keys.iter().filter(|key| !other.keys.contains(key));
            format!("{:?}", keys.take(5).collect::<Vec<_>>())
        };
        format!(
            "{} keys against {}, only here {}, only there {}; digests {} and {}; offsets {} and {}",
            self.keys.len(),
            other.keys.len(),
            only(self, other),
            only(other, self),
            self.digest,
            other.digest,
            self.offset,
            other.offset
        )
    }
}

/// Replies with each key and its deadline.
const DEADLINES: &str = "local found = {} \
    for _, key in ipairs(redis.call('KEYS', '*')) do \
    found[#found + 1] = key; found[#found + 1] = redis.call('PEXPIRETIME', key) end \
    return found";
/// Those that peers use.
const DATABASES: [usize; 4] = [0, 3, 5, 6];
