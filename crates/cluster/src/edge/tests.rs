use super::*;
use crate::fuzzing::sealed;
use crate::head::Head;
use tidewire_feed::client::{Client, ClientConfig, Side, Sink};
use tidewire_feed::wire::{Definition, LastValue, Message, Name, Trade, snapshot_position};

const MS: u64 = 1_000_000;

fn header(epoch: u64, flags: FrameFlags, first: u64, count: u32) -> FrameHeader {
    FrameHeader {
        flags,
        first,
        epoch,
        origin: 1,
        session: 100 + epoch as u32,
        count,
    }
}

/// A frame of trades of the symbol 1, each of as many shares as its sequence.
fn frame(epoch: u64, flags: FrameFlags, first: u64, count: u32) -> Vec<u8> {
    let header = header(epoch, flags, first, count);
    let mut body = Vec::new();
    let mut writer = PacketWriter::new(&mut body, header.session, Flags::NONE, first, 65_535);
    for sequence in first..first + u64::from(count) {
        writer.push(&Message::Trade(Trade {
            symbol: 1,
            price: 5,
            size: sequence as u32,
            ..Trade::default()
        }));
    }
    writer.finish();
    sealed(header, &body)
}

fn trades(first: u64, count: u32) -> Vec<u8> {
    frame(3, FrameFlags::NONE, first, count)
}

fn heartbeat(epoch: u64, next: u64) -> Vec<u8> {
    header(epoch, FrameFlags::HEARTBEAT, next, 0).bare()
}

/// A page with the symbol 1 up to this sequence.
fn page(epoch: u64, as_of: u64, sequence: u64) -> Vec<u8> {
    let header = header(epoch, FrameFlags::PAGE, as_of, 1);
    let mut body = Vec::new();
    let first = snapshot_position(0, 0);
    let mut writer = PacketWriter::new(&mut body, header.session, Flags::SNAPSHOT, first, 65_535);
    writer.push(&Message::Definition(Definition {
        symbol: 1,
        source: 0,
        source_time_ns: 0,
        open: 0,
        price_tick: 0,
        lot_size: 0,
        currency: [0; 4],
        name: Name::new("ABC").unwrap(),
        repeats: false,
    }));
    writer.push(&Message::LastValue(LastValue {
        sequence,
        ..LastValue::new(1)
    }));
    writer.finish();
    sealed(header, &body)
}

fn head(epoch: u64, as_of: u64, log_sequence: u64, pages: &[u64]) -> Vec<u8> {
    let head = Head {
        log_sequence,
        pages: pages.to_vec(),
        ..Head::default()
    };
    head.encode(header(epoch, FrameFlags::NONE, as_of, 0))
}

/// An edge, its client, and what they said.
struct Setup {
    edge: Edge,
    client: Client,
    seen: Seen,
    events: Vec<EdgeEvent>,
    now_ns: u64,
}

#[derive(Default)]
struct Seen {
    sequences: Vec<u64>,
    records: Vec<u64>,
    heartbeats: Vec<u64>,
    doubts: u64,
    rights: u64,
}

impl Sink for Seen {
    fn message(&mut self, sequence: u64, message: &Message) {
        let Message::Trade(trade) = message else {
            panic!("only trades are sent");
        };
        assert_eq!(u64::from(trade.size), sequence);
        self.sequences.push(sequence);
    }

    fn snapshot_record(&mut self, _as_of: u64, record: &LastValue) {
        self.records.push(record.sequence);
    }

    fn heartbeat(&mut self, next_sequence: u64) {
        self.heartbeats.push(next_sequence);
    }

    fn values_doubtful(&mut self) {
        self.doubts += 1;
    }

    fn values_right(&mut self) {
        self.rights += 1;
    }
}

impl Setup {
    fn new() -> Setup {
        let mut client = Client::new(ClientConfig::default());
        client.subscribe("*").unwrap();
        Setup {
            edge: Edge::new(EdgeConfig::default(), 0),
            client,
            seen: Seen::default(),
            events: Vec::new(),
            now_ns: 0,
        }
    }

