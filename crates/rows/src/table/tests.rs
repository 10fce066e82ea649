//! What a page is told, message by message.

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

fn table() -> Table {
    Table::new(|pattern, name| name.starts_with(&pattern[..pattern.len() - 1]))
}

fn subscribe(table: &mut Table, page: usize, number: u64, topics: &[&str]) {
    let topics = topics.iter().map(|topic| topic.as_bytes());
    table
        .subscribe(page, number, Selection::new(topics, None, 10.0))
        .unwrap();
}

fn publish(table: &mut Table, pages: &[usize], name: &str, payload: &str) {
    let row = table.update(name.as_bytes(), Version::default(), payload.as_bytes());
    pages.iter().for_each(|page| table.mark(*page, row));
}

fn snapshot(table: &mut Table, place: Place) -> String {
    let mut out = Vec::new();
    table.write_snapshot(place, true, &mut out);
    String::from_utf8(out).unwrap()
}

/// What is due at a time.
fn due(table: &mut Table, now_ns: u64) -> Vec<String> {
    table.collect_due(now_ns);
    let mut batches = Vec::new();
    while let Some(place) = table.take_ready() {
        let mut out = Vec::new();
        if table.write_batch(place, now_ns, &mut out) == 0 {
            break;
        }
        batches.push(String::from_utf8(out).unwrap());
    }
    batches
}

