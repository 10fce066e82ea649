//! CPU share of each thread of the process, from the operating system's counters.

use std::fs;
use std::time::Instant;

use parking_lot::Mutex;

/// Looks at the threads' processor time; a share is of the time since a look that is a second old.
#[derive(Debug)]
pub(crate) struct Threads {
    looks: Mutex<[ThreadLook; 2]>,
}

/// One thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Share {
    /// Its number to the system.
    pub(crate) id: u32,
    /// The name the system has, at most 15 characters.
    pub(crate) name: String,
    /// Processor time since the thread began.
    pub(crate) used_ns: u64,
    /// Recent share of one processor, percent.
    pub(crate) percent: f64,
}

#[derive(Clone, Debug)]
struct ThreadLook {
    at: Instant,
    used: Vec<(u32, u64)>,
}

impl Threads {
    pub(crate) fn new() -> Self {
        let look = ThreadLook {
            at: Instant::now(),
            used: Vec::new(),
        };
        Self {
            looks: Mutex::new([look.clone(), look]),
        }
    }

    /// The threads by number; none where the system does not tell.
    pub(crate) fn shares(&self) -> Vec<Share> {
        let now = Instant::now();
        let mut shares = read_threads();
        let mut looks = self.looks.lock();
        if now.duration_since(looks[1].at).as_millis() >= LOOK_MS_MIN {
            let used = shares.iter().map(|share| (share.id, share.used_ns));
            let used = used.collect();
            let look = ThreadLook { at: now, used };
            let newest = std::mem::replace(&mut looks[1], look);
            looks[0] = newest;
        }
        debug_assert!(looks[0].at <= looks[1].at, "the older look is the first");
        let then = &looks[0];
        let passed_ns = now.duration_since(then.at).as_nanos().max(1) as f64;
        for share in &mut shares {
            let before = then.used.iter().find(|(id, _)| *id == share.id);
            let gained_ns = share.used_ns - before.map_or(0, |&(_, ns)| ns.min(share.used_ns));
            share.percent = gained_ns as f64 * 100.0 / passed_ns;
        }
        shares
    }
}

fn read_threads() -> Vec<Share> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let mut shares: Vec<Share> = tasks
        .flatten()
        .filter_map(|task| {
            let id = task.file_name().to_str()?.parse().ok()?;
            let name = fs::read_to_string(task.path().join("comm")).ok()?;
            // Time on a processor in ns, time waiting for one, and turns.
            let account = fs::read_to_string(task.path().join("schedstat")).ok()?;
            let used_ns = account.split_whitespace().next()?.parse().ok()?;
            Some(Share {
                id,
                name: name.trim_end().to_owned(),
                used_ns,
                percent: 0.0,
            })
        })
        .collect();
    shares.sort_unstable_by_key(|share| share.id);
    shares
}

/// Looks closer together than this are one.
const LOOK_MS_MIN: u128 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_thread_that_works_has_its_share_and_one_that_waits_has_none() {
        let threads = Threads::new();
        let spin = |time: Duration| {
            let begin = Instant::now();
            while begin.elapsed() < time {
                std::hint::spin_loop();
            }
        };
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::Builder::new().name("waits".to_owned());
        let waiting = waiting.spawn(move || told.recv()).unwrap();
        let working = std::thread::Builder::new().name("works".to_owned());
        let working = working
            .spawn(move || spin(Duration::from_millis(60)))
            .unwrap();
        std::thread::sleep(Duration::from_millis(30));
        let shares = threads.shares();
        let of = |name: &str| shares.iter().find(|share| share.name == name).unwrap();
        assert!(of("works").used_ns > of("waits").used_ns);
        assert!(of("works").percent > of("waits").percent);
        assert!(shares.iter().all(|share| share.percent >= 0.0));
        working.join().unwrap();
        drop(tell);
        let _ = waiting.join().unwrap();
    }
}
