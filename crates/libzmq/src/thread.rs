//! Threads, sleep and stopwatches, for test programs.

use crate::errno::{EAGAIN, Errno, guard};
use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;
use tidewire_readiness::Uncancelled;

/// `zmq_thread_fn`.
type ThreadFunction = unsafe extern "C" fn(*mut c_void);

/// `zmq_threadstart`: returns null if no thread can be started.
///
/// # Safety
///
/// Another thread may call `function` with `argument`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_threadstart(
    function: ThreadFunction,
    argument: *mut c_void,
) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        let call = ThreadCall { function, argument };
        let builder = Builder::new().name("ZMQapp".into());
        let thread = tidewire_readiness::spawn_without_signals(builder, move || call.run());
        let thread = thread.map_err(|error| Errno(error.raw_os_error().unwrap_or(EAGAIN)))?;
        Ok(Box::into_raw(Box::new(thread)).cast())
    })
}

/// `zmq_threadclose`: waits for the thread to end.
///
/// # Safety
///
/// `thread` is null or was returned by [`zmq_threadstart`]; it is not used any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_threadclose(thread: *mut c_void) {
    if !thread.is_null() {
        // SAFETY: the caller keeps this function's contract.
        let thread = unsafe { Box::from_raw(thread.cast::<JoinHandle<()>>()) };
        // The join would cancel this thread where it can.
        let _uncancelled = Uncancelled::new();
        // It cannot panic: it runs a C function.
        let _ = thread.join();
    }
}

/// `zmq_sleep`. As with libzmq a signal ends it, and the thread may be cancelled.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn zmq_sleep(seconds: c_int) {
    // SAFETY: any number will do. No frame up to the program's has anything to drop.
    unsafe { sleep(c_uint::try_from(seconds).unwrap_or(0)) };
}

/// `zmq_stopwatch_start`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn zmq_stopwatch_start() -> *mut c_void {
    Box::into_raw(Box::new(Instant::now())).cast()
}

/// `zmq_stopwatch_intermediate`: returns the microseconds since the start.
///
/// # Safety
///
/// `watch` is null or was returned by [`zmq_stopwatch_start`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_stopwatch_intermediate(watch: *mut c_void) -> c_ulong {
    // SAFETY: the caller keeps this function's contract.
    let start = unsafe { watch.cast::<Instant>().as_ref() };
    start.map_or(0, |start| start.elapsed().as_micros() as c_ulong)
}

/// `zmq_stopwatch_stop`: returns the microseconds since the start and frees the stopwatch.
///
/// # Safety
///
/// As for [`zmq_stopwatch_intermediate`]; it is not used any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn zmq_stopwatch_stop(watch: *mut c_void) -> c_ulong {
    // SAFETY: the caller keeps this function's contract.
    let elapsed_us = unsafe { zmq_stopwatch_intermediate(watch) };
    if !watch.is_null() {
        // SAFETY: the caller keeps this function's contract.
        drop(unsafe { Box::from_raw(watch.cast::<Instant>()) });
    }
    elapsed_us
}

// SAFETY: its signature as in `unistd.h`. It unwinds a thread that is cancelled.
unsafe extern "C-unwind" {
    fn sleep(seconds: c_uint) -> c_uint;
}

struct ThreadCall {
    function: ThreadFunction,
    argument: *mut c_void,
}

// SAFETY: `zmq_threadstart` asks that another thread may call the function with it.
unsafe impl Send for ThreadCall {}

impl ThreadCall {
    fn run(self) {
        // SAFETY: as above: `zmq_threadstart` requires that another thread may call it.
        unsafe { (self.function)(self.argument) }
    }
}
