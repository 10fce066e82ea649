use super::*;
use crate::frame::Frame;
use crate::head::Head;
use tidewire_feed::journal::{Everything, Filter, Journal};
use tidewire_feed::server::{Board, Relay};
use tidewire_feed::wire::{Definition, LastValue, Message, Name, Trade};

const MS: u64 = 1_000_000;

struct OneOf(u32);

impl Filter for OneOf {
    fn passes_all(&self) -> bool {
        false
    }

    fn passes(&self, symbol: u32) -> bool {
        symbol == self.0
    }
}

fn trade(symbol: u32) -> Message {
    Message::Trade(Trade {
        symbol,
        price: 1,
        size: 1,
        ..Trade::default()
    })
}

fn journal(capacity: usize) -> Journal {
    let mut journal = Journal::new(7, capacity);
    say(&mut journal, 10);
    journal
}

fn say(journal: &mut Journal, count: usize) {
    (0..count).for_each(|_| assert!(journal.append(&trade(0)) > 0));
}

/// A frame without its body.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    /// Expected last sequence, first sequence, count, flags.
    Log(u64, u64, u32, FrameFlags),
    Live(u64, u32, FrameFlags),
    Page(u32, u64, u32),
    Head(u64),
    Ask(u64),
}

fn sent(actions: &[OwnerAction]) -> Vec<Sent> {
    let sent = |action: &OwnerAction| match action {
        OwnerAction::AskLogEnd { question } => Sent::Ask(*question),
        OwnerAction::Publish(publication) => {
            let frame = Frame::decode(&publication.bytes).unwrap();
            let FrameHeader {
                first,
                count,
                flags,
                ..
            } = frame.header;
            assert!(frame.header.epoch == 5 && frame.header.session == 7);
            match publication.to {
                Destination::Log { expected_last, .. } => {
                    assert!(frame.is_consistent());
                    Sent::Log(expected_last, first, count, flags)
                }
                Destination::Live => Sent::Live(first, count, flags),
                Destination::Page(page) => Sent::Page(page, first, count),
                Destination::Head => Sent::Head(first),
            }
        }
    };
    actions.iter().map(sent).collect()
}

fn ids(actions: &[OwnerAction]) -> Vec<FrameId> {
    let id = |action: &OwnerAction| match action {
        OwnerAction::Publish(Publication {
            to: Destination::Log { id, .. },
            ..
        }) => Some(*id),
        _ => None,
    };
    actions.iter().filter_map(id).collect()
}

fn produce(owner: &mut Owner, journal: &Journal, now_ns: u64) -> Vec<OwnerAction> {
    let mut actions = Vec::new();
    while owner.produce(&Relay::new(journal, &Everything), now_ns, &mut actions) {}
    actions
}

fn last(epoch: u64, first: u64, count: u32) -> Option<FrameHeader> {
    Some(FrameHeader {
        first,
        epoch,
        session: 7,
        count,
        ..FrameHeader::default()
    })
}

fn owner(journal: &Journal) -> Owner {
    Owner::new(OwnerConfig::of(5), &Relay::new(journal, &Everything), 0)
}

/// An owner whose first frame is in the log, which ends with the message 41.
fn ready(journal: &Journal) -> Owner {
    let mut owner = owner(journal);
    produce(&mut owner, journal, 0);
    owner.log_end(1, 40, last(4, 900, 3));
    let fence = produce(&mut owner, journal, 0);
    assert_eq!(sent(&fence)[0], Sent::Log(40, 11, 0, FrameFlags::HEARTBEAT));
    owner.acknowledged(ids(&fence)[0], 41);
    owner
}

#[test]
fn a_reign_begins_behind_the_end_of_the_log() {
    let mut journal = journal(64);
    let mut owner = owner(&journal);
    let heartbeat = Sent::Live(11, 0, FrameFlags::HEARTBEAT);
    assert_eq!(
        sent(&produce(&mut owner, &journal, 0)),
        [Sent::Ask(1), heartbeat]
    );
    // Edges do not wait for the log.
    say(&mut journal, 2);
    let live = Sent::Live(11, 2, FrameFlags::NONE);
    assert_eq!(sent(&produce(&mut owner, &journal, 2 * MS)), [live]);
    owner.log_end(1, 40, last(4, 900, 3));
    assert_eq!(
        sent(&produce(&mut owner, &journal, 3 * MS)),
        [
            Sent::Log(40, 11, 0, FrameFlags::HEARTBEAT),
            Sent::Log(41, 11, 2, FrameFlags::NONE)
        ]
    );
}

