//! Users at the other end of feed connections, and what they may do.

use std::fmt;

use tidewire_feed::server::{REFUSALS_MAX, Readable};
use tidewire_feed::wire::{Login, RefusalReason, RefusalText, Refused};

/// The user at the other end of a feed connection. The hub knows its users.
pub trait FeedUser: fmt::Debug + Send {
    /// Logs in as the user that a login names. Returns what it may read, or a refusal.
    fn log_in(&mut self, login: &Login) -> Result<Readable, Refused>;

    /// Returns the user's name.
    fn name(&self) -> &[u8];

    /// Returns whether the user may publish a symbol.
    fn may_publish(&self, symbol: &str) -> bool;

    /// Notes for the operator that the user was refused a symbol.
    fn note_refused(&self, symbol: &str);

    /// Takes the user's newest rights.
    fn look(&mut self) -> Look;
}

/// What a change of users means for a connection.
#[derive(Debug)]
pub enum Look {
    /// Nothing.
    Same,
    /// It may read something else.
    Reads(Readable),
    /// It may not publish all that it could.
    PublishesLess,
    /// Its user is deleted.
    Gone(Refused),
}

/// The user of an [`Ingest`](crate::ingest), if it has one, and what was refused to it.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    user: Option<Box<dyn FeedUser>>,
    /// Refusals that the peer is to be told.
    refusals: Vec<Refused>,
    /// Number of refusals by name, at most [`REFUSALS_MAX`].
    named: usize,
}

impl Guard {
    pub(crate) fn of(user: Option<Box<dyn FeedUser>>) -> Self {
        Self {
            user,
            ..Self::default()
        }
    }

    pub(crate) fn log_in(&mut self, login: &Login) -> Result<Readable, Refused> {
        let user = self.user.as_mut();
        user.map_or(Ok(None), |user| user.log_in(login))
    }

    /// Returns the user's name; that of no user is empty.
    pub(crate) fn name(&self) -> &[u8] {
        self.user.as_ref().map_or(b"", |user| user.name())
    }

    /// Returns whether a symbol may be published by its own name and, if it is a venue of another
    /// one now, by that one's.
    pub(crate) fn may_publish(&self, symbol: &str, parent: Option<&str>) -> bool {
        let may = |name: &str| {
            let user = self.user.as_ref();
            user.is_none_or(|user| user.may_publish(name))
        };
        may(symbol) && parent.is_none_or(may)
    }

    pub(crate) fn look(&mut self) -> Look {
        let user = self.user.as_mut();
        user.map_or(Look::Same, |user| user.look())
    }

    /// Notes that the user may not publish a symbol. The peer is told the first names.
    pub(crate) fn refuse_symbol(&mut self, symbol: &str) {
        let text = format!("{MAY_NOT_PUBLISH}{symbol}");
        if self.tell(RefusalReason::SYMBOL_NOT_ALLOWED, &text)
            && let Some(user) = &self.user
        {
            user.note_refused(symbol);
        }
    }

    /// Notes that a symbol has a name for values that a hub has consolidated.
    pub(crate) fn refuse_name_of_sum(&mut self, symbol: &str) {
        let text = format!("{NAME_OF_SUM}{symbol}");
        self.tell(RefusalReason::SYMBOL_NOT_ALLOWED, &text);
    }

    /// Notes that there is no room for a symbol.
    pub(crate) fn refuse_for_room(&mut self, symbol: &str) {
        let text = format!("{NO_ROOM}{symbol}");
        self.tell(RefusalReason::TOO_MANY_SYMBOLS, &text);
    }

    /// Notes that the user may not read a name.
    pub(crate) fn note_unread(&mut self, name: &str) {
        if self.named < REFUSALS_MAX
            && let Some(user) = &self.user
        {
            self.named += 1;
            user.note_refused(name);
        }
    }

    pub(crate) fn take_refusals(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refusals)
    }

    fn tell(&mut self, reason: RefusalReason, text: &str) -> bool {
        let is_first = self.user.is_some() && self.named < REFUSALS_MAX;
        if is_first {
            self.named += 1;
            let text = RefusalText::truncated(text);
            self.refusals.push(Refused { reason, text });
        }
        is_first
    }
}

const MAY_NOT_PUBLISH: &str = "NotAllowed: may not publish ";
const NAME_OF_SUM: &str = "NotAllowed: only hubs have the name ";
const NO_ROOM: &str = "TooMany: no room for ";

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// May publish what begins with `A`, and counts what it is told.
    #[derive(Debug)]
    struct Ann(Arc<AtomicU64>);

    impl FeedUser for Ann {
        fn log_in(&mut self, _login: &Login) -> Result<Readable, Refused> {
            Ok(None)
        }

        fn name(&self) -> &[u8] {
            b"ann"
        }

        fn may_publish(&self, symbol: &str) -> bool {
            symbol.starts_with('A')
        }

        fn note_refused(&self, _symbol: &str) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn look(&mut self) -> Look {
            Look::PublishesLess
        }
    }

    #[test]
    fn a_venue_of_another_symbol_needs_that_one_too() {
        let guard = Guard::of(Some(Box::new(Ann(Arc::default()))));
        assert!(guard.may_publish("A@X", None) && guard.may_publish("A@X", Some("A")));
        assert!(!guard.may_publish("A@X", Some("B")) && !guard.may_publish("B", None));
    }

    #[test]
    fn refusals_of_a_connection_have_their_bound() {
        let noted: Arc<AtomicU64> = Arc::default();
        let mut guard = Guard::of(Some(Box::new(Ann(noted.clone()))));
        guard.refuse_name_of_sum("A@consolidated");
        let told = guard.take_refusals();
        let text = "NotAllowed: only hubs have the name A@consolidated";
        assert_eq!(told[0].text.as_str(), text);
        for number in 0..1_000 {
            guard.refuse_symbol(&format!("B{number}"));
            guard.refuse_for_room("A1");
            guard.note_unread("B1");
        }
        let told = guard.take_refusals();
        assert!(told.len() < REFUSALS_MAX && guard.take_refusals().is_empty());
        assert!(noted.load(Ordering::Relaxed) < REFUSALS_MAX as u64);
        assert_eq!(told[0].text.as_str(), "NotAllowed: may not publish B0");
        assert_eq!(told[1].text.as_str(), "TooMany: no room for A1");
    }

    #[test]
    fn an_input_without_a_user_may_do_everything() {
        let mut guard = Guard::default();
        assert!(guard.may_publish("B", Some("C")) && guard.name().is_empty());
        assert!(matches!(guard.look(), Look::Same));
        guard.refuse_for_room("A1");
        assert!(guard.take_refusals().is_empty(), "there is no peer to tell");
    }
}
