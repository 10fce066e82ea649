//! Destinations of log lines: standard error or a file, and the system's log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::syslog::Syslog;

/// The program's only log destination.
pub(super) static SINK: Sink = Sink(Mutex::new(Places {
    file: None,
    syslog: None,
}));

#[derive(Debug)]
pub(super) struct Sink(Mutex<Places>);

#[derive(Debug)]
struct Places {
    /// The file and its path; standard error if absent.
    file: Option<(File, PathBuf)>,
    syslog: Option<Syslog>,
}

impl Sink {
    /// Appends log lines to this file from now on.
    pub(super) fn open(&self, path: PathBuf) -> io::Result<()> {
        let file = open(&path)?;
        // An absolute path, because the working directory may change.
        let path = std::path::absolute(&path).unwrap_or(path);
        self.lock().file = Some((file, path));
        Ok(())
    }

    /// Reopens the same path, after a rotation has moved the file away.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let mut places = self.lock();
        if let Some((file, path)) = &mut places.file {
            *file = open(path)?;
        }
        Ok(())
    }

    pub(super) fn tell_syslog(&self, syslog: Syslog) {
        self.lock().syslog = Some(syslog);
    }

    pub(super) fn is_file(&self) -> bool {
        self.lock().file.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Creates the writer of an event, by its level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outs;

impl<'a> MakeWriter<'a> for Outs {
    type Writer = Out;

    fn make_writer(&'a self) -> Out {
        Out(Level::INFO)
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Out {
        Out(*metadata.level())
    }
}

/// Writes one event per call. A line that cannot be written is lost: a full disk must not end the
/// program, and there is nowhere else to say so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out(Level);

impl Write for Out {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut places = SINK.lock();
        if let Some(syslog) = &places.syslog {
            syslog.send(self.0, line);
        }
        // Writing to standard error with a macro would panic if it is closed.
        let _ = match &mut places.file {
            Some((file, _)) => file.write_all(line),
            None => io::stderr().write_all(line),
        };
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