#[test]
fn expectations_are_pipelined_and_frames_have_names() {
    let mut journal = journal(1_024);
    let mut owner = ready(&journal);
    let mut actions = Vec::new();
    for round in 1..=3 {
        say(&mut journal, 5);
        actions.extend(produce(&mut owner, &journal, round * 2 * MS));
    }
    let frames = [(41, 11), (42, 16), (43, 21)];
    assert_eq!(
        sent(&actions),
        frames.map(|(at, first)| Sent::Log(at, first, 5, FrameFlags::NONE))
    );
    let names: Vec<String> = ids(&actions).iter().map(FrameId::to_string).collect();
    assert_eq!(names, ["5-1", "5-2", "5-3"]);
    // The last answer speaks for those before.
    owner.acknowledged(ids(&actions)[2], 44);
    assert_eq!(owner.figures(0).unacknowledged, 0);
}

#[test]
fn messages_share_a_frame_for_a_millisecond() {
    let mut journal = journal(1_024);
    let mut owner = ready(&journal);
    say(&mut journal, 1);
    assert_eq!(
        produce(&mut owner, &journal, MS).len(),
        1,
        "the first one does not wait"
    );
    say(&mut journal, 1);
    assert_eq!(produce(&mut owner, &journal, 2 * MS - 1).len(), 0);
    assert_eq!(owner.next_flush_ns, 2 * MS);
    pages(&mut owner, &journal, &Symbols::new(0), MS, 1);
    assert_eq!(owner.deadline_ns(), 2 * MS);
    say(&mut journal, 1);
    let frames = produce(&mut owner, &journal, 2 * MS);
    assert_eq!(sent(&frames), [Sent::Log(42, 12, 2, FrameFlags::NONE)]);
}

#[test]
fn a_full_log_gets_later_what_edges_get_at_once() {
    let mut journal = journal(1_024);
    let mut owner = ready(&journal);
    let mut actions = Vec::new();
    for round in 1..=66 {
        say(&mut journal, 1);
        actions.extend(produce(&mut owner, &journal, round * 2 * MS));
    }
    let frames = sent(&actions);
    assert_eq!(frames[63], Sent::Log(104, 74, 1, FrameFlags::NONE));
    assert_eq!(
        frames[64..],
        [75, 76].map(|first| Sent::Live(first, 1, FrameFlags::NONE))
    );
    assert_eq!(owner.figures(0).unacknowledged, UNACKNOWLEDGED_MAX as u64);
    owner.acknowledged(ids(&actions)[0], 42);
    let frames = produce(&mut owner, &journal, 133 * MS);
    assert_eq!(sent(&frames), [Sent::Log(105, 75, 2, FrameFlags::NONE)]);
}

#[test]
fn a_refusal_asks_for_the_end_and_sends_the_rest_again() {
    let mut journal = journal(1_024);
    let mut owner = ready(&journal);
    let mut actions = Vec::new();
    for round in 1..=3 {
        say(&mut journal, 5);
        actions.extend(produce(&mut owner, &journal, round * 2 * MS));
    }
    let before = ids(&actions);
    owner.refused(before[1]);
    assert_eq!(owner.state(), OwnerState::Asking);
    assert_eq!(sent(&produce(&mut owner, &journal, 7 * MS)), [Sent::Ask(2)]);
    owner.log_end(1, 41, last(5, 11, 0));
    assert_eq!(
        owner.state(),
        OwnerState::Asking,
        "the answer to an earlier question"
    );
    // The first frame is in, though its answer has not come.
    owner.log_end(2, 42, last(5, 11, 5));
    let again = produce(&mut owner, &journal, 8 * MS);
    let frames = [(42, 16), (43, 21)];
    assert_eq!(
        sent(&again),
        frames.map(|(at, first)| Sent::Log(at, first, 5, FrameFlags::NONE))
    );
    assert_eq!(ids(&again), before[1..], "under the same names");
}

