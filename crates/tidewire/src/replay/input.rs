//! The file of a replay. It is opened once, because a pipe cannot be read a second time.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Cursor, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::time::Timespec;
use tidewire_feed::recording::MAGIC;

use super::link::Link;
use crate::failure::Failure;
use crate::itch::{Content, HEAD_BYTES, is_standard_input, unpacked};
use crate::stop::Stop;

/// A file that is played, once or again and again.
pub(crate) struct Input {
    path: PathBuf,
    kind: Kind,
    /// The whole input as it was opened first, until it is taken.
    opened: Option<Box<dyn Read>>,
    waiting: Rc<Waiting>,
}

/// What a file contains, as its first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A recording of `serve --record`.
    Recording,
    /// An ITCH file, or a capture.
    Exchange,
    /// A DBN file, or none that is known.
    Other,
}

/// What happens while the next bytes of a pipe are waited for.
#[derive(Default)]
struct Waiting {
    stop: Stop,
    /// Served meanwhile, so that the hub does not take the replay for dead.
    link: RefCell<Option<Link>>,
    failure: RefCell<Option<Failure>>,
}

impl Input {
    /// Opens a file, or standard input if the path is `-`, and looks at its first bytes. `again`
    /// says what is needed of a file that must be read more than once.
    pub(crate) fn open(path: &Path, again: Option<&str>, stop: &Stop) -> Result<Self, Failure> {
        let waiting = Rc::new(Waiting {
            stop: stop.clone(),
            ..Waiting::default()
        });
        let place = path.display();
        let failed = |error: io::Error| Failure::usage(format!("cannot read {place}: {error}"));
        let (file, is_regular) = open_file(path)?;
        if let Some(advice) = again.filter(|_| !is_regular) {
            let text = format!("{place} can be read only once, because it is no regular file");
            return Err(Failure::usage(format!("{text}; {advice}")));
        }
        let mut input = unpack(file, is_regular, &waiting).map_err(failed)?;
        let mut head = Vec::new();
        let read = Read::by_ref(&mut input)
            .take(HEAD_BYTES)
            .read_to_end(&mut head);
        // What is damaged is said where the file is played.
        let kind = match read {
            Ok(_) if head.starts_with(MAGIC) => Kind::Recording,
            Ok(_) if Content::of_bytes(&head) != Content::Other => Kind::Exchange,
            Ok(_) => Kind::Other,
            Err(error) => return Err(failed(error)),
        };
        Ok(Self {
            path: path.to_owned(),
            kind,
            opened: Some(Box::new(Cursor::new(head).chain(input))),
            waiting,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Serves the link from now on while the input is waited for.
    pub(super) fn serve(&self, link: &Link) {
        *self.waiting.link.borrow_mut() = Some(link.clone());
    }

    /// Returns the input from its start.
    pub(super) fn reader(&mut self) -> Result<Box<dyn Read>, Failure> {
        if let Some(opened) = self.opened.take() {
            return Ok(opened);
        }
        let (file, is_regular) = open_file(&self.path)?;
        debug_assert!(is_regular, "no other file is read again");
        unpack(file, is_regular, &self.waiting).map_err(|error| {
            Failure::usage(format!("cannot read {}: {error}", self.path.display()))
        })
    }

    /// Returns why the input could not be waited for any more, if it was the link.
    pub(super) fn check_link(&self) -> Result<(), Failure> {
        match self.waiting.failure.borrow_mut().take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

/// Opens a file. Returns whether it is a regular one, which can be read again. Opening a named pipe
/// does not wait for its writer.
fn open_file(path: &Path) -> Result<(File, bool), Failure> {
    let place = path.display();
    let opened = match is_standard_input(path) {
        true => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        false => OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path),
    };
    let failed = |error: io::Error| Failure::usage(format!("cannot read {place}: {error}"));
    let file = opened.map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        let text = format!("{place} is a directory; give a file");
        return Err(Failure::usage(text));
    }
    Ok((file, metadata.is_file() && !is_standard_input(path)))
}

fn unpack(file: File, is_regular: bool, waiting: &Rc<Waiting>) -> io::Result<Box<dyn Read>> {
    match is_regular {
        true => unpacked(file),
        false => unpacked(Pipe {
            file,
            waiting: waiting.clone(),
        }),
    }
}

/// A pipe or terminal. Its next bytes may be long in coming.
struct Pipe {
    file: File,
    waiting: Rc<Waiting>,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: WAIT.subsec_nanos().into(),
        };
        loop {
            if self.waiting.stop.is_asked() {
                return Err(io::Error::other("interrupted"));
            }
            let mut descriptors = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut descriptors, Some(&wait)) {
                Ok(0) | Err(Errno::INTR) => self.waiting.serve()?,
                Ok(_) => match self.file.read(buffer) {
                    Err(error) if is_temporary(&error) => {}
                    other => return other,
                },
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Waiting {
    fn serve(&self) -> io::Result<()> {
        let link = self.link.borrow();
        let Some(link) = link.as_ref() else {
            return Ok(());
        };
        link.serve(Duration::ZERO).map_err(|failure| {
            let error = io::Error::other(failure.to_string());
            *self.failure.borrow_mut() = Some(failure);
            error
        })
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Longest wait for input until the link is served, and a request to stop noticed.
const WAIT: Duration = Duration::from_millis(50);
