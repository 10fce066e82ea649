//! Work beside the lanes: loading, saving, the append-only file.
//!
//! It runs on threads of the system. In a simulation it runs as *tasks*: threads of which none runs
//! unless the simulator says so, and then only until it pauses. So everything happens in one order,
//! which a seed decides.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidewire_lane::{advance_simulated_clock, monotonic_ns};

use crate::lane_waits::before_wait;

/// How work beside the lanes runs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Background(Option<Arc<Tasks>>);

/// The tasks of a simulated process.
#[derive(Debug, Default)]
pub struct Tasks {
    state: Mutex<TaskState>,
    /// The turn has gone to a task, or back.
    turned: Condvar,
}

#[derive(Debug, Default)]
struct TaskState {
    tasks: Vec<Task>,
    next_number: u64,
    /// The task whose turn it is.
    running: Option<u64>,
    is_killed: bool,
    panics: usize,
    threads: Vec<JoinHandle<()>>,
    dialed: VecDeque<(SocketAddr, UnixStream)>,
}

#[derive(Debug)]
struct Task {
    number: u64,
    name: &'static str,
    /// When it goes on, monotonic ns.
    resumes_ns: u64,
    /// It may go on before that.
    may_be_early: bool,
}

/// Work that has begun.
#[derive(Debug)]
pub(crate) enum RunningTask {
    Thread(JoinHandle<()>),
    Task(Arc<Tasks>, u64),
}

thread_local! {
    /// The task that this thread runs.
    static OWN_TASK: Cell<Option<u64>> = const { Cell::new(None) };
}

/// What a task's stack is unwound with when its process is killed.
struct Killed;

impl Background {
    /// Runs work as tasks, which take turns with their simulator.
    pub fn simulated(tasks: Arc<Tasks>) -> Self {
        Self(Some(tasks))
    }

    /// Begins work beside the lanes.
    pub(crate) fn spawn(
        &self,
        name: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<RunningTask> {
        match &self.0 {
            None => {
                let thread = thread::Builder::new().name(name.to_owned());
                thread.spawn(work).map(RunningTask::Thread)
            }
            Some(tasks) => tasks.clone().spawn(name, work),
        }
    }

    /// Sleeps.
    pub(crate) fn pause(&self, time: Duration) {
        before_wait();
        match &self.0 {
            None => thread::sleep(time),
            Some(tasks) => tasks.pause(time, false),
        }
    }

    /// A place where a long piece of work may be interrupted by others: only in a simulation.
    pub(crate) fn let_others_run(&self) {
        if let Some(tasks) = &self.0 {
            tasks.pause(Duration::ZERO, false);
        }
    }

    /// The same, once for each key that a step of a snapshot has written: in how many steps they
    /// come depends on their hashes, which no seed decides.
    pub(crate) fn let_others_run_between(&self, before: u64, written: u64) {
        if self.0.is_some() {
            (before..written).for_each(|_| self.let_others_run());
        }
    }

    /// Waits a while for what no other task tells of: a simulator may end it before.
    pub(crate) fn doze(&self, time: Duration) {
        match &self.0 {
            None => thread::sleep(time),
            Some(tasks) => tasks.pause(time, true),
        }
    }

    /// In a simulation: one end of a new connection, which does not block.
    pub(crate) fn dial(&self, address: SocketAddr) -> Option<io::Result<UnixStream>> {
        self.0.as_ref().map(|tasks| tasks.dial(address))
    }

    /// Locks what others hold while they pause.
    pub(crate) fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        before_wait();
        if self.0.is_none() {
            return mutex.lock();
        }
        loop {
            match mutex.try_lock() {
                Some(guard) => return guard,
                None => self.pause(NAP),
            }
        }
    }

