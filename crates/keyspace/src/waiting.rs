//! Clients that wait for a key. They are parked in its shard. The thread that changes the key
//! serves them under the same lock, in order of arrival.
//!
//! A waiting client's command is run again when one of its keys has changed. Until then, its
//! [`Waiter`] is in the shard of each of its keys. The waiter changes only while all of those
//! shards are locked, so it is either served once or given up once.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tidewire_resp::{ArgumentList, Arguments, Protocol, Writer};

use crate::command::{Call, Command};
use crate::error::CommandError;
use crate::hash;
use crate::key::shard_of;
use crate::keyspace::{Keyspace, Outcome};
use crate::locks::{Locked, ShardSet, Suspended};
use crate::observer::Observer;
use crate::value::ValueType;
use crate::view::View;

/// Identifies a waiting client, with the caller's own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTag {
    /// The lane that owns the client's connection.
    pub lane: usize,
    /// The client's number.
    pub client: u64,
}

/// A client that waits for a key.
pub struct Waiter {
    /// The waiting client.
    pub client: ClientTag,
    /// The command to run again.
    pub command: &'static Command,
    /// When the wait times out, ms since the UNIX epoch; `None` for never.
    pub deadline_ms: Option<i64>,
    /// The database of its keys.
    pub database: usize,
    /// When the command is run again although no key has changed, ms since the UNIX epoch;
    /// `i64::MAX` for never.
    retry_ms: AtomicI64,
    arguments: ArgumentList,
    protocol: Protocol,
    keys: Vec<Box<[u8]>>,
    shards: ShardSet,
    value_type: ValueType,
    /// Whether it is also served when a key was removed or has another type.
    pub(crate) wakes_on_loss: bool,
    over: AtomicBool,
    /// Whether the client has disconnected and will be given up.
    is_abandoned: AtomicBool,
}

impl Waiter {
    /// Marks the client as disconnected: from now on it is not served. [`Keyspace::give_up`] must
    /// still be called, when shards may be locked.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
    }

    /// Returns whether it has been served or given up.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Returns when [`Keyspace::retry`] must be called, ms since the UNIX epoch. It may become
    /// later while the client waits.
    pub fn retry_ms(&self) -> Option<i64> {
        Some(self.retry_ms.load(Ordering::Relaxed)).filter(|&retry_ms| retry_ms != i64::MAX)
    }

    /// Returns the request to run again.
    pub fn request(&self) -> Arguments<'_> {
        self.arguments.as_arguments()
    }
}

/// What a handler waits for.
#[derive(Debug)]
pub(crate) struct Wait {
    /// Positions of the keys among the arguments.
    pub(crate) keys: Vec<usize>,
    /// When the client times out, ms since the UNIX epoch; `None` for never.
    pub(crate) deadline_ms: Option<i64>,
    /// When the command is run again although no key has changed, ms since the UNIX epoch.
    pub(crate) retry_ms: Option<i64>,
    /// The type that a key must have for the command to be run again.
    pub(crate) value_type: ValueType,
    /// Whether it is also run again when a key was removed or has another type.
    pub(crate) wakes_on_loss: bool,
    /// The request to run again, if it differs from the original: it contains the current ids.
    pub(crate) arguments: Option<ArgumentList>,
}

impl Call<'_, '_, '_> {
    /// Returns whether the client can be parked; it cannot in a transaction.
    pub(crate) fn may_wait(&self) -> bool {
        self.waiting
    }

    /// Parks the client, if [`may_wait`](Self::may_wait) allows it. The handler replies nothing.
    pub(crate) fn wait(&mut self, wait: Wait) -> Result<(), CommandError> {
        self.wait = Some(wait);
        Ok(())
    }
}

/// A changed key that a client waits for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    database: usize,
    pub(crate) hash: u64,
    key: Box<[u8]>,
}

impl Ready {
    pub(crate) fn new(database: usize, hash: u64, key: &[u8]) -> Self {
        Ready {
            database,
            hash,
            key: key.into(),
        }
    }
}