    /// An edge that has joined the third reign at the sequence 20.
    fn joined() -> Setup {
        let mut setup = Setup::new();
        setup.snapshot(&head(3, 20, 4, &[21]), &[page(3, 20, 18)]);
        let fetch = setup.action();
        assert_eq!(
            fetch,
            Some(EdgeAction::FetchLog {
                request: 1,
                after: 4
            })
        );
        setup.edge.fetch_end(1, 4, 0);
        setup.feed();
        assert_eq!(setup.seen.records, [18]);
        setup.events.clear();
        setup
    }

    fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
        self.edge.handle_timeout(self.now_ns);
        self.feed();
    }

    fn message(&mut self, bytes: &[u8]) {
        self.edge.message(bytes, None, self.now_ns);
        self.feed();
    }

    fn action(&mut self) -> Option<EdgeAction> {
        self.edge.handle_timeout(self.now_ns);
        self.edge.next_action()
    }

    /// Answers the request for a snapshot.
    fn snapshot(&mut self, head: &[u8], pages: &[Vec<u8>]) {
        let Some(EdgeAction::ReadSnapshot { request }) = self.action() else {
            panic!("a snapshot is asked for");
        };
        self.edge.snapshot_head(request, head, self.now_ns);
        for page in pages {
            self.edge.snapshot_page(request, page, self.now_ns);
        }
        self.edge.snapshot_end(request, self.now_ns);
        self.feed();
    }

    fn fetched(&mut self, bytes: &[u8], log_sequence: u64) {
        let request = self.edge.figures().fetches;
        assert!(self.edge.is_fetching(request));
        self.edge.fetched(request, bytes, log_sequence, self.now_ns);
        self.feed();
    }

    fn feed(&mut self) {
        while let Some(output) = self.edge.next_output() {
            match output {
                EdgeOutput::Event(event) => {
                    if let EdgeEvent::Restart { .. } = event {
                        self.client.disconnected(Side::A);
                        self.client.connected(Side::A, self.now_ns);
                    }
                    self.events.push(event);
                }
                EdgeOutput::Bytes(bytes) => {
                    let used = self
                        .client
                        .receive(Side::A, &bytes, self.now_ns, &mut self.seen);
                    assert_eq!(used, Ok(bytes.len()));
                }
            }
        }
        assert_eq!(self.client.counters().gaps, 0, "the client misses nothing");
    }
}

#[test]
fn a_join_replays_the_log_and_counts_nothing_twice() {
    let mut setup = Setup::new();
    setup.message(&trades(26, 2));
    // The page was written at 24 and includes the symbol up to 22.
    setup.snapshot(&head(3, 15, 4, &[20]), &[page(3, 24, 22)]);
    assert_eq!(
        setup.events,
        [EdgeEvent::Restart {
            epoch: 3,
            session: 103
        }]
    );
    let fetch = setup.action();
    assert_eq!(
        fetch,
        Some(EdgeAction::FetchLog {
            request: 1,
            after: 4
        })
    );
    setup.fetched(&trades(12, 8), 5);
    assert_eq!(setup.seen.sequences, [0; 0], "the page includes them");
    setup.fetched(&trades(20, 6), 6);
    assert_eq!(setup.seen.sequences, [23, 24, 25, 26, 27]);
    assert_eq!(setup.events[1..], [EdgeEvent::Joined { as_of: 24 }]);
    assert!(setup.edge.is_current() && setup.client.is_complete());
    assert!(!setup.edge.is_fetching(1), "it meets what was kept");
}

#[test]
fn a_source_without_a_snapshot_is_waited_for() {
    let mut setup = Setup::new();
    let Some(EdgeAction::ReadSnapshot { request: 1 }) = setup.action() else {
        panic!("a snapshot is asked for");
    };
    setup.edge.snapshot_end(1, 0);
    assert_eq!(setup.action(), None);
    let deadline_ns = setup.edge.deadline_ns();
    assert!((25 * MS..=50 * MS).contains(&deadline_ns), "{deadline_ns}");
    // Or until its first head is heard of.
    setup.edge.head_seen(&head(3, 20, 4, &[21]), 1);
    assert_eq!(
        setup.action(),
        Some(EdgeAction::ReadSnapshot { request: 2 })
    );
}