    /// Waits for news, or until the time is over. As with any condition variable it may return
    /// without either.
    pub(crate) fn wait_for<T>(
        &self,
        news: &Condvar,
        guard: &mut MutexGuard<'_, T>,
        time: Duration,
    ) {
        before_wait();
        match &self.0 {
            None => {
                let _ = news.wait_for(guard, time);
            }
            Some(tasks) => MutexGuard::unlocked(guard, || tasks.pause(time, true)),
        }
    }
}

impl TaskState {
    fn assert_invariants(&self) {
        debug_assert!(
            self.tasks
                .is_sorted_by(|one, next| one.number < next.number),
            "tasks stand in the order in which they began"
        );
        debug_assert!(
            self.tasks
                .last()
                .is_none_or(|last| last.number < self.next_number),
            "every number is given once"
        );
        let has = |number| self.tasks.iter().any(|task| task.number == number);
        debug_assert!(
            self.running.is_none_or(has),
            "only a task that has not ended has the turn"
        );
    }
}

impl RunningTask {
    /// Waits for its end.
    pub(crate) fn join(self) {
        before_wait();
        match self {
            RunningTask::Thread(thread) => drop(thread.join()),
            RunningTask::Task(tasks, number) => {
                while tasks.has(number) && !thread::panicking() {
                    tasks.pause(NAP, true);
                }
            }
        }
    }
}

impl Tasks {
    /// How many tasks there are.
    pub fn count(&self) -> usize {
        self.state.lock().tasks.len()
    }

