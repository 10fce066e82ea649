//! A thread that talks to NATS, and how it is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::Inbox;

/// A running thread. Dropping it ends the thread, and waits for that.
#[derive(Debug)]
pub struct LinkThread {
    is_stopped: Arc<AtomicBool>,
    inbox: Inbox,
    thread: Option<JoinHandle<()>>,
}

impl LinkThread {
    /// Starts a thread that looks at the flag whenever its inbox wakes it.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        name: &str,
        inbox: Inbox,
        is_stopped: Arc<AtomicBool>,
        run: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)?;
        Ok(Self {
            is_stopped,
            inbox,
            thread: Some(thread),
        })
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
        self.inbox.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
