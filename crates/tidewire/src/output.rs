//! Output of the program to standard output and standard error. A closed standard output ends the
//! program quietly; a closed standard error does not.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// Prints to the standard output. Shadows the one of the standard library, which panics where the
/// reader is gone.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

/// The same with a line end.
macro_rules! println {
    () => { $crate::output::print(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// A line on the standard error.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::complain(format_args!($($text)*)) };
}

pub fn print(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        failed(&error);
    }
}

/// The standard output takes no more. A command with something to end in order looks at
/// [`is_gone`]; any other ends here.
pub fn failed(error: &std::io::Error) {
    if GONE.swap(true, Ordering::AcqRel) {
        return;
    }
    let is_quiet = error.kind() == ErrorKind::BrokenPipe;
    if !is_quiet {
        complain(format_args!(
            "tidewire: cannot write to the standard output: {error}"
        ));
    }
    if !ENDS_IN_ORDER.load(Ordering::Acquire) {
        std::process::exit(i32::from(!is_quiet));
    }
}

/// Whether the standard output takes no more: a write has failed, or the other end is closed.
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

/// From now on the command itself ends when the output is gone.
pub fn end_in_order() {
    ENDS_IN_ORDER.store(true, Ordering::Release);
}

pub fn complain(text: Arguments<'_>) {
    // There is nowhere to say that this failed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

static GONE: AtomicBool = AtomicBool::new(false);
static ENDS_IN_ORDER: AtomicBool = AtomicBool::new(false);