#[test]
fn a_deposed_owner_never_says_anything_again() {
    let mut journal = journal(1_024);
    let mut owner = ready(&journal);
    say(&mut journal, 5);
    let frame = produce(&mut owner, &journal, 2 * MS);
    owner.refused(ids(&frame)[0]);
    assert_eq!(sent(&produce(&mut owner, &journal, 3 * MS)), [Sent::Ask(2)]);
    owner.log_end(2, 42, last(6, 700, 0));
    assert_eq!(owner.state(), OwnerState::Deposed { by: 6 });
    say(&mut journal, 5);
    owner.end();
    owner.connected(5_000 * MS);
    let mut actions = produce(&mut owner, &journal, 5_000 * MS);
    let relay = Relay::new(&journal, &Everything);
    let times = Times::default();
    owner.produce_snapshot((&relay, &Symbols::new(3)), times, 1_000, &mut actions);
    assert_eq!((actions, owner.deadline_ns()), (vec![], u64::MAX));
}

/// Frames of the former owner, which it had sent before it noticed, may be behind the fence.
#[test]
fn behind_frames_of_a_former_reign_the_log_is_fenced_again() {
    let mut journal = journal(1_024);
    let mut owner = ready(&journal);
    say(&mut journal, 5);
    let frame = ids(&produce(&mut owner, &journal, 2 * MS))[0];
    owner.refused(frame);
    produce(&mut owner, &journal, 3 * MS);
    owner.log_end(2, 44, last(4, 903, 3));
    let again = produce(&mut owner, &journal, 4 * MS);
    assert_eq!(
        sent(&again),
        [
            Sent::Log(44, 11, 0, FrameFlags::HEARTBEAT),
            Sent::Log(45, 11, 5, FrameFlags::NONE)
        ]
    );
    assert_eq!(ids(&again)[1], frame);
    assert_eq!(
        ids(&again)[0].number,
        2,
        "a name of its own, or the log would take it for known"
    );
    assert_eq!(owner.figures(0).log_losses, 0);
}

#[test]
fn what_the_log_has_lost_is_read_from_the_journal_again() {
    let mut journal = journal(1_024);
    let mut owner = ready(&journal);
    let mut actions = Vec::new();
    for round in 1..=2 {
        say(&mut journal, 5);
        actions.extend(produce(&mut owner, &journal, round * 2 * MS));
    }
    let names = ids(&actions);
    owner.acknowledged(names[0], 42);
    owner.timed_out(names[1]);
    produce(&mut owner, &journal, 5 * MS);
    owner.log_end(2, 41, last(5, 11, 0));
    let again = sent(&produce(&mut owner, &journal, 6 * MS));
    assert_eq!(again, [Sent::Log(41, 11, 10, FrameFlags::NONE)]);
    assert_eq!(owner.figures(0).log_losses, 1);
}

/// The end of a log whose messages have all expired counted as 0: no frame was ever taken again.
#[test]
fn a_log_whose_messages_have_all_expired_goes_on_behind_them() {
    let mut journal = journal(1_024);
    let mut owner = owner(&journal);
    produce(&mut owner, &journal, 0);
    owner.log_end(1, 40, None);
    say(&mut journal, 5);
    let frames = produce(&mut owner, &journal, 2 * MS);
    assert_eq!(
        sent(&frames),
        [
            Sent::Log(40, 11, 0, FrameFlags::HEARTBEAT),
            Sent::Log(41, 11, 5, FrameFlags::NONE)
        ]
    );
    // The same within a reign: nothing that was acknowledged is sent again.
    owner.acknowledged(ids(&frames)[1], 42);
    say(&mut journal, 1);
    let refused = ids(&produce(&mut owner, &journal, 4 * MS))[0];
    owner.refused(refused);
    produce(&mut owner, &journal, 5 * MS);
    owner.log_end(2, 42, None);
    assert_eq!(
        sent(&produce(&mut owner, &journal, 6 * MS)),
        [
            Sent::Log(42, 16, 0, FrameFlags::HEARTBEAT),
            Sent::Log(43, 16, 1, FrameFlags::NONE)
        ]
    );
    assert_eq!(owner.figures(0).log_losses, 0);
}