#[test]
fn a_snapshot_of_two_reigns_or_with_an_old_page_is_refused() {
    // A page of a former reign of the same stream.
    let mut former = page(3, 20, 18);
    FrameHeader {
        session: 103,
        ..header(2, FrameFlags::PAGE, 20, 1)
    }
    .seal(&mut former);
    let refused = [
        (head(3, 20, 4, &[21]), vec![former]),
        (head(3, 20, 4, &[21]), vec![]),
        (head(3, 20, 4, &[21]), vec![page(2, 20, 18)]),
        (head(3, 20, 4, &[21]), vec![page(4, 20, 18)]),
        (head(3, 20, 4, &[21]), vec![page(3, 19, 18)]),
    ];
    for (head, pages) in refused {
        let mut setup = Setup::new();
        setup.snapshot(&head, &pages);
        assert_eq!(setup.edge.figures().snapshots_refused, 1);
        assert_eq!((setup.events.len(), setup.action()), (0, None));
        setup.wait(60 * MS);
        assert_eq!(
            setup.action(),
            Some(EdgeAction::ReadSnapshot { request: 2 })
        );
    }
}

#[test]
fn duplicates_and_overlaps_are_applied_once() {
    let mut setup = Setup::joined();
    for (first, count) in [(21, 3), (21, 3), (22, 4), (10, 5), (24, 2), (26, 1)] {
        setup.message(&trades(first, count));
    }
    assert_eq!(setup.seen.sequences, (21..27).collect::<Vec<_>>());
    assert_eq!(setup.edge.figures().duplicates, 3);
}

#[test]
fn a_gap_is_filled_from_the_log_after_a_grace() {
    let mut setup = Setup::joined();
    setup.edge.message(&trades(21, 2), Some(5), 0);
    setup.feed();
    setup.message(&trades(30, 2));
    assert_eq!(setup.action(), None);
    setup.wait(GRACE_NS);
    assert_eq!(
        setup.action(),
        Some(EdgeAction::FetchLog {
            request: 2,
            after: 5
        })
    );
    setup.fetched(&trades(23, 7), 6);
    assert_eq!(setup.seen.sequences, (21..32).collect::<Vec<_>>());
    assert!(setup.events.is_empty(), "no doubt for so short a time");
}

#[test]
fn frames_that_come_late_need_no_log() {
    let mut setup = Setup::joined();
    setup.message(&trades(23, 2));
    setup.wait(GRACE_NS / 2);
    setup.message(&trades(21, 2));
    setup.wait(GRACE_NS);
    assert_eq!((setup.action(), setup.edge.figures().lag), (None, 0));
}

/// A heartbeat shows the loss of the last frame.
#[test]
fn values_are_in_doubt_while_the_log_does_not_answer() {
    let mut setup = Setup::joined();
    setup.message(&heartbeat(3, 24));
    assert_eq!(
        setup.seen.heartbeats.last(),
        Some(&21),
        "the client misses nothing yet"
    );
    setup.wait(GRACE_NS);
    assert_eq!(
        setup.action(),
        Some(EdgeAction::FetchLog {
            request: 2,
            after: 4
        })
    );
    setup.edge.fetch_failed(2, setup.now_ns);
    setup.wait(DOUBT_DELAY_NS);
    assert_eq!(setup.events, [EdgeEvent::Doubtful]);
    assert_eq!(
        setup.action(),
        Some(EdgeAction::FetchLog {
            request: 3,
            after: 4
        })
    );
    setup.fetched(&trades(21, 3), 5);
    assert_eq!(setup.events, [EdgeEvent::Doubtful, EdgeEvent::Certain]);
}

/// What a frame expects of the log is no proof of where it is.
#[test]
fn a_wrong_guess_of_the_position_reads_the_log_from_its_oldest_message() {
    let mut setup = Setup::joined();
    setup.edge.message(&trades(21, 2), Some(9), 0);
    setup.message(&heartbeat(3, 30));
    setup.wait(GRACE_NS);
    assert_eq!(
        setup.action(),
        Some(EdgeAction::FetchLog {
            request: 2,
            after: 9
        })
    );
    setup.fetched(&trades(26, 4), 10);
    assert_eq!(
        setup.action(),
        Some(EdgeAction::FetchLog {
            request: 3,
            after: 0
        })
    );
    setup.fetched(&trades(21, 5), 8);
    setup.fetched(&trades(26, 4), 10);
    assert_eq!(setup.seen.sequences, (21..30).collect::<Vec<_>>());
    assert_eq!(setup.edge.figures().gaps, 0);
}

