//! Subscriptions, on both sides: of subscribers here, and of this socket at publishers.

use tidewire_zmtp::Removal;

use crate::batch::Item;
use crate::kind::SocketType;
use crate::message::Last;
use crate::peer::Link;
use crate::slab::Key;
use crate::state::{NotSent, State};

impl State {
    /// Fills `matched` with those who want this message.
    #[inline]
    pub(crate) fn match_subscribers(&mut self, topic: &[u8]) -> Result<(), NotSent> {
        let matched = &mut self.matched;
        matched.clear();
        if self.options.xpub_manual_last_value
            && let Some(last) = self.manual.last.take()
        {
            if self.subscribers.matches_one(topic, last) {
                matched.push(last);
            }
        } else {
            self.subscribers
                .matches(topic, &mut |key| matched.push(key));
        }
        if self.options.invert_matching && self.kind.has_topics() {
            let wanted = std::mem::take(matched);
            let others = self.writable.iter().filter(|key| !wanted.contains(key));
            self.matched.extend(others);
        }
        if !self.options.xpub_no_drop {
            return Ok(());
        }
        let matched = std::mem::take(&mut self.matched);
        let fits = (matched.iter()).all(|&key| self.can_write_topic(key, topic));
        self.matched = matched;
        if fits { Ok(()) } else { Err(NotSent::Full) }
    }

    /// PUB and XPUB: a peer wants what begins with these bytes.
    pub(crate) fn peer_subscribes(&mut self, key: Key, topic: &[u8]) {
        if !self.kind.is_publisher() {
            return;
        }
        if self.options.xpub_manual {
            self.manual.asked.insert(topic, key);
            return self.notice(key, 1, topic);
        }
        debug_assert!(self.peers.get(key).is_some(), "who subscribes is there");
        let insertion = self.subscribers.insert(topic, key);
        if self.kind == SocketType::Xpub
            && (insertion.is_first() || self.options.xpub_verbose || self.options.xpub_verboser)
        {
            self.notice(key, 1, topic);
        }
        self.send_last_values(key, topic);
    }

    /// Sends a peer the last message of every topic that begins so.
    #[inline]
    pub(crate) fn send_last_values(&mut self, key: Key, prefix: &[u8]) {
        if self.last_values.is_some() {
            self.send_matching(key, prefix);
        }
    }

    #[cold]
    fn send_matching(&mut self, key: Key, prefix: &[u8]) {
        let Some(values) = self.last_values.take() else {
            return;
        };
        for frames in values.matching(prefix) {
            let Some((last, head)) = frames.split_last() else {
                continue;
            };
            if self.can_write(key) {
                let mut last = last.clone();
                self.transmit(key, head.iter().cloned(), Last::Message(&mut last));
            } else {
                self.count_drop(key);
            }
        }
        self.last_values = Some(values);
    }

    /// PUB and XPUB: a peer wants them no more.
    pub(crate) fn peer_cancels(&mut self, key: Key, topic: &[u8]) {
        if !self.kind.is_publisher() {
            return;
        }
        if self.options.xpub_manual {
            self.manual.asked.remove_pair(topic, key);
            return self.notice(key, 0, topic);
        }
        let removal = self.subscribers.remove_pair(topic, key);
        // The program is told of one that ends nothing too, as by libzmq.
        let others_remain = removal == Removal::LastOfSubscriber;
        if self.kind == SocketType::Xpub && (!others_remain || self.options.xpub_verboser) {
            self.notice(key, 0, topic);
        }
    }

    /// The program is told of a subscription or its end.
    fn notice(&mut self, key: Key, octet: u8, topic: &[u8]) {
        let identity = self.peers.get(key).and_then(|peer| peer.identity.as_ref());
        self.manual.notice(Some(key), octet, topic, identity);
    }

