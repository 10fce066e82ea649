//! A group of RADIO and DISH as the subscription tables store it.

use crate::message::Message;

/// A group as the tables of subscriptions know it.
#[derive(Debug)]
pub(crate) struct GroupTopic {
    octets: [u8; 1 + Message::GROUP_BYTES_MAX],
    length: usize,
}

impl GroupTopic {
    /// Of its first 255 bytes, or those before a zero, with which libzmq ends a name.
    pub(crate) fn of(group: &[u8]) -> GroupTopic {
        let group = until_zero(&group[..group.len().min(Message::GROUP_BYTES_MAX)]);
        let mut octets = [0; 1 + Message::GROUP_BYTES_MAX];
        debug_assert!(
            group.len() <= Message::GROUP_BYTES_MAX,
            "a length is one octet"
        );
        octets[0] = group.len() as u8;
        octets[1..1 + group.len()].copy_from_slice(group);
        GroupTopic {
            octets,
            length: 1 + group.len(),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}

/// The part of a name before its first zero byte.
pub(crate) fn until_zero(name: &[u8]) -> &[u8] {
    name.split(|&octet| octet == 0).next().unwrap_or_default()
}