/// Without a quorum each second had thousands of frames, 64 of them different.
#[test]
fn a_log_that_answers_and_takes_nothing_gets_its_frames_at_intervals() {
    let mut journal = journal(1_024);
    let mut owner = ready(&journal);
    say(&mut journal, 5);
    let (mut now_ns, mut sent, mut question) = (10 * MS, 0, 1);
    while now_ns < 10_000 * MS {
        let actions = produce(&mut owner, &journal, now_ns);
        let log_frames = ids(&actions);
        sent += log_frames.len();
        if let Some(&id) = log_frames.last() {
            owner.timed_out(id);
        }
        if actions
            .iter()
            .any(|action| matches!(action, OwnerAction::AskLogEnd { .. }))
        {
            question += 1;
            owner.log_end(question, 41, last(5, 11, 0));
        }
        now_ns += MS;
    }
    assert!((2..100).contains(&sent), "{sent} frames in 10 s");
}

#[test]
fn what_the_journal_has_lost_is_marked_as_a_gap() {
    let mut journal = journal(64);
    let mut owner = ready(&journal);
    owner.lost_connection();
    say(&mut journal, 100);
    assert_eq!(produce(&mut owner, &journal, MS), []);
    owner.connected(2 * MS);
    owner.produce(&Relay::new(&journal, &Everything), 2 * MS, &mut Vec::new());
    owner.log_end(2, 41, last(5, 11, 0));
    say(&mut journal, 1);
    let frames = sent(&produce(&mut owner, &journal, 4 * MS));
    let gap = FrameFlags::GAP;
    assert_eq!(
        frames,
        [
            Sent::Log(41, 48, 63, gap),
            Sent::Log(42, 111, 1, FrameFlags::NONE)
        ]
    );
    assert_eq!(owner.figures(0).gaps, 1);
}

#[test]
fn heartbeats_come_sooner_after_a_frame() {
    let mut journal = journal(64);
    let mut owner = ready(&journal);
    say(&mut journal, 1);
    produce(&mut owner, &journal, 1_000 * MS);
    let mut times = Vec::new();
    for now_ms in 1_000..2_600 {
        let actions = produce(&mut owner, &journal, now_ms * MS);
        if !actions.is_empty() {
            assert_eq!(sent(&actions), [Sent::Live(12, 0, FrameFlags::HEARTBEAT)]);
            times.push(now_ms - 1_000);
        }
    }
    assert_eq!(times, [10, 30, 70, 150, 310, 630, 1_130]);
}

/// Else an edge that joins could never know that nothing is missing.
#[test]
fn what_is_not_published_is_skipped_in_the_log_before_a_heartbeat() {
    let mut journal = journal(1_024);
    let only = OneOf(3);
    let mut owner = ready(&journal);
    let mut actions = Vec::new();
    say(&mut journal, 100);
    owner.produce(&Relay::new(&journal, &only), 2 * MS, &mut actions);
    assert_eq!(sent(&actions), []);
    owner.produce(&Relay::new(&journal, &only), 20 * MS, &mut actions);
    assert_eq!(sent(&actions), [Sent::Log(41, 11, 100, FrameFlags::NONE)]);
    actions.clear();
    owner.produce(&Relay::new(&journal, &only), 60 * MS, &mut actions);
    assert_eq!(sent(&actions), [Sent::Live(111, 0, FrameFlags::HEARTBEAT)]);
}

#[test]
fn an_orderly_end_publishes_what_is_left_and_says_so() {
    let mut journal = journal(64);
    let mut owner = ready(&journal);
    say(&mut journal, 1);
    produce(&mut owner, &journal, MS);
    say(&mut journal, 1);
    owner.end();
    assert_eq!(
        sent(&produce(&mut owner, &journal, MS)),
        [
            Sent::Log(42, 12, 1, FrameFlags::NONE),
            Sent::Log(43, 13, 0, FrameFlags::END)
        ]
    );
    assert_eq!(owner.state(), OwnerState::Ended);
    assert_eq!(produce(&mut owner, &journal, 9_000 * MS), []);
}

