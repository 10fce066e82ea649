//! What a client may do: decided at its login, and again whenever rights change.

use crate::client::Sink;
use crate::wire::{Login, Refused};

use super::{REFUSALS_MAX, Readable, Session, SessionError, SessionState};

impl Session {
    /// Asks the sink whether the client may log in, and keeps the login without its password.
    pub(super) fn admit<S: Sink>(
        &mut self,
        login: &Login,
        sink: &mut S,
    ) -> Result<(), SessionError> {
        self.login = Login {
            credentials: None,
            ..*login
        };
        match sink.log_in(login) {
            Ok(readable) => {
                self.selection.restrict(readable);
                Ok(())
            }
            Err(refused) => {
                self.state = SessionState::Refused;
                self.tell(refused);
                Err(SessionError::Refused)
            }
        }
    }

    /// Tells the client of a refusal. At most [`REFUSALS_MAX`] wait to be sent.
    pub fn tell(&mut self, refused: Refused) {
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push_back(refused);
        }
    }

    /// Replaces what a subscriber may read, at once: nothing else is sent from now on. The symbols
    /// are looked for again, and a snapshot of all that it may read follows.
    pub fn set_readable(&mut self, readable: Readable) {
        if self.receiver.is_some() {
            return;
        }
        let jobs = self.snapshot.iter_mut().chain(&mut self.snapshots_kept);
        for job in jobs.chain(&mut self.snapshot_ranges) {
            job.restrict(&readable);
        }
        self.selection.restrict(readable);
        if self.state == SessionState::Joined {
            self.snapshot_patterns = self.selection.patterns().to_vec();
            self.snapshot_first = !self.selection.is_empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::client::Sink;
    use crate::journal::Journal;
    use crate::server::{Board, Names, SessionConfig, Steps};
    use crate::wire::{
        Control, Definition, Flags, LastValue, Message, Name, PacketWriter, PatternText,
        RefusalReason, RefusalText, Request, SnapshotRequest, Subscribe, Trade, decode_packet,
    };

    /// The symbols whose bit is set may be read; symbol 3 has the name `S3`.
    #[derive(Debug)]
    struct Bits(u64);

    impl Names for Bits {
        fn contains(&self, name: &str) -> bool {
            let symbol: u32 = name[1..].parse().unwrap();
            self.0 & 1 << symbol != 0
        }
    }

    fn readable(bits: u64) -> Readable {
        Some(Arc::new(Bits(bits)))
    }

    /// Each symbol has a value from its definition on.
    struct Symbols {
        count: u32,
        rights_changed: u64,
    }

    impl Board for Symbols {
        fn len(&self) -> usize {
            self.count as usize
        }

        fn definition(&self, index: usize) -> Option<Definition> {
            let name = Name::new(&format!("S{index}")).unwrap();
            Some(Definition::new(index as u32, name))
        }

        fn last_value(&self, index: usize) -> Option<LastValue> {
            Some(LastValue {
                sequence: 1,
                ..LastValue::new(index as u32)
            })
        }

        fn rights_changed(&self) -> u64 {
            self.rights_changed
        }
    }

    /// Lets clients in with these rights, and notes the names that they may not read.
    #[derive(Default)]
    struct Door {
        readable: Readable,
        refusal: Option<Refused>,
        refused: Vec<String>,
    }

    impl Sink for Door {
        fn message(&mut self, _sequence: u64, _message: &Message) {}

        fn log_in(&mut self, _login: &Login) -> Result<Readable, Refused> {
            self.refusal.map_or(Ok(self.readable.clone()), Err)
        }

        fn read_refused(&mut self, name: &str) {
            self.refused.push(name.to_owned());
        }
    }

    fn subscribe(pattern: &str, resume: bool) -> Control {
        Control::Subscribe(Subscribe {
            pattern: PatternText::new(pattern).unwrap(),
            resume,
        })
    }

    fn send(session: &mut Session, door: &mut Door, controls: &[Control]) {
        let mut bytes = Vec::new();
        for control in controls {
            PacketWriter::control(&mut bytes, 0, control);
        }
        let _ = session.receive(&bytes, 0, door);
    }

    fn joined(bits: u64, patterns: &[&str]) -> (Session, Door) {
        let mut session = Session::new(SessionConfig::default(), 0);
        let mut door = Door {
            readable: readable(bits),
            ..Door::default()
        };
        let login = Control::Login(Login {
            subscription_count: patterns.len() as u16,
            ..Login::default()
        });
        let mut controls = vec![login];
        controls.extend(patterns.iter().map(|pattern| subscribe(pattern, false)));
        send(&mut session, &mut door, &controls);
        (session, door)
    }

    /// Returns the symbols of all that the session says, those of snapshots first, and its
    /// refusals.
    fn said(
        session: &mut Session,
        journal: &Journal,
        board: &Symbols,
        steps: u64,
    ) -> ([u64; 2], Vec<RefusalReason>) {
        let mut out = Vec::new();
        let budget = &mut Steps::new(steps);
        while session.produce_within(journal, board, 0, &mut out, 512, budget) {
            if budget.are_used_up() {
                break;
            }
        }
        let (mut symbols, mut refusals, mut rest) = ([0; 2], Vec::new(), out.as_slice());
        while let Some((packet, length)) = decode_packet(rest).unwrap() {
            rest = &rest[length..];
            let flags = packet.header.flags;
            if flags.contains(Flags::CONTROL) {
                let controls = packet.controls().map(Result::unwrap);
                refusals.extend(controls.filter_map(|control| match control {
                    Control::Refused(refused) => Some(refused.reason),
                    _ => None,
                }));
                continue;
            }
            let is_live = usize::from(!flags.contains(Flags::SNAPSHOT));
            let found = packet.messages().filter_map(|one| one.unwrap().symbol());
            found.for_each(|symbol| symbols[is_live] |= 1 << symbol);
        }
        (symbols, refusals)
    }

    fn trade(journal: &mut Journal, symbol: u32) {
        journal.append(&Message::Trade(Trade {
            symbol,
            ..Trade::default()
        }));
    }

    const FOUR: Symbols = Symbols {
        count: 4,
        rights_changed: 0,
    };

    #[test]
    fn all_symbols_are_those_that_may_be_read() {
        let (mut session, _) = joined(0b0101, &["*"]);
        let mut journal = Journal::new(9, 64);
        let first = said(&mut session, &journal, &FOUR, u64::MAX);
        assert_eq!(first, ([0b0101, 0], vec![]));
        (0..4).for_each(|symbol| trade(&mut journal, symbol));
        let live = said(&mut session, &journal, &FOUR, u64::MAX).0;
        assert_eq!(live, [0, 0b0101]);
        // A symbol that is defined later, and one that may not be read.
        let more = Symbols { count: 6, ..FOUR };
        session.set_readable(readable(0b1_0101));
        trade(&mut journal, 4);
        trade(&mut journal, 5);
        let all = said(&mut session, &journal, &more, u64::MAX).0;
        assert_eq!(all[0], 0b1_0101, "a snapshot of all");
    }

    #[test]
    fn an_exact_name_that_may_not_be_read_is_refused_and_the_rest_is_served() {
        let (mut session, door) = joined(0b0001, &["S1", "S0"]);
        let journal = Journal::new(9, 64);
        let told = said(&mut session, &journal, &FOUR, u64::MAX);
        assert_eq!(told, ([0b0001, 0], vec![RefusalReason::SYMBOL_NOT_ALLOWED]));
        assert_eq!(door.refused, ["S1"]);
    }

    #[test]
    fn a_refused_login_ends_the_session_and_its_password_is_not_kept() {
        let mut session = Session::new(SessionConfig::default(), 0);
        let refusal = Refused {
            reason: RefusalReason::WRONG_CREDENTIALS,
            text: RefusalText::truncated("no"),
        };
        let mut door = Door {
            refusal: Some(refusal),
            ..Door::default()
        };
        let login = Login {
            subscription_count: 1,
            credentials: Some(Default::default()),
            ..Login::default()
        };
        send(
            &mut session,
            &mut door,
            &[Control::Login(login), subscribe("*", false)],
        );
        let journal = Journal::new(9, 64);
        let told = said(&mut session, &journal, &FOUR, u64::MAX);
        assert_eq!(told, ([0, 0], vec![RefusalReason::WRONG_CREDENTIALS]));
        assert!(session.is_closing() && session.login().credentials.is_none());
    }

    #[test]
    fn who_resumes_from_before_a_change_of_rights_gets_a_snapshot_beside_the_stream() {
        let mut journal = Journal::new(9, 64);
        (0..4).for_each(|symbol| trade(&mut journal, symbol));
        for (rights_changed, snapshot) in [(0, 0), (2, 0), (3, 0b0110), (5, 0b0110)] {
            let board = Symbols {
                rights_changed,
                ..FOUR
            };
            let mut session = Session::new(SessionConfig::default(), 0);
            let mut door = Door {
                readable: readable(0b0110),
                ..Door::default()
            };
            let login = Control::Login(Login {
                session: 9,
                next_sequence: 3,
                subscription_count: 1,
                ..Login::default()
            });
            send(&mut session, &mut door, &[login, subscribe("*", true)]);
            let told = said(&mut session, &journal, &board, u64::MAX).0;
            assert_eq!(told, [snapshot, 0b0100], "{rights_changed}");
        }
    }

    #[test]
    fn patterns_that_are_taken_back_leave_the_rights() {
        let (mut session, mut door) = joined(0b0001, &["*"]);
        let mut journal = Journal::new(9, 64);
        said(&mut session, &journal, &FOUR, u64::MAX);
        let text = PatternText::new("*").unwrap();
        let again = [Control::Unsubscribe(text), subscribe("*", false)];
        send(&mut session, &mut door, &again);
        (0..4).for_each(|symbol| trade(&mut journal, symbol));
        let told = said(&mut session, &journal, &FOUR, u64::MAX).0;
        assert_eq!(told[0] | told[1], 0b0001);
    }

    /// Rights change at any time, and the client asks for anything again at any time.
    #[test]
    fn nothing_forbidden_is_said_after_rights_have_changed() {
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % below
        };
        let (mut session, mut door) = joined(0b1010_1010, &["*", "S1*", "S3"]);
        let mut journal = Journal::new(9, 256);
        let mut board = Symbols { count: 8, ..FOUR };
        let (mut bits, mut seen) = (0b1010_1010, 0);
        for round in 0..4_000 {
            match next(8) {
                0 => {
                    bits = next(1 << 16);
                    session.set_readable(readable(bits));
                }
                1 if board.count < 16 => board.count += 1,
                2 => {
                    let (from, is_snapshot) = match next(2) {
                        0 => (next(journal.next_sequence() + 1), false),
                        _ => (next(12) << 32 | next(40), true),
                    };
                    let request = Request {
                        from,
                        count: next(500),
                        snapshot: is_snapshot,
                    };
                    send(&mut session, &mut door, &[Control::Request(request)]);
                }
                3 => {
                    let pattern = PatternText::new(["*", "S2", "S1?"][next(3) as usize]).unwrap();
                    let request = SnapshotRequest {
                        pattern,
                        since: next(3),
                    };
                    send(
                        &mut session,
                        &mut door,
                        &[Control::SnapshotRequest(request)],
                    );
                }
                _ => trade(&mut journal, next(u64::from(board.count)) as u32),
            }
            let (told, _) = said(&mut session, &journal, &board, 1 + next(60));
            let told = told[0] | told[1];
            assert_eq!(told & !bits, 0, "round {round}: {told:b} of {bits:b}");
            seen |= told;
        }
        assert_eq!(seen, 0xFFFF, "every symbol was allowed and said once");
    }
}
