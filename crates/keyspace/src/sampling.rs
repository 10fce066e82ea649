//! Random members of a collection: one, several distinct ones, or many with repetition.

use std::collections::HashSet;

use tidewire_resp::Writer;

use crate::entry::Entry;
use crate::error::CommandError;
use crate::table::Table;

/// The members to draw from.
pub(crate) enum Pool<'a, T> {
    /// All members of a small collection.
    Listed(Vec<T>),
    /// A table, and a function that converts an entry.
    Table(&'a Table, fn(&'a Entry) -> T),
}

impl<'a, T> Pool<'a, T> {
    fn len(&self) -> usize {
        match self {
            Pool::Listed(all) => all.len(),
            Pool::Table(table, _) => table.len(),
        }
    }

    /// Passes a random member to `show`, unless the collection is empty.
    pub(crate) fn one(&self, mut random: impl FnMut() -> u64, show: impl FnOnce(&T)) {
        match self {
            Pool::Listed(all) if all.is_empty() => {}
            Pool::Listed(all) => show(&all[random_below(random(), all.len())]),
            Pool::Table(table, shown) => {
                if let Some(entry) = table.random(random) {
                    show(&shown(entry));
                }
            }
        }
    }

    /// Passes up to `wanted` different members to `show`.
    pub(crate) fn distinct(
        self,
        wanted: usize,
        mut random: impl FnMut() -> u64,
        mut show: impl FnMut(&T),
    ) {
        let is_few = wanted < self.len() / 3;
        let mut all = match self {
            // If few of many are wanted, draws until they differ, without listing all members.
            Pool::Table(table, shown) if is_few => {
                let mut seen = HashSet::with_capacity(wanted);
                while seen.len() < wanted
                    && let Some(entry) = table.random(&mut random)
                {
                    if seen.insert(entry.key().as_ptr()) {
                        show(&shown(entry));
                    }
                }
                return;
            }
            Pool::Table(table, shown) => table.iter().map(shown).collect(),
            Pool::Listed(all) => all,
        };
        let count = all.len();
        if wanted < count {
            for at in 0..wanted {
                all.swap(at, at + random_below(random(), count - at));
            }
        }
        all.iter().take(wanted).for_each(show);
    }
}

/// Returns different positions below `count`: as many as wanted, or all.
pub(super) fn positions(
    count: usize,
    wanted: usize,
    mut random: impl FnMut(usize) -> usize,
) -> Vec<usize> {
    if wanted < count / 3 {
        let mut seen = HashSet::with_capacity(wanted);
        let mut positions = Vec::with_capacity(wanted);
        while positions.len() < wanted {
            let position = random(count);
            if seen.insert(position) {
                positions.push(position);
            }
        }
        return positions;
    }
    let mut positions: Vec<usize> = (0..count).collect();
    for at in 0..wanted.min(count) {
        if wanted < count {
            positions.swap(at, at + random(count - at));
        }
    }
    positions.truncate(wanted);
    debug_assert_eq!(positions.len(), wanted.min(count));
    positions
}

/// Replies `count` random members with repetition, each of `elements` elements. Refuses a reply
/// above the limits, and then writes nothing.
pub(super) fn reply_repeated(
    reply: &mut Writer<'_>,
    count: u64,
    elements: usize,
    mut write_one: impl FnMut(&mut Writer<'_>),
) -> Result<(), CommandError> {
    if count > REPEATED_MAX {
        let text = format!(
            "ERR count -{count} is out of range: one reply repeats up to {REPEATED_MAX} members"
        );
        return Err(CommandError::RefusedWith(text.into()));
    }
    let start = reply.position();
    reply.array(count as usize * elements);
    for _ in 0..count {
        write_one(reply);
        if reply.position() - start > REPEATED_BYTES_MAX {
            reply.cut_back(start);
            let text = format!(
                "ERR count -{count} is too large for members of this size: one reply repeats up to \
                 {REPEATED_BYTES_MAX} bytes"
            );
            return Err(CommandError::RefusedWith(text.into()));
        }
    }
    Ok(())
}

/// Maximum number of repeated members. More would hold a lane for over half a second.
const REPEATED_MAX: u64 = 1 << 24;
/// Maximum bytes of repeated members. More would be an attack on memory: a member may be 512 MiB.
const REPEATED_BYTES_MAX: usize = 512 << 20;

/// Maps any random number to a random number below `count`, which is not 0.
pub(crate) fn random_below(random: u64, count: usize) -> usize {
    debug_assert!(count > 0);
    ((u128::from(random) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use tidewire_resp::Protocol;

    use super::*;

    #[test]
    fn too_many_repeated_members_are_refused_not_truncated() {
        let mut out = b"before".to_vec();
        let mut reply = Writer::new(&mut out, Protocol::Resp2);
        let error = reply_repeated(&mut reply, REPEATED_MAX + 1, 1, |_| panic!("none is drawn"));
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("-16777217") && text.contains("16777216"),
            "{text}"
        );
        let large = vec![b'x'; 64 << 20];
        let error = reply_repeated(&mut reply, 100, 1, |reply| reply.bulk(&large));
        assert!(error.unwrap_err().to_string().contains("536870912 bytes"));
        assert_eq!(
            reply_repeated(&mut reply, 2, 2, |reply| reply.bulk(b"x")),
            Ok(())
        );
        assert_eq!(out, b"before*4\r\n$1\r\nx\r\n$1\r\nx\r\n");
    }

    #[test]
    fn drawn_positions_differ_for_few_and_for_many() {
        let mut next = 0;
        let mut random = move |count: usize| {
            next += 7;
            next % count
        };
        for (count, wanted, expected) in
            [(10, 2, 2), (10, 7, 7), (10, 10, 10), (3, 9, 3), (0, 5, 0)]
        {
            let mut drawn = positions(count, wanted, &mut random);
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), expected);
            assert!(drawn.iter().all(|&position| position < count));
        }
    }
}