struct Symbols {
    values: Vec<LastValue>,
}

impl Symbols {
    fn new(count: u32) -> Symbols {
        let value = |symbol| LastValue {
            sequence: 1,
            ..LastValue::new(symbol)
        };
        Symbols {
            values: (0..count).map(value).collect(),
        }
    }
}

impl Board for Symbols {
    fn len(&self) -> usize {
        self.values.len()
    }

    fn definition(&self, index: usize) -> Option<Definition> {
        Some(Definition {
            symbol: self.values.get(index)?.symbol,
            source: 0,
            source_time_ns: 0,
            open: 0,
            price_tick: 0,
            lot_size: 0,
            currency: [0; 4],
            name: Name::new(&format!("S{index}")).unwrap(),
            repeats: false,
        })
    }

    fn last_value(&self, index: usize) -> Option<LastValue> {
        self.values.get(index).copied()
    }
}

fn pages(
    owner: &mut Owner,
    journal: &Journal,
    board: &Symbols,
    now_ns: u64,
    budget: usize,
) -> Vec<OwnerAction> {
    let mut actions = Vec::new();
    let times = Times {
        now_ns,
        wall_ms: 77,
    };
    let relay = Relay::new(journal, &Everything);
    owner.produce_snapshot((&relay, board), times, budget, &mut actions);
    actions
}

#[test]
fn a_reign_writes_all_pages_and_then_only_what_changes() {
    let mut journal = journal(1_024);
    let mut owner = owner(&journal);
    let mut board = Symbols::new(300);
    assert_eq!(
        pages(&mut owner, &journal, &board, 0, 1_000),
        [],
        "the log's end is not known"
    );
    owner = ready(&journal);
    // In slices.
    let first = pages(&mut owner, &journal, &board, 0, 200);
    assert_eq!(
        sent(&first),
        [Sent::Page(0, 10, 128), Sent::Page(1, 10, 128)]
    );
    say(&mut journal, 1);
    let second = pages(&mut owner, &journal, &board, 0, 200);
    assert_eq!(sent(&second), [Sent::Page(2, 11, 44)]);
    owner.page_stored(0);
    owner.page_stored(2);
    assert_eq!(
        pages(&mut owner, &journal, &board, 0, 200),
        [],
        "a page is not stored yet"
    );
    owner.page_stored(1);
    let head = pages(&mut owner, &journal, &board, 0, 200);
    assert_eq!(
        sent(&head),
        [Sent::Head(10)],
        "the as-of is that of the beginning"
    );
    let OwnerAction::Publish(publication) = &head[0] else {
        panic!("a head is published");
    };
    let decoded = Head::decode(&Frame::decode(&publication.bytes).unwrap()).unwrap();
    assert_eq!((decoded.log_sequence, decoded.taken_ms), (41, 77));
    assert_eq!(decoded.pages, [11, 11, 12]);
    owner.head_stored();
    assert_eq!(owner.figures(5).snapshot_age_ns, Some(5));
    let interval_ns = OwnerConfig::of(5).snapshot_interval_ns;
    board.values[140].sequence = 11;
    assert_eq!(
        pages(&mut owner, &journal, &board, interval_ns - 1, 1_000),
        []
    );
    let changed = pages(&mut owner, &journal, &board, interval_ns, 1_000);
    assert_eq!(sent(&changed), [Sent::Page(1, 11, 128)]);
    owner.page_stored(1);
    let head = pages(&mut owner, &journal, &board, interval_ns, 1_000);
    assert_eq!(sent(&head), [Sent::Head(11)]);
    owner.head_stored();
    assert_eq!(
        pages(&mut owner, &journal, &board, 9 * interval_ns, 1_000),
        [],
        "nothing changed"
    );
}

