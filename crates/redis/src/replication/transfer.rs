//! The file of all keys on its way from a master: on this server's disk, and looked at as it comes.
//!
//! Nothing that is here is touched before all of it has come and is what a file of keys has to be.

use std::io::{self, Read};
use std::sync::atomic::Ordering;

use tidewire_keyspace::{FileReader, FileRecord};
use tidewire_resp::number::parse_integer;
use tracing::info;

use super::state::{Arriving, Master, is_history_id};
use crate::durability::snapshot_path;
use crate::parameters::RDB_SAVE_INCREMENTAL_FSYNC;
use crate::server::Server;

/// Takes the file's bytes as they come.
pub(super) struct Transfer<'a> {
    arriving: &'a Arriving,
    reader: FileReader,
    /// Its last record has come.
    is_read: bool,
    end: End,
}

/// Where the file ends.
enum End {
    /// After this number of further bytes.
    Length(u64),
    /// Before a mark.
    Mark(String),
}

impl<'a> Transfer<'a> {
    /// Begins it as the master's first line says; `None` if that line is none of a file.
    pub(super) fn begin(
        server: &Server,
        master: &'a Master,
        head: &str,
    ) -> io::Result<Option<Self>> {
        let Some(end) = head.strip_prefix('$').and_then(End::parse) else {
            return Ok(None);
        };
        let arriving = &master.arriving;
        let total = match end {
            End::Length(bytes) => i64::try_from(bytes).unwrap_or(i64::MAX),
            End::Mark(_) => 0,
        };
        info!("MASTER <-> REPLICA sync: receiving {total} bytes from master to disk");
        let file = server
            .durability
            .disk
            .whole(&snapshot_path(server), "", "rdb");
        let file = file.map_err(|error| not_kept(&error))?;
        let syncs_often = server.parameters.read(RDB_SAVE_INCREMENTAL_FSYNC);
        *arriving.file.lock() = Some(file.syncing_often(syncs_often));
        arriving.total.store(total, Ordering::Relaxed);
        Ok(Some(Transfer {
            arriving,
            reader: FileReader::new(true),
            is_read: false,
            end,
        }))
    }

    /// Takes what is the file's of the bytes that have come; true once it is whole.
    pub(super) fn take(&mut self, input: &mut Vec<u8>) -> io::Result<bool> {
        match &mut self.end {
            End::Length(left) => {
                let count = input
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= count as u64;
                let is_last = *left == 0;
                self.keep(&input[..count])?;
                input.drain(..count);
                self.assert_invariants();
                if is_last {
                    self.reader.finish();
                    self.look()?;
                }
                Ok(is_last)
            }
            End::Mark(_) => {
                if !self.is_read {
                    self.keep(input)?;
                    input.clear();
                    // The file also has the bytes behind the last record; no reader gets there.
                    if self.is_read {
                        input.extend_from_slice(self.reader.rest());
                    }
                }
                self.take_mark(input)
            }
        }
    }

    fn assert_invariants(&self) {
        let [total, read] = self.arriving.bytes().map(i64::cast_unsigned);
        if let End::Length(left) = self.end {
            debug_assert_eq!(
                read + left,
                total,
                "the bytes that are here and those that are left are the whole file"
            );
        }
    }

    fn take_mark(&self, input: &mut Vec<u8>) -> io::Result<bool> {
        let End::Mark(mark) = &self.end else {
            return Ok(true);
        };
        if !self.is_read || input.len() < mark.len() {
            return Ok(false);
        }
        if !input.starts_with(mark.as_bytes()) {
            return Err(refused("another mark stands at its end"));
        }
        input.drain(..mark.len());
        Ok(true)
    }

    fn keep(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut *self.arriving.file.lock() {
            Some(file) => file.write(bytes).map_err(|error| not_kept(&error))?,
            None => return Err(io::ErrorKind::Interrupted.into()),
        }
        let read = &self.arriving.read;
        read.fetch_add(bytes.len() as i64, Ordering::Relaxed);
        debug_assert!(
            !self.is_read || matches!(self.end, End::Length(_)),
            "before a mark nothing comes behind the last record"
        );
        if !self.is_read {
            self.reader.push(bytes);
        }
        self.look()
    }

    /// Looks at the records that are there.
    fn look(&mut self) -> io::Result<()> {
        while !self.is_read {
            let record = self.reader.next_record();
            match record.map_err(|error| refused(&error.to_string()))? {
                Some(FileRecord::End) => self.is_read = true,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// The file that is whole, to be read from its first byte. It has no name any more, and goes
    /// when it was read.
    pub(super) fn finish(self) -> io::Result<Box<dyn Read + Send>> {
        match &*self.arriving.file.lock() {
            Some(file) => file.read_back().map_err(|error| not_kept(&error)),
            None => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        self.arriving.give_up();
    }
}

impl End {
    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("EOF:") {
            Some(mark) => is_history_id(mark.as_bytes()).then(|| End::Mark(mark.to_owned())),
            None => u64::try_from(parse_integer(text.as_bytes())?)
                .ok()
                .map(End::Length),
        }
    }
}

fn refused(reason: &str) -> io::Error {
    let text = format!("its file of all keys is refused, and what is here stays: {reason}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn not_kept(error: &io::Error) -> io::Error {
    let text = format!(
        "its file of all keys cannot be kept in the directory 'dir', and what is here stays: \
         {error}"
    );
    io::Error::new(error.kind(), text)
}
