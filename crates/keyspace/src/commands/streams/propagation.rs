//! How deliveries are propagated: as their result, not as the command that read or claimed.

use tidewire_resp::ArgumentList;

use crate::commands::Call;
use crate::stream::{ConsumerGroup, PendingEntry};

/// Commands that bring a replica's group to the same state as here.
#[derive(Debug)]
pub(super) struct GroupChanges<'a> {
    is_wanted: bool,
    key: &'a [u8],
    group: &'a [u8],
    commands: Vec<ArgumentList>,
}

impl<'a> GroupChanges<'a> {
    pub(super) fn new(call: &Call<'_, '_, '_>, key: &'a [u8], group: &'a [u8]) -> Self {
        GroupChanges {
            is_wanted: call.is_propagated(),
            key,
            group,
            commands: Vec::new(),
        }
    }

    /// Adds a pending entry. If the entry was found deleted, this claim removes it from the pending
    /// entries.
    pub(super) fn pending(&mut self, group: &ConsumerGroup, pending: &PendingEntry) {
        if !self.is_wanted {
            return;
        }
        let consumer = group.consumer(pending.consumer);
        let (id, last_id) = (pending.id.text(), group.last_id.text());
        let (mut delivered, mut deliveries) = (itoa::Buffer::new(), itoa::Buffer::new());
        let mut command = ArgumentList::new();
        command.extend([b"XCLAIM", self.key, self.group, consumer.name(), b"0"]);
        command.extend([id.as_bytes(), b"TIME"]);
        command.push(delivered.format(pending.delivered_ms).as_bytes());
        command.push(b"RETRYCOUNT");
        command.push(deliveries.format(pending.deliveries as i64).as_bytes());
        command.extend([&b"FORCE"[..], b"JUSTID", b"LASTID", last_id.as_bytes()]);
        self.commands.push(command);
    }

    /// Adds the group's last delivered id.
    pub(super) fn last_id(&mut self, group: &ConsumerGroup) {
        if !self.is_wanted {
            return;
        }
        let read = group.entries_read.map_or(-1, |read| read as i64);
        let mut command = ArgumentList::new();
        command.extend([&b"XGROUP"[..], b"SETID", self.key, self.group]);
        command.extend([group.last_id.text().as_bytes(), b"ENTRIESREAD"]);
        command.push(itoa::Buffer::new().format(read).as_bytes());
        self.commands.push(command);
    }

    /// Adds a new consumer that has no pending entries.
    pub(super) fn consumer(&mut self, name: &[u8]) {
        if !self.is_wanted {
            return;
        }
        let mut command = ArgumentList::new();
        command.extend([
            &b"XGROUP"[..],
            b"CREATECONSUMER",
            self.key,
            self.group,
            name,
        ]);
        self.commands.push(command);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Propagates all commands in place of the request.
    pub(super) fn propagate(self, call: &mut Call<'_, '_, '_>) {
        call.propagate_no_request();
        for command in &self.commands {
            call.propagate(command.as_arguments());
        }
    }
}
