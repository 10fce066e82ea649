//! A reader that drives the decoder over any `Read`: buffers, zstd and legacy DBZ.

use std::io::{self, BufReader, Chain, Cursor, Read};

use thiserror::Error;

use super::metadata::{decode_dbz_fixed, decode_symbology};
use super::{
    Container, DecodeError, Decoder, Event, METADATA_LENGTH_MAX, Metadata, MetadataFault,
    RecordRef, detect,
};

/// Reads DBN from a file, pipe or slice, in any container.
///
/// Blocks when its input blocks. Memory: one buffer of [`BUFFER_LENGTH`](Self::BUFFER_LENGTH)
/// that grows only for metadata, as the bytes arrive.
pub struct Reader<R: Read> {
    source: Source<R>,
    decoder: Decoder,
    metadata: Option<Box<Metadata>>,
    buffer: Vec<u8>,
    /// Bytes read and not yet decoded. Invariant: `start <= end <= buffer.len()`.
    start: usize,
    end: usize,
}

/// Why reading stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The input failed.
    #[error("input: {0}")]
    Io(io::ErrorKind),
    /// The input is not valid zstd.
    #[error("damaged zstd data")]
    Zstd,
    /// The input is empty.
    #[error("empty file")]
    Empty,
    /// The bytes are not valid DBN.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Neither DBN nor zstd nor DBZ.
    #[error("not a DBN file, plain or zstd")]
    UnknownContainer,
}

impl<R: Read> Reader<R> {
    /// Initial size of the buffer in bytes.
    pub const BUFFER_LENGTH: usize = 64 << 10;

    /// Detects the container of `input` and reads its metadata, if there is any.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(mut input: R) -> Result<Self, ReadError> {
        let (head, length) = read_head(&mut input)?;
        if length == 0 {
            return Err(ReadError::Empty);
        }
        let mut container = detect(&head[..length]);
        let head = Cursor::new(head[..length].to_vec());
        let mut source = Source::Plain(head.chain(input));
        let mut metadata = None;
        if container == Container::Dbz {
            metadata = Some(Box::new(read_dbz_metadata(&mut source)?));
            source = source.unpacked_unless_empty()?;
            container = Container::Fragment;
        }
        let mut reader = Self {
            source,
            decoder: Decoder::fragment(),
            metadata,
            buffer: vec![0; Self::BUFFER_LENGTH],
            start: 0,
            end: 0,
        };
        if container == Container::Zstd {
            reader.source = reader.source.unpacked()?;
            while reader.end < Container::DETECT_LENGTH && reader.fill()? {}
            container = detect(&reader.buffer[..reader.end]);
        }
        match container {
            Container::Fragment => {}
            Container::Dbn { .. } | Container::Short => {
                reader.decoder = Decoder::new();
                reader.read_metadata()?;
            }
            Container::Unknown | Container::Zstd | Container::Dbz => {
                return Err(ReadError::UnknownContainer);
            }
        }
        Ok(reader)
    }

    /// Returns the metadata; `None` for a fragment.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_deref()
    }

    /// Returns the number of bytes of DBN decoded so far, after decompression.
    pub fn position(&self) -> u64 {
        self.decoder.position()
    }

    /// Returns the next record; `None` at the end.
    ///
    /// # Errors
    /// [`ReadError`], also if the input ends inside a record.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<RecordRef<'_>>, ReadError> {
        loop {
            let mut rest = &self.buffer[self.start..self.end];
            let before = rest.len();
            if let Event::Record(_) = self.decoder.decode(&mut rest)? {
                let start = self.start;
                self.start += before - rest.len();
                return Ok(RecordRef::new(&self.buffer[start..self.start]));
            }
            if !self.fill()? {
                self.decoder.finish(&self.buffer[self.start..self.end])?;
                return Ok(None);
            }
        }
    }

    fn read_metadata(&mut self) -> Result<(), ReadError> {
        loop {
            let mut rest = &self.buffer[self.start..self.end];
            let before = rest.len();
            if let Event::Metadata(metadata) = self.decoder.decode(&mut rest)? {
                self.start += before - rest.len();
                self.metadata = Some(metadata);
                return Ok(());
            }
            if !self.fill()? {
                self.decoder.finish(&self.buffer[self.start..self.end])?;
                return Ok(());
            }
        }
    }

    /// Reads more into the buffer; returns `false` at the end of the input.
    #[cold]
    fn fill(&mut self) -> Result<bool, ReadError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let length = read_some(&mut self.source, &mut self.buffer[self.end..])?;
        self.end += length;
        Ok(length > 0)
    }
}