    /// Names of the tasks that can go on now, by place.
    pub fn names(&self) -> Vec<&'static str> {
        self.state
            .lock()
            .tasks
            .iter()
            .map(|task| task.name)
            .collect()
    }

    /// The oldest connection that a task has made and nobody has taken: where to, and its other
    /// end, which does not block. Dropped, it is a peer that hangs up at once.
    pub fn take_dialed(&self) -> Option<(SocketAddr, UnixStream)> {
        self.state.lock().dialed.pop_front()
    }

    fn dial(&self, address: SocketAddr) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        self.state.lock().dialed.push_back((address, theirs));
        Ok(ours)
    }

    /// How many have ended by a panic.
    pub fn panics(&self) -> usize {
        self.state.lock().panics
    }

    /// When the next one goes on by itself, monotonic ns.
    pub fn deadline_ns(&self) -> Option<u64> {
        let state = self.state.lock();
        state.tasks.iter().map(|task| task.resumes_ns).min()
    }

    /// Lets the task at a place go on until it pauses or ends, if it can.
    pub fn run(&self, place: usize) {
        let mut state = self.state.lock();
        let now_ns = monotonic_ns();
        let task = state.tasks.get(place);
        let Some(task) = task.filter(|task| task.may_be_early || task.resumes_ns <= now_ns) else {
            return;
        };
        assert!(OWN_TASK.get().is_none(), "a task gives turns to nobody");
        state.running = Some(task.number);
        self.turned.notify_all();
        while state.running.is_some() {
            self.turned.wait(&mut state);
        }
        state.assert_invariants();
    }

    /// Lets the tasks that are due go on, each once.
    pub fn run_due(&self) {
        let mut place = 0;
        while place < self.count() {
            let before = self.count();
            let is_due = {
                let state = self.state.lock();
                let due = |task: &Task| task.resumes_ns <= monotonic_ns();
                state.tasks.get(place).is_some_and(due)
            };
            if is_due {
                self.run(place);
            }
            // One that has ended leaves its place to the next.
            place += usize::from(self.count() >= before);
        }
    }

    /// The process is killed: its tasks end where they stand.
    pub fn kill(&self) {
        let mut state = self.state.lock();
        assert!(state.running.is_none(), "the simulator has the turn");
        state.is_killed = true;
        self.turned.notify_all();
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        for thread in threads {
            let _ = thread.join();
        }
        debug_assert_eq!(self.count(), 0, "a killed process has no task");
    }

    fn spawn(
        self: Arc<Self>,
        name: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<RunningTask> {
        let mut state = self.state.lock();
        if state.is_killed {
            return Err(io::Error::other("the process is killed"));
        }
        let number = state.next_number;
        state.next_number += 1;
        let tasks = self.clone();
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || tasks.carry_out(number, work))?;
        state.threads.retain(|thread| !thread.is_finished());
        state.threads.push(thread);
        state.tasks.push(Task {
            number,
            name,
            resumes_ns: 0,
            may_be_early: true,
        });
        state.assert_invariants();
        drop(state);
        Ok(RunningTask::Task(self, number))
    }

    fn carry_out(&self, number: u64, work: impl FnOnce()) {
        OWN_TASK.set(Some(number));
        let carried_out = catch_unwind(AssertUnwindSafe(|| {
            self.wait_for_turn(number);
            work();
        }));
        let mut state = self.state.lock();
        if carried_out.is_err_and(|payload| !payload.is::<Killed>()) {
            state.panics += 1;
        }
        state.tasks.retain(|task| task.number != number);
        if state.running == Some(number) {
            state.running = None;
        }
        state.assert_invariants();
        self.turned.notify_all();
    }

    fn wait_for_turn(&self, number: u64) {
        let mut state = self.state.lock();
        while state.running != Some(number) && !state.is_killed {
            self.turned.wait(&mut state);
        }
        if state.is_killed {
            drop(state);
            resume_unwind(Box::new(Killed));
        }
    }

    fn pause(&self, time: Duration, may_be_early: bool) {
        if thread::panicking() {
            return;
        }
        let resumes_ns = monotonic_ns() + time.as_nanos() as u64;
        let Some(number) = OWN_TASK.get() else {
            return self.pass_time(resumes_ns);
        };
        let mut state = self.state.lock();
        let own = state.tasks.iter_mut().find(|task| task.number == number);
        let own = own.expect("a task that runs is in the list");
        (own.resumes_ns, own.may_be_early) = (resumes_ns, may_be_early);
        debug_assert_eq!(state.running, Some(number), "who pauses has the turn");
        state.running = None;
        self.turned.notify_all();
        drop(state);
        self.wait_for_turn(number);
    }

    /// A lane waits: the tasks go on, and time passes.
    fn pass_time(&self, until_ns: u64) {
        self.run_due();
        let now_ns = monotonic_ns();
        let next_ns = self
            .deadline_ns()
            .map_or(until_ns, |next_ns| next_ns.min(until_ns));
        advance_simulated_clock(Duration::from_nanos(next_ns.saturating_sub(now_ns)));
    }

    fn has(&self, number: u64) -> bool {
        let state = self.state.lock();
        state.tasks.iter().any(|task| task.number == number)
    }
}

/// How long a task that waits for another one lets others run.
const NAP: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// Clocks of a simulation are the process's: these steps are one test.
    #[test]
    fn tasks_go_on_only_when_it_is_their_turn_and_end_when_they_are_killed() {
        let tasks = Arc::new(Tasks::default());
        let background = Background::simulated(tasks.clone());
        let told = Arc::new(Mutex::new(Vec::new()));
        for number in 0..2 {
            let (own, told) = (background.clone(), told.clone());
            let spawned = background.spawn("counting", move || {
                for step in 0..3 {
                    told.lock().push((number, step));
                    own.let_others_run();
                }
            });
            spawned.unwrap();
        }
        assert_eq!(told.lock().len(), 0);
        for place in [1, 1, 0, 1, 1] {
            tasks.run(place);
        }
        assert_eq!(*told.lock(), [(1, 0), (1, 1), (0, 0), (1, 2)]);
        assert_eq!(tasks.count(), 1, "the second one has ended");
        tasks.kill();
        assert_eq!((tasks.count(), told.lock().len()), (0, 4));
        assert!(background.spawn("late", || ()).is_err());
        assert_eq!(tasks.panics(), 0);
    }
}