/// The edge waited for the log to reach a position that it had once had.
#[test]
fn a_log_that_has_lost_its_end_is_read_from_its_oldest_message() {
    let mut setup = Setup::joined();
    setup.edge.message(&trades(21, 2), Some(9), 0);
    setup.message(&heartbeat(3, 30));
    setup.wait(GRACE_NS);
    assert_eq!(
        setup.action(),
        Some(EdgeAction::FetchLog {
            request: 2,
            after: 9
        })
    );
    setup.edge.fetch_end(2, 8, setup.now_ns);
    assert_eq!(
        setup.action(),
        Some(EdgeAction::FetchLog {
            request: 3,
            after: 0
        })
    );
    setup.fetched(&trades(18, 5), 7);
    setup.fetched(&trades(23, 7), 8);
    assert_eq!(setup.seen.sequences, (21..30).collect::<Vec<_>>());
    setup.edge.fetch_end(3, 8, setup.now_ns);
    assert_eq!((setup.action(), setup.edge.figures().gaps), (None, 0));
}

fn loses(lose: impl FnOnce(&mut Setup)) {
    let mut setup = Setup::joined();
    setup.message(&trades(21, 2));
    lose(&mut setup);
    setup.feed();
    assert_eq!(setup.events, [EdgeEvent::Gap { from: 23, count: 7 }]);
    assert_eq!((setup.seen.doubts, setup.seen.rights), (1, 1));
    // A snapshot from before the gap does not help.
    setup.snapshot(&head(3, 28, 5, &[21]), &[page(3, 20, 18)]);
    assert_eq!(setup.edge.figures().snapshots_refused, 1);
    setup.wait(60 * MS);
    setup.snapshot(&head(3, 31, 8, &[31]), &[page(3, 30, 30)]);
    assert_eq!(setup.seen.records, [18, 30]);
    assert!(setup.client.is_complete());
    assert_eq!(setup.seen.rights, 2);
    setup.message(&trades(31, 2));
    assert_eq!(setup.seen.sequences[..3], [21, 22, 32]);
    assert_eq!(setup.edge.figures().lost, 7);
}

#[test]
fn a_gap_in_the_journal_of_the_owner_is_replaced_by_a_snapshot() {
    loses(|setup| setup.message(&frame(3, FrameFlags::GAP, 30, 1)));
}

#[test]
fn a_gap_in_the_log_is_replaced_by_a_snapshot() {
    loses(|setup| {
        setup.message(&trades(30, 1));
        setup.wait(GRACE_NS);
        assert_eq!(
            setup.action(),
            Some(EdgeAction::FetchLog {
                request: 2,
                after: 4
            })
        );
        setup.edge.log_is_gone(2, setup.now_ns);
    });
}

/// The edge fetched the log again and again.
#[test]
fn a_gap_in_the_log_before_kept_frames_is_replaced_by_a_snapshot() {
    loses(|setup| {
        setup.message(&trades(30, 4));
        setup.message(&trades(34, 8));
        setup.wait(GRACE_NS);
        assert!(setup.action().is_some());
        setup.fetched(&frame(3, FrameFlags::GAP, 34, 2), 9);
    });
}

#[test]
fn a_new_reign_is_joined_with_its_own_snapshot() {
    let mut setup = Setup::joined();
    setup.message(&trades(21, 2));
    setup.message(&frame(4, FrameFlags::NONE, 7, 1));
    setup.message(&trades(23, 1));
    assert_eq!(setup.edge.figures().deposed, 1);
    setup.snapshot(&head(3, 22, 4, &[21]), &[page(3, 20, 18)]);
    assert_eq!(
        setup.edge.figures().snapshots_refused,
        1,
        "the former reign's"
    );
    setup.wait(60 * MS);
    setup.snapshot(&head(4, 6, 9, &[7]), &[page(4, 6, 2)]);
    let restart = EdgeEvent::Restart {
        epoch: 4,
        session: 104,
    };
    assert_eq!(setup.events, [restart, EdgeEvent::Joined { as_of: 6 }]);
    assert_eq!(setup.seen.sequences, [21, 22, 7]);
    assert_eq!(setup.client.session(), 104);
}

