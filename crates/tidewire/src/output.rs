//! Output of the program to standard output and standard error. A closed standard output ends the
//! program quietly; a closed standard error does not.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// Prints to standard output. Replaces the standard library's macro, which panics if the reader has
/// closed it.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

/// Prints a line to standard output.
macro_rules! println {
    () => { $crate::output::print(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a line to standard error.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::complain(format_args!($($text)*)) };
}

pub fn print(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        failed(&error);
    }
}

/// Handles a failed write to standard output. A command that shuts down in order checks
/// [`is_gone`]; any other command ends here.
pub fn failed(error: &std::io::Error) {
    if GONE.swap(true, Ordering::AcqRel) {
        return;
    }
    let is_quiet = error.kind() == ErrorKind::BrokenPipe;
    if !is_quiet {
        complain(format_args!(
            "tidewire: cannot write to standard output: {error}"
        ));
    }
    if !ENDS_IN_ORDER.load(Ordering::Acquire) {
        std::process::exit(i32::from(!is_quiet));
    }
}

/// Returns whether standard output is closed: a write has failed, or the reader has closed it.
pub fn is_gone() -> bool {
    if GONE.load(Ordering::Acquire) {
        return true;
    }
    let out = std::io::stdout();
    let mut watched = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let is_over = PollFlags::ERR | PollFlags::HUP;
    poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().intersects(is_over)
}

/// From now on the command itself ends when standard output is closed.
pub fn end_in_order() {
    ENDS_IN_ORDER.store(true, Ordering::Release);
}

pub fn complain(text: Arguments<'_>) {
    // There is no other place to report that this failed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

static GONE: AtomicBool = AtomicBool::new(false);
static ENDS_IN_ORDER: AtomicBool = AtomicBool::new(false);
