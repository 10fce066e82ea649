//! SLOWLOG and COMMANDLOG: slow commands, and those with large requests or replies, newest first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidewire_resp::Arguments;

/// The logs of commands that took long, or were large.
#[derive(Debug, Default)]
pub(crate) struct CommandLogs {
    pub(crate) slow: Slowlog,
    pub(crate) large_requests: Slowlog,
    pub(crate) large_replies: Slowlog,
}

/// Commands that took long, or were large.
#[derive(Debug, Default)]
pub(crate) struct Slowlog {
    entries: Mutex<VecDeque<SlowCommand>>,
    next_id: AtomicU64,
}

/// A command that took long, or was large.
#[derive(Clone, Debug)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    pub(crate) unix_s: u64,
    /// Its time in µs, or its bytes.
    pub(crate) measure: u64,
    /// Cut short where there are many or they are long.
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) address: String,
    pub(crate) name: String,
}

impl Slowlog {
    /// Keeps a command, and at most `length_max` of them.
    pub(crate) fn push(
        &self,
        length_max: usize,
        measure: u64,
        arguments: Vec<Vec<u8>>,
        address: String,
        name: String,
    ) {
        if length_max == 0 {
            return;
        }
        let mut entries = self.entries.lock();
        entries.push_front(SlowCommand {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            unix_s: tidewire_lane::unix_ns() / 1_000_000_000,
            measure,
            arguments,
            address,
            name,
        });
        entries.truncate(length_max);
        debug_assert!(
            entries
                .iter()
                .is_sorted_by(|newer, older| newer.id > older.id),
            "newest first"
        );
    }

    /// The newest, at most `count`.
    pub(crate) fn newest(&self, count: usize) -> Vec<SlowCommand> {
        self.entries.lock().iter().take(count).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.lock().len()
    }

    pub(crate) fn reset(&self) {
        *self.entries.lock() = VecDeque::new();
    }
}

/// Arguments as they are kept: few, and their beginnings.
pub(crate) fn trimmed(arguments: Arguments<'_>, is_hidden: impl Fn(usize) -> bool) -> Vec<Vec<u8>> {
    let count = arguments.len();
    let shown = match count > ARGUMENTS_MAX {
        true => ARGUMENTS_MAX - 1,
        false => count,
    };
    let trim = |(number, argument): (usize, &[u8])| match argument.get(..ARGUMENT_BYTES_MAX) {
        _ if is_hidden(number) => b"(redacted)".to_vec(),
        Some(begin) if argument.len() > ARGUMENT_BYTES_MAX => {
            let more = argument.len() - ARGUMENT_BYTES_MAX;
            [begin, format!("... ({more} more bytes)").as_bytes()].concat()
        }
        _ => argument.to_vec(),
    };
    let mut kept: Vec<Vec<u8>> = arguments.iter().take(shown).enumerate().map(trim).collect();
    if shown < count {
        debug_assert_eq!(
            shown,
            ARGUMENTS_MAX - 1,
            "the last place says how many more there are"
        );
        let more = count - shown;
        kept.push(format!("... ({more} more arguments)").into_bytes());
    }
    kept
}

/// Arguments of a command that are kept, as Redis has it.
const ARGUMENTS_MAX: usize = 32;
/// Bytes of an argument that are kept, as Redis has it.
const ARGUMENT_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_resp::ArgumentList;

    #[test]
    fn many_and_long_arguments_are_cut_short() {
        let mut list = ArgumentList::new();
        list.push(b"sadd");
        list.push(&[b'a'; 129]);
        (2..33).for_each(|_| list.push(b"x"));
        let kept = trimmed(list.as_arguments(), |at| at == 2);
        assert_eq!(kept.len(), 32);
        assert_eq!(kept[1], [&[b'a'; 128][..], b"... (1 more bytes)"].concat());
        assert_eq!(kept[2], b"(redacted)");
        assert_eq!(kept[31], b"... (2 more arguments)");
    }

    #[test]
    fn the_newest_are_kept() {
        let log = Slowlog::default();
        for us in 0..5 {
            log.push(3, us, Vec::new(), String::new(), String::new());
        }
        let ids: Vec<u64> = log.newest(10).iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [4, 3, 2]);
        log.reset();
        assert_eq!(log.len(), 0);
        log.push(0, 1, Vec::new(), String::new(), String::new());
        assert_eq!(log.len(), 0);
    }
}