/// The snapshot of a new reign did not come, and the edge showed old values as right.
#[test]
fn values_are_in_doubt_while_a_new_reign_has_no_snapshot() {
    let mut setup = Setup::joined();
    setup.message(&frame(4, FrameFlags::NONE, 7, 1));
    assert!(setup.edge.deadline_ns() <= GRACE_NS + DOUBT_DELAY_NS);
    setup.wait(GRACE_NS + DOUBT_DELAY_NS - 1);
    assert_eq!(setup.events, [], "a snapshot takes some time");
    setup.wait(1);
    assert_eq!(setup.events, [EdgeEvent::Doubtful]);
    for _ in 0..10 {
        setup.message(&heartbeat(4, 8));
        setup.wait(500 * MS);
    }
    assert_eq!(setup.events, [EdgeEvent::Doubtful]);
    while !setup.edge.is_current() {
        match setup.action() {
            Some(EdgeAction::ReadSnapshot { request }) if setup.edge.is_reading(request) => {
                let now_ns = setup.now_ns;
                setup
                    .edge
                    .snapshot_head(request, &head(4, 7, 9, &[8]), now_ns);
                setup.edge.snapshot_page(request, &page(4, 7, 7), now_ns);
                setup.edge.snapshot_end(request, now_ns);
                setup.feed();
            }
            _ => setup.wait(MS),
        }
    }
    assert_eq!(setup.events.last(), Some(&EdgeEvent::Certain));
}

/// The values of an owner that had fallen silent were right again with the next one's first frame.
#[test]
fn values_are_in_doubt_when_another_owner_is_heard_after_a_silence() {
    let mut setup = Setup::joined();
    setup.wait(SILENCE_NS);
    setup.message(&heartbeat(4, 7));
    let events = [
        EdgeEvent::OwnerSilent,
        EdgeEvent::Doubtful,
        EdgeEvent::OwnerBack,
    ];
    assert_eq!(setup.events, events);
}

/// Values came back to the cluster of their owner over three relays, and counted twice there.
#[test]
fn values_that_have_come_through_the_own_cluster_are_not_applied() {
    let mut setup = Setup::joined();
    setup.edge.config.cluster = ClusterText::new("newyork").unwrap();
    let relayed = |cluster: &str, epoch| {
        let path = Path::default().with(ClusterText::new(cluster).unwrap());
        let head = Head {
            log_sequence: 9,
            pages: vec![7],
            path: path.unwrap(),
            ..Head::default()
        };
        head.encode(header(epoch, FrameFlags::NONE.with_relays(1), 6, 0))
    };
    setup.message(&frame(4, FrameFlags::NONE.with_relays(1), 7, 1));
    setup.snapshot(&relayed("newyork", 4), &[]);
    assert_eq!(setup.events, [EdgeEvent::Echo]);
    let figures = setup.edge.figures();
    assert!(figures.is_echo && figures.path.unwrap().contains("newyork"));
    // Frames are not kept, further heads not read, and the values stay stale.
    for number in 0..10 {
        setup.message(&frame(4, FrameFlags::NONE, 8 + number, 1));
        setup.edge.head_seen(&relayed("newyork", 4), setup.now_ns);
        setup.wait(1_000 * MS);
        assert_eq!(setup.action(), None);
    }
    setup.wait(SILENCE_NS);
    setup.message(&heartbeat(4, 18));
    assert_eq!(
        (setup.edge.kept_bytes(), setup.edge.is_current()),
        (0, false)
    );
    assert!(!setup.events.contains(&EdgeEvent::OwnerBack));
    // The owner comes back.
    setup.message(&heartbeat(5, 7));
    setup.snapshot(&relayed("london", 5), &[page(5, 6, 2)]);
    assert!(setup.edge.is_current() && !setup.edge.figures().is_echo);
    assert_eq!(setup.seen.sequences, [0; 0]);
}

/// A hub that lost its lease and got it again goes on with its stream.
#[test]
fn a_new_reign_of_the_same_stream_replaces_what_was_missed() {
    let mut setup = Setup::joined();
    let of_stream = |bytes: Vec<u8>| {
        // The packets have the session, too.
        let frame = Frame::decode(&bytes).unwrap();
        FrameHeader {
            epoch: 4,
            ..frame.header
        }
    };
    let reseal = |mut bytes: Vec<u8>| {
        of_stream(bytes.clone()).seal(&mut bytes);
        bytes
    };
    setup.message(&reseal(trades(41, 2)));
    setup.snapshot(&reseal(head(3, 40, 9, &[41])), &[reseal(page(3, 40, 39))]);
    assert_eq!(setup.client.session(), 103);
    assert_eq!(
        (setup.seen.sequences, setup.seen.records),
        (vec![41, 42], vec![18, 39])
    );
    assert!(setup.client.is_complete());
}

