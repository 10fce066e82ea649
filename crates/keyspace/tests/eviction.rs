//! Eviction when memory is full, and freeing in the background.

use tidewire_keyspace::{
    Event, EventClasses, Evicted, EvictionOrder, EvictionRules, Evictor, Keyspace, LazyFreeing,
    NullObserver, Observer, Options, Outcome, RecordedUse, ValueRef, resolve,
};
use tidewire_resp::{ArgumentList, Protocol, Writer};

const NOW_MS: i64 = 1_700_000_000_000;

struct Store {
    keyspace: Keyspace,
    now_ms: i64,
}

impl Store {
    fn new() -> Self {
        Store {
            keyspace: Keyspace::new(Options::default()),
            now_ms: NOW_MS,
        }
    }

    fn run(&self, text: &str) -> String {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let request = ArgumentList::from_slices(&words);
        let mut reply = Vec::new();
        let outcome = self.keyspace.execute(
            resolve(request.as_arguments()).expect("a command"),
            request.as_arguments(),
            0,
            self.now_ms,
            &mut Writer::new(&mut reply, Protocol::Resp2),
            &mut NullObserver,
        );
        assert!(!matches!(outcome, Outcome::Waiting(_)));
        String::from_utf8(reply)
            .expect("text")
            .trim_end()
            .to_owned()
    }

    fn evict(&self, order: EvictionOrder, expiring_only: bool, count: usize) -> usize {
        let rules = EvictionRules {
            order,
            expiring_only,
            samples: 10,
        };
        let mut evictor = Evictor::default();
        let mut observer = NullObserver;
        (0..count)
            .take_while(|_| {
                let evicted = self
                    .keyspace
                    .evict(&mut evictor, rules, self.now_ms, &mut observer);
                evicted == Evicted::Key
            })
            .count()
    }

    /// Returns how many of `NAME:0` to `NAME:(count - 1)` exist.
    fn left(&self, name: &str, count: usize) -> usize {
        let there = |number: &usize| self.run(&format!("EXISTS {name}:{number}")) == ":1";
        (0..count).filter(there).count()
    }
}

#[test]
fn the_least_recently_used_keys_are_evicted_first() {
    let mut store = Store::new();
    for number in 0..1_000 {
        store.run(&format!("SET old:{number} x"));
    }
    store.now_ms += 100_000;
    for number in 0..1_000 {
        store.run(&format!("SET new:{number} x"));
        // These are used, so their age does not matter.
        if number < 200 {
            store.run(&format!("GET old:{number}"));
        }
    }
    assert_eq!(
        store.evict(EvictionOrder::LeastRecentlyUsed, false, 700),
        700
    );
    // Keys are sampled: a few of these are evicted too, about ten in one of thirty runs.
    assert!(store.left("new", 1_000) > 950);
    assert!(store.left("old", 200) > 150);
    assert_eq!(store.keyspace.evicted_keys(), 700);
}

#[test]
fn the_least_frequently_used_keys_are_evicted_first() {
    let store = Store::new();
    store.keyspace.set_access(RecordedUse::Frequency, 10, 1);
    for number in 0..500 {
        store.run(&format!("SET seldom:{number} x"));
        store.run(&format!("SET often:{number} x"));
        for _ in 0..40 {
            store.run(&format!("GET often:{number}"));
        }
    }
    assert_eq!(store.run("OBJECT FREQ seldom:1"), ":5");
    assert!(
        store
            .run("OBJECT IDLETIME seldom:1")
            .starts_with("-ERR An LFU")
    );
    store.evict(EvictionOrder::LeastFrequentlyUsed, false, 450);
    assert!(store.left("often", 500) > 460);
}

#[test]
fn volatile_policies_keep_keys_without_a_ttl() {
    let store = Store::new();
    for number in 0..300 {
        store.run(&format!("SET stays:{number} x"));
        store.run(&format!(
            "SET goes:{number} x PX {}",
            10_000_000 + number * 1_000
        ));
    }
    assert_eq!(store.evict(EvictionOrder::SoonestToExpire, true, 100), 100);
    let late = (150..300).filter(|number| store.run(&format!("EXISTS goes:{number}")) == ":1");
    assert!(late.count() > 140);
    for order in [
        EvictionOrder::Random,
        EvictionOrder::LeastRecentlyUsed,
        EvictionOrder::LeastFrequentlyUsed,
    ] {
        assert_eq!(store.evict(order, true, 60), 60, "{order:?}");
    }
    assert_eq!(store.evict(EvictionOrder::Random, true, 100), 20);
    assert_eq!(store.left("stays", 300), 300);
    assert_eq!(store.evict(EvictionOrder::Random, false, 1_000), 300);
}

#[derive(Default)]
struct Heard(Vec<(String, Vec<u8>)>);

impl Observer for Heard {
    fn changed(&mut self, _: usize, _: &[u8], _: Event, _: Option<ValueRef<'_>>) {}

    fn notified(&mut self, _: usize, key: &[u8], event: Event) {
        self.0.push((event.to_string(), key.to_vec()));
    }
}

#[test]
fn an_eviction_notifies_listeners() {
    let store = Store::new();
    store.run("SET one x");
    store.keyspace.set_notifications(EventClasses::EVICTED);
    let rules = EvictionRules {
        order: EvictionOrder::LeastRecentlyUsed,
        expiring_only: false,
        samples: 5,
    };
    let (mut evictor, mut heard) = (Evictor::default(), Heard::default());
    let mut evict = || {
        store
            .keyspace
            .evict(&mut evictor, rules, NOW_MS, &mut heard)
    };
    assert_eq!([evict(), evict()], [Evicted::Key, Evicted::Nothing]);
    assert_eq!(heard.0, [("evicted".to_owned(), b"one".to_vec())]);
}

#[test]
fn idle_time_and_frequency_are_reported_and_restored() {
    let mut store = Store::new();
    store.run("SET key x");
    store.now_ms += 7_000;
    assert_eq!(store.run("OBJECT IDLETIME key"), ":7");
    assert_eq!(store.run("TTL key"), ":-1");
    assert_eq!(store.run("OBJECT IDLETIME key"), ":7");
    assert_eq!(store.run("TOUCH key"), ":1");
    assert_eq!(store.run("OBJECT IDLETIME key"), ":0");
    assert!(store.run("OBJECT FREQ key").starts_with("-ERR An LFU"));
    store.keyspace.set_access(RecordedUse::Frequency, 10, 1);
    store.run("SET other x");
    assert_eq!(store.run("OBJECT FREQ other"), ":5");
}

#[test]
fn large_values_are_freed_in_the_background_and_counted() {
    let store = Store::new();
    let fill = || {
        for number in 0..1_000 {
            store.run(&format!("SADD set {number} member-{number}"));
        }
    };
    let wait = |freed: u64| {
        for _ in 0..10_000 {
            if store.keyspace.lazily_freed() == (0, freed) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("not freed: {:?}", store.keyspace.lazily_freed());
    };
    fill();
    assert_eq!(store.run("UNLINK set"), ":1");
    wait(1);
    fill();
    assert_eq!(store.run("DEL set"), ":1");
    wait(1);
    store.keyspace.set_lazy_freeing(LazyFreeing {
        deletion: true,
        replacement: true,
        flush: true,
        ..LazyFreeing::default()
    });
    fill();
    assert_eq!(store.run("DEL set"), ":1");
    wait(2);
    fill();
    store.run("SET set x");
    wait(3);
    store.run("SET other x");
    store.run("FLUSHALL");
    wait(5);
    fill();
    store.run("FLUSHALL SYNC");
    wait(5);
}