impl Keyspace {
    /// Runs a data command that may wait, otherwise like [`execute`](Self::execute). With
    /// [`Outcome::Waiting`], there is no reply yet: [`Observer::served`] delivers it, unless
    /// [`give_up`](Self::give_up) comes first.
    pub fn execute_waiting(
        &self,
        client: ClientTag,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
        now_ms: i64,
        reply: &mut Writer<'_>,
        observer: &mut dyn Observer,
    ) -> Outcome {
        let mut locked = self.lock(self.shards_of(command, arguments));
        let mut wait = None;
        let outcome = self.run(
            &mut locked,
            command,
            arguments,
            None,
            Some(&mut wait),
            database,
            now_ms,
            reply,
            observer,
        );
        let outcome = match wait {
            Some(wait) => {
                let waiter =
                    Waiter::new(client, command, arguments, database, reply.protocol(), wait);
                locked.park(&waiter);
                Outcome::Waiting(waiter)
            }
            None => outcome,
        };
        self.release(locked, now_ms, observer);
        outcome
    }

    /// Serves the clients that wait for keys changed under these locks, and unlocks. Call it after
    /// the last [`run_locked`](Self::run_locked).
    #[inline]
    pub fn release(&self, mut locked: Locked<'_>, now_ms: i64, observer: &mut dyn Observer) {
        locked.pending.propagate();
        if locked.has_ready() {
            self.serve_all(locked, now_ms, observer);
        }
    }

    /// Locks shards again, to continue after [`Locked::suspend`].
    pub fn resume<'k>(&'k self, shards: ShardSet, suspended: Suspended<'k>) -> Locked<'k> {
        let mut locked = self.lock(shards);
        suspended.resume(&mut locked);
        locked
    }

    /// Runs the command of a waiting client again, because its time has come. If that serves the
    /// client, [`Observer::served`] delivers the reply.
    pub fn retry(&self, waiter: &std::sync::Arc<Waiter>, now_ms: i64, observer: &mut dyn Observer) {
        let mut locked = self.lock(waiter.shards);
        let is_over = waiter.over.load(Ordering::Relaxed);
        if !is_over && !waiter.is_abandoned.load(Ordering::Relaxed) {
            self.serve_waiter(&mut locked, waiter, now_ms, observer);
        }
        self.release(locked, now_ms, observer);
    }

    /// Removes a waiting client. Returns false if it has been served and its reply is on its way.
    pub fn give_up(&self, waiter: &Waiter) -> bool {
        let mut locked = self.lock(waiter.shards);
        let waited = !waiter.over.swap(true, Ordering::Relaxed);
        if waited {
            locked.unpark(waiter);
        }
        waited
    }

    #[cold]
    fn serve_all(&self, mut locked: Locked<'_>, now_ms: i64, observer: &mut dyn Observer) {
        let mut deferred = self.serve(&mut locked, now_ms, observer);
        drop(locked);
        // Some shards were not free: check again with all locks held.
        while let Some((ready, shards)) = deferred.pop() {
            let mut locked = self.lock(shards);
            locked.add_ready(ready);
            deferred.append(&mut self.serve(&mut locked, now_ms, observer));
        }
    }

    /// Serves clients as far as the locked shards allow. Returns the others, each with the shards
    /// it needs.
    fn serve(
        &self,
        locked: &mut Locked<'_>,
        now_ms: i64,
        observer: &mut dyn Observer,
    ) -> Vec<(Ready, ShardSet)> {
        let mut deferred = Vec::new();
        while let Some(ready) = locked.next_ready() {
            let shard = ShardSet::only(shard_of(ready.hash));
            if !locked.extend(&shard) {
                deferred.push((ready, shard));
                continue;
            }
            // Clients that park meanwhile are served at the next change.
            for waiter in locked.waiters(shard_of(ready.hash), ready.database, &ready.key) {
                if waiter.over.load(Ordering::Relaxed)
                    || waiter.is_abandoned.load(Ordering::Relaxed)
                {
                    continue;
                }
                if !locked.extend(&waiter.shards) {
                    let mut shards = waiter.shards;
                    shards.insert(shard_of(ready.hash));
                    deferred.push((ready, shards));
                    break;
                }
                if self.is_awaited(locked, &waiter, &ready, now_ms) {
                    self.serve_waiter(locked, &waiter, now_ms, observer);
                }
            }
        }
        deferred
    }