/// An operator may delete pages: a stream with fewer messages than this has lost some.
#[test]
fn the_pages_and_the_head_are_what_the_stream_has_at_least() {
    let mut journal = journal(1_024);
    let mut owner = ready(&journal);
    let board = Symbols::new(300);
    assert_eq!(owner.stored_messages(), None, "nothing is stored yet");
    pages(&mut owner, &journal, &board, 0, 1_000);
    assert_eq!(owner.stored_messages(), None, "pages are on their way");
    (0..3).for_each(|page| owner.page_stored(page));
    pages(&mut owner, &journal, &board, 0, 1_000);
    assert_eq!(owner.stored_messages(), None, "the head is on its way");
    owner.head_stored();
    assert_eq!(owner.stored_messages(), Some(4));
    owner.rewrite_snapshot();
    let again = pages(&mut owner, &journal, &board, 1, 1_000);
    assert_eq!(
        again.len(),
        3,
        "all are written again, though nothing has changed"
    );
    assert_eq!(owner.stored_messages(), None);
    say(&mut journal, 1);
    owner.lost_connection();
    assert_eq!(owner.stored_messages(), None);
}

#[test]
fn a_page_that_was_not_stored_is_written_before_the_head() {
    let journal = journal(64);
    let mut owner = ready(&journal);
    let board = Symbols::new(200);
    pages(&mut owner, &journal, &board, 0, 1_000);
    owner.page_stored(1);
    owner.page_failed(0);
    assert_eq!(pages(&mut owner, &journal, &board, 1, 1_000), []);
    let again = pages(&mut owner, &journal, &board, 60 * MS, 1_000);
    assert_eq!(sent(&again), [Sent::Page(0, 10, 128)]);
    owner.page_stored(0);
    assert_eq!(
        sent(&pages(&mut owner, &journal, &board, 60 * MS, 1_000)),
        [Sent::Head(10)]
    );
}

/// While their stream was gone, a new owner wrote 9,411 pages in 5 s.
#[test]
fn pages_that_no_stream_takes_are_written_at_growing_intervals() {
    let journal = journal(64);
    let mut owner = ready(&journal);
    let board = Symbols::new(20_000);
    let first = pages(&mut owner, &journal, &board, 0, 100_000);
    assert_eq!(first.len(), PAGES_IN_FLIGHT_MAX);
    (0..PAGES_IN_FLIGHT_MAX as u32).for_each(|page| owner.page_failed(page));
    let (mut written, mut now_ns) = (0, 1);
    while now_ns < 20_000 * MS {
        for action in pages(&mut owner, &journal, &board, now_ns, 100_000) {
            let [Sent::Page(page, ..)] = sent(&[action])[..] else {
                panic!("no head before its pages");
            };
            owner.page_failed(page);
            written += 1;
        }
        let deadline_ns = owner.deadline_ns();
        now_ns = deadline_ns.clamp(now_ns + MS / 10, now_ns + 500 * MS);
    }
    assert!((8..40).contains(&written), "{written} in 20 s");
    // One that is stored shows that the stream is back.
    let probe = pages(&mut owner, &journal, &board, 30_000 * MS, 100_000);
    assert_eq!(sent(&probe), [Sent::Page(0, 10, 128)]);
    owner.page_stored(0);
    let rest = pages(&mut owner, &journal, &board, 30_000 * MS, 100_000);
    assert_eq!(rest.len(), PAGES_IN_FLIGHT_MAX);
}

#[test]
fn nothing_of_a_snapshot_is_written_while_its_stream_is_gone() {
    let journal = journal(64);
    let mut owner = ready(&journal);
    let board = Symbols::new(200);
    owner.hold_snapshot(true);
    assert_eq!(pages(&mut owner, &journal, &board, 0, 1_000), []);
    assert!(
        owner.deadline_ns() > 0,
        "its caller does not look again at once"
    );
    owner.hold_snapshot(false);
    assert_eq!(pages(&mut owner, &journal, &board, 0, 1_000).len(), 2);
    owner.page_failed(0);
    owner.page_failed(1);
    owner.hold_snapshot(true);
    assert_eq!(pages(&mut owner, &journal, &board, 9_000 * MS, 1_000), []);
    // Its stream has been made again: all is written at once.
    owner.hold_snapshot(false);
    owner.rewrite_snapshot();
    let again = pages(&mut owner, &journal, &board, 9_000 * MS, 1_000);
    assert_eq!(again.len(), 2);
}

