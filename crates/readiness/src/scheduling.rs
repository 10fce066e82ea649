//! How the kernel schedules a thread: policy, priority, processors.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

/// How a thread is scheduled. The default leaves it as the thread that starts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// `SCHED_OTHER`, `SCHED_FIFO`, …, as the kernel numbers them.
    pub policy: Option<i32>,
    /// 1 to 99 for `SCHED_FIFO` and `SCHED_RR`. Above 0, the other policies get the lowest nice
    /// value.
    pub priority: Option<i32>,
    /// Numbers of the processors that the thread keeps to; all if there are none.
    pub processors: Vec<i32>,
}

impl Scheduling {
    /// Schedules the calling thread so. Goes on after an error with what is left.
    ///
    /// # Errors
    /// The first error: the process lacks a permission or limit (`CAP_SYS_NICE`, `RLIMIT_RTPRIO`,
    /// `RLIMIT_NICE`), the kernel knows no such policy or priority, or there is no such processor.
    pub fn apply(&self) -> io::Result<()> {
        let parts = [
            self.apply_policy(),
            self.apply_nice(),
            self.apply_processors(),
        ];
        parts.into_iter().collect()
    }

    fn apply_policy(&self) -> io::Result<()> {
        if self.policy.is_none() && self.priority.is_none() {
            return Ok(());
        }
        // SAFETY: thread 0 is the calling one; nothing is read or written.
        let current = unsafe { libc::sched_getscheduler(0) };
        let policy = self.policy.unwrap_or(current);
        let sched_priority = match is_real_time(policy) {
            true => self.priority.unwrap_or(REAL_TIME_PRIORITY_MIN),
            false => 0,
        };
        let parameters = libc::sched_param { sched_priority };
        // SAFETY: thread 0 is the calling one, and the parameters live during the call.
        match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn apply_nice(&self) -> io::Result<()> {
        let is_wanted = self.priority.is_some_and(|priority| priority > 0);
        if !is_wanted || self.policy.is_some_and(is_real_time) {
            return Ok(());
        }
        // Linux has a nice value for each thread.
        rustix::process::nice(NICE_LOWEST)?;
        Ok(())
    }

    fn apply_processors(&self) -> io::Result<()> {
        if self.processors.is_empty() {
            return Ok(());
        }
        let mut set = CpuSet::new();
        for &processor in &self.processors {
            let processor = usize::try_from(processor).unwrap_or(usize::MAX);
            if processor >= CpuSet::MAX_CPU {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            set.set(processor);
        }
        Ok(sched_setaffinity(None, &set)?)
    }
}

fn is_real_time(policy: i32) -> bool {
    [libc::SCHED_FIFO, libc::SCHED_RR].contains(&policy)
}

const REAL_TIME_PRIORITY_MIN: i32 = 1;
const NICE_LOWEST: i32 = -20;

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    /// Runs `look` in a thread that is scheduled so.
    fn scheduled<T: Send>(
        scheduling: &Scheduling,
        look: impl FnOnce(io::Result<()>) -> T + Send,
    ) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| look(scheduling.apply()));
            thread.join().expect("a thread that ends")
        })
    }

    #[test]
    fn a_thread_keeps_to_its_processors() {
        let all = sched_getaffinity(None).expect("the set");
        let Some(last) = (0..CpuSet::MAX_CPU).rfind(|&one| all.is_set(one)) else {
            unreachable!("this thread runs somewhere");
        };
        let scheduling = Scheduling {
            processors: vec![last as i32],
            ..Scheduling::default()
        };
        let (count, is_last) = scheduled(&scheduling, |applied| {
            applied.expect("one of the processors");
            let set = sched_getaffinity(None).expect("the set");
            (set.count(), set.is_set(last))
        });
        assert_eq!((count, is_last), (1, true));
        let after = sched_getaffinity(None).expect("the set");
        assert_eq!(after.count(), all.count(), "this thread keeps its own");
    }

    #[test]
    fn a_thread_gets_the_policy_batch_without_any_right() {
        let scheduling = Scheduling {
            policy: Some(libc::SCHED_BATCH),
            ..Scheduling::default()
        };
        let policy = scheduled(&scheduling, |applied| {
            applied.expect("a policy for all");
            // SAFETY: thread 0 is the calling one; nothing is read or written.
            unsafe { libc::sched_getscheduler(0) }
        });
        assert_eq!(policy, libc::SCHED_BATCH);
    }

    #[test]
    fn what_the_kernel_does_not_know_is_an_error_and_the_rest_is_done() {
        let strange = Scheduling {
            policy: Some(4_711),
            ..Scheduling::default()
        };
        assert!(scheduled(&strange, |applied| applied.is_err()));
        for processor in [-1, 1_000_000] {
            let nowhere = Scheduling {
                processors: vec![processor],
                ..Scheduling::default()
            };
            assert!(scheduled(&nowhere, |applied| applied.is_err()));
        }
        scheduled(&Scheduling::default(), |applied| applied.expect("no wish"));
    }
}