    /// Returns whether the key holds what the client waits for.
    fn is_awaited(
        &self,
        locked: &mut Locked<'_>,
        waiter: &Waiter,
        ready: &Ready,
        now_ms: i64,
    ) -> bool {
        let mut observer = crate::observer::NullObserver;
        let mut view = View::new(self, locked, ready.database, now_ms, &mut observer);
        let key = view.key(&ready.key);
        let value_type = view.peek(key).map(|(value, _)| value.value_type());
        waiter.wakes_on_loss || value_type == Some(waiter.value_type)
    }

    fn serve_waiter(
        &self,
        locked: &mut Locked<'_>,
        waiter: &std::sync::Arc<Waiter>,
        now_ms: i64,
        observer: &mut dyn Observer,
    ) {
        let mut reply = Vec::new();
        let mut wait = None;
        debug_assert!(
            waiter.keys().all(|(shard, _)| locked.holds(shard)),
            "the shards of the command's keys are locked"
        );
        observer.serving(Some(waiter));
        let outcome = self.run(
            locked,
            waiter.command,
            waiter.arguments.as_arguments(),
            None,
            Some(&mut wait),
            waiter.database,
            now_ms,
            &mut Writer::new(&mut reply, waiter.protocol),
            observer,
        );
        if let Some(wait) = wait {
            let retry_ms = wait.retry_ms.unwrap_or(i64::MAX);
            waiter.retry_ms.store(retry_ms, Ordering::Relaxed);
        } else {
            debug_assert!(
                !waiter.over.load(Ordering::Relaxed),
                "a client gets one reply"
            );
            waiter.over.store(true, Ordering::Relaxed);
            locked.unpark(waiter);
            locked.pending.propagate();
            observer.served(waiter, reply, &outcome);
        }
        observer.serving(None);
    }
}

impl Waiter {
    fn new(
        client: ClientTag,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
        protocol: Protocol,
        wait: Wait,
    ) -> std::sync::Arc<Self> {
        let arguments = wait.arguments.unwrap_or_else(|| {
            let mut list = ArgumentList::new();
            arguments.iter().for_each(|argument| list.push(argument));
            list
        });
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        let mut known = HashSet::new();
        let mut shards = ShardSet::empty();
        for at in wait.keys {
            let key = arguments.as_arguments().get(at).unwrap_or_default();
            // A key that is named twice is waited for once.
            if known.insert(key) {
                keys.push(key.into());
            }
        }
        // The command will run again: it needs all its shards, not only those it waits for.
        let positions = command.key_positions(arguments.as_arguments());
        positions.for_each(|at| shards.insert(shard_of(hash::of(&arguments.as_arguments()[at]))));
        debug_assert!(!keys.is_empty(), "a client waits for a key");
        debug_assert!(
            keys.iter()
                .all(|key| shards.contains(shard_of(hash::of(key)))),
            "the keys that are waited for are keys of the command"
        );
        std::sync::Arc::new(Waiter {
            client,
            command,
            deadline_ms: wait.deadline_ms,
            database,
            retry_ms: AtomicI64::new(wait.retry_ms.unwrap_or(i64::MAX)),
            arguments,
            protocol,
            keys,
            shards,
            value_type: wait.value_type,
            wakes_on_loss: wait.wakes_on_loss,
            over: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
        })
    }

    /// Iterates over the keys, each with its shard.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.keys
            .iter()
            .map(|key| (shard_of(hash::of(key)), &**key))
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Waiter")
            .field("client", &self.client)
            .field("command", &self.command.full_name)
            .field("deadline_ms", &self.deadline_ms)
            .finish_non_exhaustive()
    }
}
