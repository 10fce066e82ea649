//! Background threads: their names, and how the kernel schedules them.

use std::fs;
use std::time::Duration;

use tidewire_zmq::{Context, SocketType};

const THREAD_SCHED_POLICY: i32 = 4;
const AFFINITY_CPU_ADD: i32 = 7;
const AFFINITY_CPU_REMOVE: i32 = 8;
const THREAD_NAME_PREFIX: i32 = 9;

/// A line of what the system tells of the thread with this name.
fn of_thread(name: &str, file: &str, line: &str) -> Option<String> {
    let threads = fs::read_dir("/proc/self/task").expect("the threads");
    let paths = threads.map(|thread| thread.expect("a thread").path());
    let read = |path: std::path::PathBuf| fs::read_to_string(path).unwrap_or_default();
    let mut named = paths.filter(|path| read(path.join("comm")).trim() == name);
    let text = read(named.next()?.join(file));
    let found = text.lines().find_map(|text| text.strip_prefix(line));
    found.map(|rest| rest.trim_start_matches(':').trim().to_owned())
}

/// The highest processor that this thread may run on.
fn last_processor() -> i32 {
    let status = fs::read_to_string("/proc/self/status").expect("the status");
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .expect("a list");
    let last = list.trim().rsplit([',', '-']).next().expect("a number");
    last.parse().expect("a number")
}

#[test]
fn a_background_thread_keeps_to_its_processors_and_its_policy() {
    let processor = last_processor();
    let context = Context::new();
    context
        .set_option(THREAD_NAME_PREFIX, b"pin")
        .expect("a prefix");
    for other in [processor, 0, processor] {
        context.set(AFFINITY_CPU_ADD, other).expect("a processor");
    }
    context.set(AFFINITY_CPU_REMOVE, 0).expect("one of them");
    // SCHED_BATCH, which needs no right.
    context.set(THREAD_SCHED_POLICY, 3).expect("a policy");
    let _socket = context.socket(SocketType::Pair).expect("a socket");
    let of = |file, line| of_thread("pin/ZMQbg/IO/0", file, line);
    // The thread begins with the name, and schedules itself then.
    let pinned = (0..10_000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(2));
        of("status", "Cpus_allowed_list").filter(|list| *list == processor.to_string())
    });
    assert!(pinned.is_some(), "{:?}", of("status", "Cpus_allowed_list"));
    // The name has a space in its place, so the fields count from the end: the 12th last is the
    // policy.
    let stat = of("stat", "").expect("its figures");
    let policy = stat.split_whitespace().rev().nth(11);
    assert_eq!(policy, Some("3"), "{stat}");
}