    /// A subscriber is gone, and all that it wanted.
    pub(crate) fn forget_subscriber(&mut self, key: Key) {
        let mut ended = Vec::new();
        if self.options.xpub_manual {
            ended = prefixes_of(&mut self.manual.asked, key);
            self.subscribers.remove_subscriber(key, &mut |_| {});
        } else if self.options.xpub_verboser {
            ended = prefixes_of(&mut self.subscribers, key);
        } else {
            let subscribers = &mut self.subscribers;
            subscribers.remove_subscriber(key, &mut |topic| ended.push(topic.to_vec()));
        }
        if self.kind == SocketType::Xpub {
            ended.sort_unstable();
            for topic in ended {
                self.manual.notice(None, 0, &topic, None);
            }
        }
        self.manual.forget(key);
    }

    /// XSUB: the program sends a subscription as a message.
    pub(crate) fn send_subscription(&mut self, bytes: &[u8]) {
        if let Some((&octet, topic)) = bytes.split_first() {
            match octet {
                1 => self.subscribe(topic),
                _ => self.unsubscribe(topic),
            };
        }
    }

    /// SUB and XSUB: adds a subscription and tells every publisher.
    pub(crate) fn subscribe(&mut self, topic: &[u8]) {
        self.subscriptions.insert(topic, 0);
        self.tell_publishers(topic, true);
    }

    /// SUB and XSUB: takes one back; publishers are told when none like it is left.
    pub(crate) fn unsubscribe(&mut self, topic: &[u8]) {
        let removal = self.subscriptions.remove(topic, 0);
        if removal.is_last() || self.options.xsub_verbose_unsubscribe {
            self.tell_publishers(topic, false);
        }
    }

    fn tell_publishers(&mut self, topic: &[u8], subscribes: bool) {
        debug_assert!(
            !self.kind.is_publisher(),
            "a publisher subscribes to nothing"
        );
        for index in 0..self.writable.len() {
            let key = self.writable[index];
            self.tell_publisher(key, topic, subscribes);
            // Written together with those that follow at once, as messages are.
            self.after_push(key);
        }
    }

    /// Tells a publisher that has just come all that is wanted.
    pub(crate) fn tell_subscriptions(&mut self, key: Key) {
        let mut topics = Vec::with_capacity(self.subscriptions.prefix_count());
        self.subscriptions
            .for_each_prefix(&mut |topic, _| topics.push(topic.to_vec()));
        debug_assert_eq!(
            topics.len(),
            self.subscriptions.prefix_count(),
            "each is told once"
        );
        for topic in topics {
            self.tell_publisher(key, &topic, true);
        }
        self.flush(key);
    }

    fn tell_publisher(&mut self, key: Key, topic: &[u8], subscribes: bool) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        match &mut peer.link {
            // Behind the messages that wait: in their form.
            Link::Stream(link)
                if link.is_ready() && self.kind == SocketType::Xsub && !peer.backlog.is_empty() =>
            {
                let mut bytes = vec![u8::from(subscribes)];
                bytes.extend_from_slice(topic);
                self.hold_back(key, std::iter::empty(), Last::Slice(&bytes));
            }
            // A publisher that is not connected gets all subscriptions when it connects.
            Link::Stream(link) if link.is_ready() => match self.kind {
                SocketType::Dish => link.push_membership(topic, subscribes),
                _ => link.push_subscription(topic, subscribes),
            },
            Link::Stream(_) | Link::Datagrams(_) | Link::None => {}
            Link::Pipe(pipe) => pipe.write_control(match subscribes {
                true => Item::Subscribe(topic.to_vec()),
                false => Item::Cancel(topic.to_vec()),
            }),
        }
    }
}

/// Removes all prefixes of a subscriber and returns them, also those that others have. It walks the
/// whole table, but only in verbose modes and when a peer goes.
fn prefixes_of(table: &mut tidewire_zmtp::PrefixTable<Key>, key: Key) -> Vec<Vec<u8>> {
    let mut prefixes = Vec::with_capacity(table.prefix_count());
    table.for_each_prefix(&mut |prefix, _| prefixes.push(prefix.to_vec()));
    prefixes.retain(|prefix| {
        let before = table.len();
        table.remove_pair(prefix, key);
        table.len() < before
    });
    prefixes
}