#[test]
fn a_page_gets_the_first_values_and_then_what_has_changed() {
    let mut table = table();
    subscribe(&mut table, 0, 1, &["md:*"]);
    publish(&mut table, &[0], "md:A", r#"{"bid":1,"ask":2}"#);
    publish(&mut table, &[0], "md:B", r#"{"bid":3}"#);
    let first =
        r#"{"snap":1,"as_of":2,"rows":[[1,"md:A",{"bid":1,"ask":2}],[2,"md:B",{"bid":3}]]}"#;
    assert_eq!(snapshot(&mut table, (0, 1)), first);
    assert!(table.next((0, 1)));
    assert!(due(&mut table, SECOND_NS).is_empty(), "nothing has changed");
    for bid in [4, 5, 6] {
        publish(
            &mut table,
            &[0],
            "md:A",
            &format!(r#"{{"bid":{bid},"ask":2}}"#),
        );
    }
    let batch = r#"{"batch":1,"rows":[[1,{"bid":6}]]}"#;
    assert_eq!(due(&mut table, SECOND_NS), [batch]);
    publish(&mut table, &[0], "md:A", r#"{"bid":7,"ask":2}"#);
    assert!(
        due(&mut table, 2 * SECOND_NS).is_empty(),
        "the page has not asked"
    );
}

#[test]
fn batches_keep_their_distance() {
    let mut table = table();
    subscribe(&mut table, 0, 1, &["md:*"]);
    publish(&mut table, &[0], "md:A", r#"{"bid":1}"#);
    snapshot(&mut table, (0, 1));
    table.next((0, 1));
    publish(&mut table, &[0], "md:A", r#"{"bid":2}"#);
    assert_eq!(due(&mut table, SECOND_NS).len(), 1);
    table.next((0, 1));
    publish(&mut table, &[0], "md:A", r#"{"bid":3}"#);
    let tenth_ns = SECOND_NS / 10;
    assert_eq!(table.collect_due(SECOND_NS + 1), Some(SECOND_NS + tenth_ns));
    assert!(due(&mut table, SECOND_NS + tenth_ns - 1).is_empty());
    assert_eq!(due(&mut table, SECOND_NS + tenth_ns).len(), 1);
}

#[test]
fn a_topic_and_a_field_that_go_are_told_and_come_back_whole() {
    let mut table = table();
    subscribe(&mut table, 0, 1, &["live:a"]);
    publish(&mut table, &[0], "live:a", r#"{"x":"1","y":"2"}"#);
    snapshot(&mut table, (0, 1));
    let step = |table: &mut Table, now_s| {
        table.next((0, 1));
        due(table, now_s * SECOND_NS).concat()
    };
    publish(&mut table, &[0], "live:a", r#"{"x":"1","z":"3"}"#);
    assert_eq!(
        step(&mut table, 1),
        r#"{"batch":1,"rows":[[1,{"z":"3","y":null}]]}"#
    );
    let row = table.remove(b"live:a", Version::default());
    table.mark(0, row);
    assert_eq!(step(&mut table, 2), r#"{"batch":1,"rows":[[1,null]]}"#);
    publish(&mut table, &[0], "live:a", "auto");
    assert_eq!(
        step(&mut table, 3),
        r#"{"batch":1,"rows":[[1,{"value":"auto"}]]}"#
    );
    // Gone and back before the page has asked: it forgets what it knew.
    let row = table.remove(b"live:a", Version::default());
    table.mark(0, row);
    publish(&mut table, &[0], "live:a", "22.5");
    assert_eq!(step(&mut table, 4), r#"{"batch":1,"rows":[[1,null]]}"#);
    assert_eq!(
        step(&mut table, 5),
        r#"{"batch":1,"rows":[[1,{"value":22.5}]]}"#
    );
}

#[test]
fn a_slow_page_costs_no_more_with_each_update() {
    let mut table = table();
    subscribe(&mut table, 0, 1, &["md:*"]);
    for round in 0..1_000 {
        for topic in 0..10 {
            publish(
                &mut table,
                &[0],
                &format!("md:{topic}"),
                &format!(r#"{{"bid":{round}}}"#),
            );
        }
    }
    let sub = table.sub((0, 1)).unwrap();
    assert_eq!((sub.dirty.len(), sub.rows.len()), (10, 10));
    assert!(table.memory_bytes() < 10 * 500, "{}", table.memory_bytes());
}

#[test]
fn selected_fields_alone_are_sent() {
    let mut table = table();
    let fields = [b"bid".to_vec(), b"other".to_vec()];
    let selection = Selection::new([&b"md:*"[..]], Some(&fields), 10.0);
    table.subscribe(0, 1, selection).unwrap();
    publish(&mut table, &[0], "md:A", r#"{"bid":1,"ask":2}"#);
    let first = r#"{"snap":1,"as_of":1,"rows":[[1,"md:A",{"bid":1}]]}"#;
    assert_eq!(snapshot(&mut table, (0, 1)), first);
    table.next((0, 1));
    publish(&mut table, &[0], "md:A", r#"{"bid":1,"ask":3}"#);
    assert!(due(&mut table, SECOND_NS).is_empty());
    publish(&mut table, &[0], "md:A", r#"{"bid":2,"ask":3}"#);
    assert_eq!(
        due(&mut table, SECOND_NS),
        [r#"{"batch":1,"rows":[[1,{"bid":2}]]}"#]
    );
}

#[test]
fn a_second_subscription_shares_numbers_and_gets_what_the_page_has_already() {
    let mut table = table();
    subscribe(&mut table, 0, 1, &["md:*"]);
    publish(&mut table, &[0], "md:A", r#"{"bid":1}"#);
    snapshot(&mut table, (0, 1));
    subscribe(&mut table, 0, 2, &["md:A", "md:B"]);
    table.sweep();
    assert_eq!(
        snapshot(&mut table, (0, 2)),
        r#"{"snap":2,"as_of":1,"rows":[[1,{"bid":1}]]}"#
    );
    assert!(table.unsubscribe((0, 1)).is_some());
    while table.sweep() {}
    assert_eq!(table.len(), 1);
    assert!(table.unsubscribe((0, 2)).is_some());
    assert!(table.unsubscribe((0, 2)).is_none());
    while table.sweep() {}
    assert!(table.is_empty(), "a topic without a page is forgotten");
}

#[test]
fn an_older_state_of_a_topic_does_not_come_back() {
    let mut table = table();
    subscribe(&mut table, 0, 1, &["md:*"]);
    let of = |source, number| Version {
        source,
        number,
        ..Version::default()
    };
    table.update(b"md:A", of(1, 6), br#"{"bid":6}"#);
    let row = table.update(b"md:A", of(1, 5), br#"{"bid":5}"#);
    table.mark(0, row);
    assert!(snapshot(&mut table, (0, 1)).contains(r#"{"bid":6}"#));
    // Another source of the same name counts from its own beginning.
    table.next((0, 1));
    let row = table.update(b"md:A", of(2, 1), br#"{"bid":7}"#);
    table.mark(0, row);
    assert!(due(&mut table, SECOND_NS).concat().contains(r#"{"bid":7}"#));
}

#[test]
fn a_page_that_leaves_takes_its_topics_with_it() {
    let mut table = table();
    for page in [0, 3] {
        subscribe(&mut table, page, 1, &["md:*"]);
    }
    for topic in 0..10_000 {
        publish(&mut table, &[0, 3], &format!("md:{topic}"), "{}");
    }
    table.leave(0);
    while table.sweep() {}
    assert_eq!(table.len(), 10_000);
    table.leave(3);
    assert!(table.sweep(), "not all at once");
    while table.sweep() {}
    assert!(table.is_empty());
    publish(&mut table, &[3], "md:1", "{}");
    table.sweep();
    assert!(table.is_empty(), "no page follows it");
}

#[test]
fn a_page_has_a_maximum_of_subscriptions() {
    let mut table = table();
    for number in 0..SUBSCRIPTIONS_MAX as u64 {
        subscribe(&mut table, 0, number, &["a"]);
    }
    let selection = Selection::new([&b"a"[..]], None, 1.0);
    assert_eq!(table.subscribe(0, 999, selection.clone()), Err(Full));
    assert_eq!(table.subscribe(0, 7, selection), Ok(()));
}

#[test]
fn rows_of_a_view_are_written_when_they_are_asked_for() {
    let mut table = table();
    let selection = Selection::new([&b"md:*"[..]], None, 10.0);
    table.subscribe_view(0, 1, selection).unwrap();
    publish(&mut table, &[0], "md:A", r#"{"bid":1}"#);
    publish(&mut table, &[0], "md:B", r#"{"bid":2}"#);
    assert!(!table.next((0, 9)) && table.next((0, 1)));
    assert!(due(&mut table, SECOND_NS).is_empty() && table.snapping().is_empty());
    let changed = table.take_changed((0, 1), 9);
    assert_eq!(changed.len(), 2);
    let [one, other] = changed[..] else {
        unreachable!()
    };
    assert_eq!(table.row(other).unwrap().find(b"\"bid\""), Some(&b"2"[..]));
    let view = |table: &mut Table, rows: &[RowId]| {
        let (mut order, mut out) = (Vec::new(), Vec::new());
        table.write_view((0, 1), rows, &mut order, &mut out);
        (order, String::from_utf8(out).unwrap())
    };
    let first = r#"[1,"md:B",{"bid":2}]"#;
    assert_eq!(view(&mut table, &[other]), (vec![1], first.to_owned()));
    publish(&mut table, &[0], "md:B", r#"{"bid":3}"#);
    assert_eq!(table.take_changed((0, 1), 9), [other]);
    let both = r#"[2,"md:A",{"bid":1}],[1,{"bid":3}]"#;
    assert_eq!(
        view(&mut table, &[one, other]),
        (vec![2, 1], both.to_owned())
    );
    assert_eq!(view(&mut table, &[one, other]), (vec![2, 1], String::new()));
}

#[test]
fn a_value_that_was_published_before_a_read_did_not_come_back_behind_it() {
    let mut table = table();
    subscribe(&mut table, 0, 1, &["*"]);
    let published = Version {
        source: 1,
        number: 7,
        is_read: false,
    };
    let read = Version {
        is_read: true,
        ..published
    };
    table.update(b"live:a", Version { number: 6, ..read }, b"6");
    table.update(b"live:a", published, b"7");
    // All keys were removed, which counts no state, and that was read first.
    table.remove(b"live:a", read);
    let row = table.update(b"live:a", published, b"7");
    assert!(!table.row(row).unwrap().exists());
    let row = table.update(b"live:a", read, b"now");
    assert!(table.row(row).unwrap().exists(), "a later read is newer");
}

#[test]
fn short_rows_tell_the_number_of_a_field_once_with_its_name() {
    let mut table = table();
    let selection = Selection::new([&b"md:*"[..]], None, 10.0).short(true);
    table.subscribe(0, 1, selection).unwrap();
    publish(&mut table, &[0], "md:A", r#"{"bid":1,"ask":2}"#);
    publish(&mut table, &[0], "md:B", r#"{"ask":3}"#);
    let first = concat!(
        r#"{"snap":1,"as_of":2,"rows":[[1,"md:A",[0,1,1,2]],[2,"md:B",[1,3]]],"#,
        r#""fields":{"0":"bid","1":"ask"}}"#
    );
    assert_eq!(snapshot(&mut table, (0, 1)), first);
    table.next((0, 1));
    publish(&mut table, &[0], "md:A", r#"{"bid":1,"last":9}"#);
    let next = r#"{"batch":1,"rows":[[1,[2,9,1,null]]],"fields":{"2":"last"}}"#;
    assert_eq!(due(&mut table, SECOND_NS), [next]);
    table.next((0, 1));
    let row = table.remove(b"md:B", Version::default());
    table.mark(0, row);
    let gone = r#"{"batch":1,"rows":[[2,null]]}"#;
    assert_eq!(due(&mut table, 2 * SECOND_NS), [gone]);
}

#[test]
fn pages_hold_all_of_the_memory_together_and_give_it_back() {
    let mut table = table();
    for page in 0..2 {
        subscribe(&mut table, page, 1, &["md:*"]);
    }
    for number in 0..1_000 {
        let name = format!("md:{number}");
        publish(
            &mut table,
            &[0, 1],
            &name,
            r#"{"bid":1,"ask":"a long text"}"#,
        );
        publish(&mut table, &[0, 1], &name, r#"{"bid":2}"#);
    }
    let (one, other) = (table.page_bytes(0), table.page_bytes(1));
    assert!(one == other && one > 100_000, "{one} {other}");
    assert!(table.memory_bytes().abs_diff(one + other) <= 2);
    assert_eq!(table.behind(0), (1_000, 1_000));
    assert_eq!(table.page_bytes(7), 0);
    table.leave(0);
    while table.sweep() {}
    assert!(table.page_bytes(1) > one && table.take_freed(1 << 20) == 0);
    table.leave(1);
    while table.sweep() {}
    assert_eq!(table.memory_bytes(), 0);
    assert!(table.take_freed(1 << 20) > 200_000 && table.take_freed(0) == 0);
}

/// A page took the fields by their place, and was told an earlier one.
#[test]
fn of_fields_with_one_name_the_last_one_counts() {
    let mut table = table();
    subscribe(&mut table, 0, 1, &["md:*"]);
    publish(&mut table, &[0], "md:A", r#"{"a":1,"a":2}"#);
    let first = r#"{"snap":1,"as_of":1,"rows":[[1,"md:A",{"a":2}]]}"#;
    assert_eq!(snapshot(&mut table, (0, 1)), first);
    for (at, (payload, fields)) in [
        (r#"{"a":1,"a":2,"a":3}"#, Some(r#"{"a":3}"#)),
        (r#"{"a":2,"a":1,"a":3}"#, None),
        (r#"{"a":2,"b":1,"\u0061":4}"#, Some(r#"{"a":4,"b":1}"#)),
        (r#"{"a":4,"b":1}"#, None),
        (
            r#"{"\/\n":5,"/\n":6}"#,
            Some(r#"{"/\n":6,"a":null,"b":null}"#),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        table.next((0, 1));
        publish(&mut table, &[0], "md:A", payload);
        let batch = fields.map(|fields| format!(r#"{{"batch":1,"rows":[[1,{fields}]]}}"#));
        let expected: Vec<String> = batch.into_iter().collect();
        assert_eq!(due(&mut table, (at as u64 + 1) * SECOND_NS), expected);
    }
    let row = table.by_name[&b"md:A"[..]];
    let row = table.rows[row as usize].as_ref().expect("a row");
    assert_eq!(row.find(br#""/\n""#), Some(&b"6"[..]));
    let selection = Selection::new([&b"md:*"[..]], None, 10.0).short(true);
    table.subscribe(0, 2, selection).unwrap();
    while table.sweep() {}
    publish(&mut table, &[0], "md:A", r#"{"a":1,"a":7}"#);
    let short = snapshot(&mut table, (0, 2));
    assert!(
        short.ends_with(r#""rows":[[1,[0,7]]],"fields":{"0":"a"}}"#),
        "{short}"
    );
}

/// Pages that follow the same topics, each in its own way.
fn selection_of(page: usize) -> Selection {
    let fields = [b"bid".to_vec(), b"size".to_vec()];
    let selected = (page % 3 == 2).then_some(&fields[..]);
    Selection::new([&b"md:*"[..]], selected, 1.0).short(page % 2 == 1)
}

/// A random value: fields come and go, and so do topics.
fn random_value(random: &mut u64) -> Option<String> {
    let mut next = |below: u64| {
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (*random >> 33) % below
    };
    if next(30) == 0 {
        return None;
    }
    let mut fields = vec![format!("\"bid\":{}", next(5))];
    for name in ["ask", "size", "state"] {
        if next(12) > 0 {
            fields.push(format!("\"{name}\":{}", next(3)));
        }
    }
    Some(format!("{{{}}}", fields.join(",")))
}

#[test]
fn pages_together_are_told_what_each_would_be_told_alone() {
    const PAGES: usize = 8;
    // The last table has all pages, the others one each.
    let mut tables: Vec<Table> = (0..=PAGES).map(|_| table()).collect();
    let pages_of = |at: usize| if at == PAGES { 0..PAGES } else { at..at + 1 };
    for (at, table) in tables.iter_mut().enumerate() {
        for page in pages_of(at) {
            table.subscribe(page, 1, selection_of(page)).unwrap();
        }
    }
    let (mut random, mut messages) = (1, 0);
    for step in 0..3_000u64 {
        let name = format!("md:{}", step * step % 7);
        let value = random_value(&mut random);
        for (at, table) in tables.iter_mut().enumerate() {
            let row = match &value {
                Some(value) => table.update(name.as_bytes(), Version::default(), value.as_bytes()),
                None => table.remove(name.as_bytes(), Version::default()),
            };
            pages_of(at).for_each(|page| table.mark(page, row));
            if step == 10 {
                pages_of(at).for_each(|page| drop(snapshot(table, (page, 1))));
            }
        }
        if step <= 10 {
            continue;
        }
        let page = (random >> 40) as usize % PAGES;
        let now_ns = (step + 1) * SECOND_NS;
        tables[page].next((page, 1));
        tables[PAGES].next((page, 1));
        let (alone, together) = tables.split_at_mut(PAGES);
        let mut alone: Vec<String> = alone.iter_mut().flat_map(|one| due(one, now_ns)).collect();
        let mut together = due(&mut together[0], now_ns);
        alone.sort();
        together.sort();
        assert_eq!(together, alone, "step {step}");
        messages += together.len();
    }
    assert!(messages > 1_000, "{messages} messages");
}
