//! A session and a plant with many tags: no last value is lost, and receiving updates allocates
//! nothing.

use tidewire_memory::counting::{CountingAllocator, allocations_of};
use tidewire_mx::plant::{LinkId, Plant, PlantConfig};
use tidewire_mx::session::{AdviseMode, Event, ItemId, Session, SessionConfig};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const MS: u64 = 1_000_000;

struct Joined {
    session: Session,
    plant: Plant,
    link: LinkId,
    items: Vec<ItemId>,
    now_ns: u64,
}

impl Joined {
    /// Creates a session that has advised all tank tags of a plant.
    fn new(tags: usize, interval_ns: u64) -> Self {
        let config = PlantConfig {
            tags,
            first_change_ns: (300 * MS, 800 * MS),
            interval_ns,
            ..PlantConfig::default()
        };
        let mut plant = Plant::new(config);
        let link = plant.connected();
        let mut session = Session::new(SessionConfig::default());
        session.connected(0);
        let names: Vec<String> = plant.tags().all_names().take(tags).collect();
        let add = |name: &String| {
            let item = session.add_item(name, 0).unwrap();
            session.advise(item, AdviseMode::User, 0);
            item
        };
        let items = names.iter().map(add).collect();
        Self {
            session,
            plant,
            link,
            items,
            now_ns: 0,
        }
    }

    /// Runs in steps of 10 ms, with immediate delivery.
    fn run(&mut self, span_ns: u64, events: &mut impl FnMut(Event<'_>)) {
        let end_ns = self.now_ns + span_ns;
        while self.now_ns < end_ns {
            self.now_ns += 10 * MS;
            self.plant.handle_timeout(self.now_ns);
            self.exchange(events);
        }
    }

    fn exchange(&mut self, events: &mut impl FnMut(Event<'_>)) {
        loop {
            let up = std::mem::take(self.session.outgoing());
            self.plant.receive(self.link, &up, self.now_ns).unwrap();
            let down = std::mem::take(self.plant.outgoing(self.link).unwrap());
            if up.is_empty() && down.is_empty() {
                return;
            }
            self.session.receive(&down, self.now_ns, events).unwrap();
        }
    }
}

#[test]
fn of_a_hundred_thousand_tags_nothing_is_lost_up_to_the_last_value() {
    const TAGS: usize = 100_000;
    let mut joined = Joined::new(TAGS, 1_000 * MS);
    let mut last = vec![String::new(); TAGS];
    let mut note = |event: Event<'_>| {
        if let Event::Update { item, record, .. } = event {
            last[item.index()] = format!("{:?}", record.value);
        }
    };
    joined.run(3_000 * MS, &mut note);
    let updates = joined.session.counters().updates;
    assert_eq!(updates, joined.plant.counters().updates);
    assert!(updates > 250_000, "each about once a second: {updates}");
    assert_eq!(joined.session.counters().strays, 0);
    for (index, item) in joined.items.iter().enumerate() {
        assert!(joined.session.is_live(*item));
        assert_eq!(
            Some(&last[item.index()]),
            joined.plant.tags().value_text(index).as_ref()
        );
    }
}

#[test]
fn receiving_updates_allocates_nothing() {
    let mut joined = Joined::new(280, 100 * MS);
    joined.run(2_000 * MS, &mut |_| {});
    let mut updates = 0;
    for _ in 0..100 {
        joined.now_ns += 10 * MS;
        joined.plant.handle_timeout(joined.now_ns);
        let down = std::mem::take(joined.plant.outgoing(joined.link).unwrap());
        let (session, now_ns) = (&mut joined.session, joined.now_ns);
        let count = allocations_of(|| {
            let mut count =
                |event: Event<'_>| updates += u64::from(matches!(event, Event::Update { .. }));
            session.receive(&down, now_ns, &mut count).unwrap();
            session.handle_timeout(now_ns, &mut count);
        });
        assert_eq!(count, 0);
    }
    assert!(updates > 2_000);
}