#[test]
fn silence_and_the_end_of_a_reign_are_told() {
    let mut setup = Setup::joined();
    setup.wait(SILENCE_NS);
    setup.message(&heartbeat(3, 21));
    setup.message(&header(3, FrameFlags::END, 21, 0).bare());
    let events = [
        EdgeEvent::OwnerSilent,
        EdgeEvent::OwnerBack,
        EdgeEvent::OwnerEnded,
    ];
    assert_eq!(setup.events, events);
}

#[test]
fn a_link_that_comes_back_reads_the_log_at_once() {
    let mut setup = Setup::joined();
    setup.edge.disconnected();
    setup.wait(500 * MS);
    assert_eq!(setup.action(), None);
    setup.edge.connected(setup.now_ns);
    assert_eq!(
        setup.action(),
        Some(EdgeAction::FetchLog {
            request: 2,
            after: 4
        })
    );
}

#[test]
fn early_frames_are_bounded() {
    let mut setup = Setup::joined();
    for number in 0..KEPT_FRAMES_MAX as u64 + 5 {
        setup.message(&trades(30 + 2 * number, 1));
    }
    let figures = setup.edge.figures();
    assert_eq!(
        (figures.kept, figures.overflows),
        (KEPT_FRAMES_MAX as u64, 5)
    );
}

/// One frame of the highest epoch removed a source from every edge until the edge was restarted.
#[test]
fn a_reign_of_which_nothing_comes_does_not_shut_the_owner_out() {
    let mut setup = Setup::joined();
    setup.message(&heartbeat(1 << 30, 21));
    setup.message(&trades(21, 1));
    assert_eq!(setup.edge.figures().deposed, 1, "it may be a new owner");
    setup.wait(SILENCE_NS);
    setup.message(&trades(22, 1));
    let epoch = 1 << 30;
    assert!(setup.events.contains(&EdgeEvent::ReignVanished { epoch }));
    let request = loop {
        match setup.action() {
            Some(EdgeAction::ReadSnapshot { request }) if setup.edge.is_reading(request) => {
                break request;
            }
            Some(_) => {}
            None => setup.wait(MS),
        }
    };
    let now_ns = setup.now_ns;
    setup
        .edge
        .snapshot_head(request, &head(3, 22, 9, &[23]), now_ns);
    setup.edge.snapshot_page(request, &page(3, 22, 22), now_ns);
    setup.edge.snapshot_end(request, now_ns);
    setup.feed();
    setup.message(&trades(23, 1));
    assert_eq!(setup.seen.sequences.last(), Some(&23));
    assert!(setup.edge.is_current());
}

/// Sources that were made up filled the memory of a hub, 64 MiB each, and it was never free again.
#[test]
fn early_frames_of_a_silent_owner_are_dropped_and_its_caller_limits_their_bytes() {
    let mut setup = Setup::joined();
    setup.message(&trades(30, 5));
    let bytes = setup.edge.kept_bytes();
    assert!(bytes > 0);
    setup.edge.limit_kept_bytes(bytes);
    setup.message(&trades(40, 5));
    let figures = setup.edge.figures();
    assert_eq!((figures.kept, figures.overflows), (1, 1));
    setup.wait(SILENCE_NS);
    assert_eq!((setup.edge.kept_bytes(), setup.edge.figures().kept), (0, 0));
    // They are known to be missing, and the log has them.
    setup.message(&heartbeat(3, 45));
    assert!(!setup.edge.is_current());
    setup.wait(GRACE_NS);
    assert!(matches!(
        setup.action(),
        Some(EdgeAction::FetchLog { after: 4, .. })
    ));
}

#[test]
fn what_is_no_frame_is_counted() {
    let mut setup = Setup::joined();
    let mut changed = trades(21, 1);
    changed[50] ^= 1;
    setup.message(&changed);
    setup.message(b"nothing");
    setup.message(&page(3, 20, 18));
    assert_eq!(setup.edge.figures().corrupt, 3);
    assert_eq!(setup.edge.figures().sequence, 21);
}
