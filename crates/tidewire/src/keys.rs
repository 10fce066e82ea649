//! Terminal events: keys, a new size, or the end of the terminal.

use std::io::IsTerminal;
use std::time::Duration;

use crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// The result of a wait.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Nothing.
    Nothing,
    /// A key, or a new size.
    Event(Event),
    /// The terminal was closed.
    Gone,
}

/// Waits for an event of the terminal, up to `timeout`.
///
/// The terminal is checked before it is read: reading a closed terminal never returns.
pub(crate) fn hear(timeout: Duration) -> std::io::Result<Heard> {
    if is_gone(Duration::ZERO)? {
        return Ok(Heard::Gone);
    }
    // Several keys may have arrived together and may be buffered already.
    if event::poll(Duration::ZERO)? {
        return event::read().map(Heard::Event);
    }
    if !std::io::stdin().is_terminal() {
        // The library reads keys from the terminal itself, which only it has opened.
        return match event::poll(timeout)? {
            true => event::read().map(Heard::Event),
            false => Ok(Heard::Nothing),
        };
    }
    if is_gone(timeout)? {
        return Ok(Heard::Gone);
    }
    match event::poll(Duration::ZERO)? {
        true => event::read().map(Heard::Event),
        false => Ok(Heard::Nothing),
    }
}

/// Waits until there is input. Returns whether the terminal is closed.
fn is_gone(timeout: Duration) -> std::io::Result<bool> {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let mut watched = match input.is_terminal() {
        true => [PollFd::new(&input, PollFlags::IN)],
        false => [PollFd::new(&output, PollFlags::empty())],
    };
    let wait = Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    match poll(&mut watched, Some(&wait)) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let is_over = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(watched[0].revents().intersects(is_over))
}