impl<R: Read> std::fmt::Debug for Reader<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("position", &self.position())
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}

type Input<R> = Chain<Cursor<Vec<u8>>, R>;

enum Source<R: Read> {
    Plain(Input<R>),
    Zstd(zstd::Decoder<'static, BufReader<Input<R>>>),
}

impl<R: Read> Source<R> {
    fn unpacked(self) -> Result<Self, ReadError> {
        match self {
            Self::Plain(input) => Ok(Self::Zstd(zstd::Decoder::new(input).map_err(io_error)?)),
            Self::Zstd(_) => Ok(self),
        }
    }
}

impl<R: Read> Source<R> {
    /// Decompresses the records of a DBZ file. A file without records ends after its metadata,
    /// without even an empty zstd frame.
    fn unpacked_unless_empty(mut self) -> Result<Self, ReadError> {
        let (head, length) = read_head(&mut self)?;
        match self {
            Self::Plain(input) if length > 0 => {
                // The bytes before `input` were metadata and are used up.
                let (_, input) = input.into_inner();
                Self::Plain(Cursor::new(head[..length].to_vec()).chain(input)).unpacked()
            }
            source => Ok(source),
        }
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            Self::Zstd(input) => input.read(buffer),
        }
    }
}

fn read_head(input: &mut impl Read) -> Result<([u8; Container::DETECT_LENGTH], usize), ReadError> {
    let mut head = [0; Container::DETECT_LENGTH];
    let mut length = 0;
    while length < head.len() {
        match read_some(input, &mut head[length..])? {
            0 => break,
            more => length += more,
        }
    }
    Ok((head, length))
}

/// Reads the skippable frame before a DBZ file's records.
fn read_dbz_metadata(source: &mut impl Read) -> Result<Metadata, ReadError> {
    let at = |position: usize| {
        move |(offset, fault)| {
            ReadError::Decode(DecodeError::Metadata {
                position: (position + offset) as u64,
                fault,
            })
        }
    };
    let mut prelude = [0; 8];
    source.read_exact(&mut prelude).map_err(io_error)?;
    let length = u32::from_le_bytes([prelude[4], prelude[5], prelude[6], prelude[7]]);
    if !(DBZ_FIXED_LENGTH..=METADATA_LENGTH_MAX).contains(&length) {
        return Err(DecodeError::MetadataLength(length).into());
    }
    let mut frame = Vec::new();
    source
        .take(u64::from(length))
        .read_to_end(&mut frame)
        .map_err(io_error)?;
    if frame.len() < length as usize {
        let missing = length as usize - frame.len();
        return Err(DecodeError::Truncated {
            position: 0,
            missing,
        }
        .into());
    }
    let (fixed, packed) = frame.split_at(DBZ_FIXED_LENGTH as usize);
    let mut metadata = decode_dbz_fixed(&fixed[4..]).map_err(at(12))?;
    let mut symbology = Vec::new();
    zstd::Decoder::new(packed)
        .map_err(io_error)?
        .take(u64::from(METADATA_LENGTH_MAX) + 1)
        .read_to_end(&mut symbology)
        .map_err(io_error)?;
    if symbology.len() > METADATA_LENGTH_MAX as usize {
        return Err(at(0)((0, MetadataFault::PastEnd)));
    }
    decode_symbology(&symbology, &mut metadata).map_err(at(0))?;
    Ok(metadata)
}

fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, ReadError> {
    loop {
        match input.read(buffer) {
            Ok(length) => return Ok(length),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io_error(error)),
        }
    }
}

fn io_error(error: io::Error) -> ReadError {
    match error.kind() {
        // Errors of the system have kinds; those of the decompressor have none.
        io::ErrorKind::Other if error.raw_os_error().is_none() => ReadError::Zstd,
        kind => ReadError::Io(kind),
    }
}

/// Bytes from the magic number to the reserved bytes; zstd follows.
const DBZ_FIXED_LENGTH: u32 = 96;
