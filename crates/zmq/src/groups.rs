//! RADIO and DISH: messages by groups, which are joined whole, not by their beginnings.
//!
//! A group is kept in the tables of subscriptions behind its length: no other group then begins
//! as it does. On the way a message is its group's name and its body, two frames.

use crate::endpoint::Loss;
use crate::error::Error;
use crate::group_topic::{GroupTopic, until_zero};
use crate::kind::SocketType;
use crate::link::Frames;
use crate::message::{Last, Message};
use crate::peer::Link;
use crate::slab::Key;
use crate::socket::Socket;
use crate::state::{NotSent, State};

impl Socket {
    /// DISH: receives what is sent to this group from now on.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a group that it is in already, one of more than 255 bytes,
    /// or with a zero among them; [`Error::NotSupported`] for another type of socket.
    pub fn join(&self, group: impl AsRef<[u8]>) -> Result<(), Error> {
        self.change_group(group.as_ref(), true)
    }

    /// DISH: receives no more of what is sent to this group.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a group that it is not in; [`Error::NotSupported`] for
    /// another type of socket.
    pub fn leave(&self, group: impl AsRef<[u8]>) -> Result<(), Error> {
        self.change_group(group.as_ref(), false)
    }

    fn change_group(&self, group: &[u8], joins: bool) -> Result<(), Error> {
        let mut state = self.core().enter_timed()?;
        if self.core().kind != SocketType::Dish {
            return Err(Error::NotSupported);
        }
        let is_name = group.len() <= Message::GROUP_BYTES_MAX && !group.contains(&0);
        let topic = GroupTopic::of(group);
        if !is_name || state.subscriptions.covers(topic.bytes()) == joins {
            return Err(Error::InvalidArgument);
        }
        match joins {
            true => state.subscribe(topic.bytes()),
            false => state.unsubscribe(topic.bytes()),
        }
        self.core().leave(&mut state);
        Ok(())
    }
}

impl State {
    /// RADIO: fills `matched` with those who are in the message's group, and puts the group's
    /// name before it.
    pub(crate) fn begin_for_group(&mut self, frame: &Last<'_>) -> Result<(), NotSent> {
        let group = match frame {
            Last::Message(message) => message.group(),
            Last::Slice(_) => b"",
        };
        debug_assert!(self.sending.is_empty(), "a message begins with its group");
        self.match_subscribers(GroupTopic::of(group).bytes())?;
        let mut name = Message::from_slice(group);
        name.set_more(true);
        self.sending.push(name);
        Ok(())
    }

    /// DISH: the message of two frames, if its group was joined. A peer that sends anything else is
    /// let go.
    pub(crate) fn receive_of_group(&mut self, key: Key, frames: Frames) -> Option<Frames> {
        if let Some(Link::Datagrams(_)) = self.peers.get(key).map(|peer| &peer.link) {
            // It carries its group already, which may have been left since.
            let group = GroupTopic::of(frames.first().group());
            return self.subscriptions.covers(group.bytes()).then_some(frames);
        }
        let mut frames = frames.into_vec();
        let (Some(mut body), Some(name), true) = (frames.pop(), frames.pop(), frames.is_empty())
        else {
            return self.refuse_frames(key);
        };
        if name.len() > Message::GROUP_BYTES_MAX {
            return self.refuse_frames(key);
        }
        let group = until_zero(&name);
        if !self.subscriptions.covers(GroupTopic::of(group).bytes()) {
            return None;
        }
        debug_assert!(!group.contains(&0), "a group ends before its first zero");
        body.put_group(group);
        Some(Frames::One(body))
    }

    #[cold]
    fn refuse_frames(&mut self, key: Key) -> Option<Frames> {
        tracing::debug!("a message to a DISH is a group and a body");
        if let Some(peer) = self.peers.get_mut(key) {
            peer.incoming.clear();
        }
        self.lose(key, Loss::Protocol);
        None
    }
}