#[test]
fn a_page_that_another_hub_replaced_is_written_again() {
    let journal = journal(64);
    let mut owner = ready(&journal);
    let board = Symbols::new(200);
    let written = pages(&mut owner, &journal, &board, 0, 1_000);
    owner.page_stored(0);
    owner.page_stored(1);
    pages(&mut owner, &journal, &board, 0, 1_000);
    owner.head_stored();
    let OwnerAction::Publish(own) = &written[1] else {
        panic!("a page is published");
    };
    let mut foreign = own.bytes.to_vec();
    owner.snapshot_seen(&foreign);
    assert_eq!(
        pages(&mut owner, &journal, &board, 1, 1_000),
        [],
        "it is of this reign"
    );
    let header = Frame::decode(&foreign).unwrap().header;
    FrameHeader { epoch: 4, ..header }.seal(&mut foreign);
    owner.snapshot_seen(&foreign);
    let again = pages(&mut owner, &journal, &board, 1, 1_000);
    assert_eq!(sent(&again), [Sent::Page(1, 10, 72)]);
    owner.page_stored(1);
    assert_eq!(
        sent(&pages(&mut owner, &journal, &board, 1, 1_000)),
        [Sent::Head(10)]
    );
    // What cannot be read has taken the place of one of them.
    owner.head_stored();
    owner.snapshot_seen(b"");
    let again = pages(&mut owner, &journal, &board, 1, 1_000);
    assert_eq!(
        sent(&again),
        [Sent::Page(0, 10, 128), Sent::Page(1, 10, 72)]
    );
}

#[test]
fn pages_without_anything_of_the_source_are_none() {
    let journal = journal(64);
    let mut owner = ready(&journal);
    let board = Symbols::new(200);
    let mut actions = Vec::new();
    let only = OneOf(150);
    let relay = Relay::new(&journal, &only);
    owner.produce_snapshot((&relay, &board), Times::default(), 1_000, &mut actions);
    assert_eq!(sent(&actions), [Sent::Page(1, 10, 1)]);
}

/// A relay that saw an unmarked frame would have relayed the source again.
#[test]
fn each_frame_of_a_relay_says_how_often_the_source_was_relayed() {
    let mut journal = journal(1_024);
    let config = OwnerConfig {
        relays: 2,
        ..OwnerConfig::of(5)
    };
    let mut owner = Owner::new(config, &Relay::new(&journal, &Everything), 0);
    let mut actions = produce(&mut owner, &journal, 0);
    owner.log_end(1, 40, None);
    actions.extend(produce(&mut owner, &journal, 0));
    let fence = ids(&actions)[0];
    owner.acknowledged(fence, 41);
    say(&mut journal, 5);
    actions.extend(produce(&mut owner, &journal, 2 * MS));
    let board = Symbols::new(3);
    actions.extend(pages(&mut owner, &journal, &board, 3 * MS, 1_000));
    owner.page_stored(0);
    actions.extend(pages(&mut owner, &journal, &board, 4 * MS, 1_000));
    owner.end();
    actions.extend(produce(&mut owner, &journal, 5 * MS));
    let flags: Vec<FrameFlags> = actions
        .iter()
        .filter_map(|action| match action {
            OwnerAction::Publish(publication) => {
                Some(Frame::decode(&publication.bytes).unwrap().header.flags)
            }
            OwnerAction::AskLogEnd { .. } => None,
        })
        .collect();
    let kinds = [
        FrameFlags::HEARTBEAT,
        FrameFlags::PAGE,
        FrameFlags::HEAD,
        FrameFlags::END,
    ];
    for kind in kinds {
        assert!(flags.iter().any(|flags| flags.contains(kind)), "{flags:?}");
    }
    assert!(flags.iter().all(|flags| flags.relays() == 2), "{flags:?}");
}
