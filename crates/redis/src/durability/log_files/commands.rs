//! The commands of an increment, read as its bytes come.
//!
//! Each is a RESP array of bulk strings; a line that begins with `#` is a note, such as the time.

use tidewire_resp::{Arguments, Limits, Progress, RequestParser};

/// Takes bytes as they come and finds the commands in them.
#[derive(Debug)]
pub(crate) struct CommandReader {
    buffer: Vec<u8>,
    /// Bytes of the buffer that are done with.
    taken: usize,
    /// Bytes before those of the buffer.
    before: u64,
    parser: RequestParser,
    is_last: bool,
}

/// What [`CommandReader::next_command`] finds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next<'a> {
    /// A command.
    Command(Arguments<'a>),
    /// More bytes are needed first.
    More,
    /// All has been read.
    End,
}

/// Why a log cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum LogError {
    /// What stands there is no command.
    #[error("Bad file format reading the append only file: byte {0} begins no command")]
    Format(u64),
    /// It ends in the middle of a command that begins there.
    #[error("Unexpected end of file reading the append only file: byte {0} begins half a command")]
    Truncated(u64),
}

impl CommandReader {
    /// A reader that has been given nothing.
    pub(crate) fn new() -> Self {
        CommandReader {
            buffer: Vec::new(),
            taken: 0,
            before: 0,
            parser: parser(),
            is_last: false,
        }
    }

    /// Adds what comes next.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        debug_assert!(!self.is_last, "nothing comes behind the end");
        debug_assert!(
            self.taken <= self.buffer.len(),
            "only what has come is done with"
        );
        self.before += self.taken as u64;
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Nothing more will come.
    pub(crate) fn finish(&mut self) {
        self.is_last = true;
    }

    /// How many bytes have been read as commands.
    pub(crate) fn position(&self) -> u64 {
        self.before + self.taken as u64
    }

    /// The next command.
    pub(crate) fn next_command(&mut self) -> Result<Next<'_>, LogError> {
        loop {
            let rest = &self.buffer[self.taken..];
            match rest.first() {
                None if self.is_last => return Ok(Next::End),
                None => return Ok(Next::More),
                Some(b'*') => {}
                Some(b'#') => match rest.iter().position(|&byte| byte == b'\n') {
                    Some(end) => {
                        self.taken += end + 1;
                        continue;
                    }
                    None if rest.len() > NOTE_BYTES_MAX => {
                        return Err(LogError::Format(self.position()));
                    }
                    None => return self.incomplete(),
                },
                Some(_) => return self.damaged(),
            }
            match self.parser.parse(rest) {
                Ok(Progress::Complete { consumed }) => {
                    debug_assert!(
                        (1..=rest.len()).contains(&consumed),
                        "a command has bytes, and they have come"
                    );
                    let start = self.taken;
                    self.taken += consumed;
                    let arguments = self.parser.arguments(&self.buffer[start..]);
                    if arguments.is_empty() {
                        return Err(LogError::Format(self.before + start as u64));
                    }
                    return Ok(Next::Command(arguments));
                }
                Ok(Progress::Incomplete { .. }) => return self.incomplete(),
                Err(_) => return self.damaged(),
            }
        }
    }

    /// What stands there is no command. Zeros until the end are what a machine that failed leaves:
    /// its disk has kept the length of the file, and not its last bytes.
    fn damaged(&self) -> Result<Next<'static>, LogError> {
        let rest = &self.buffer[self.taken..];
        let written = rest
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |at| at + 1);
        let is_half = || match parser().parse(&rest[..written]) {
            Ok(Progress::Incomplete { .. }) => true,
            Ok(Progress::Complete { .. }) | Err(_) => written == 0,
        };
        match written < rest.len() && is_half() {
            true => self.incomplete(),
            false => Err(LogError::Format(self.position())),
        }
    }

    fn incomplete(&self) -> Result<Next<'static>, LogError> {
        match self.is_last {
            true => Err(LogError::Truncated(self.position())),
            false => Ok(Next::More),
        }
    }
}

impl Default for CommandReader {
    fn default() -> Self {
        Self::new()
    }
}

fn parser() -> RequestParser {
    RequestParser::new(Limits::of_server())
}

/// A longer line is no note.
const NOTE_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], chunk: usize) -> (Vec<String>, Option<LogError>) {
        let mut reader = CommandReader::new();
        let mut chunks = bytes.chunks(chunk);
        let mut commands = Vec::new();
        loop {
            match reader.next_command() {
                Ok(Next::Command(arguments)) => {
                    let words = arguments.iter().map(String::from_utf8_lossy);
                    commands.push(words.collect::<Vec<_>>().join(" "));
                }
                Ok(Next::End) => return (commands, None),
                Ok(Next::More) => match chunks.next() {
                    Some(bytes) => reader.push(bytes),
                    None => reader.finish(),
                },
                Err(error) => return (commands, Some(error)),
            }
        }
    }

    /// A reader of a stream waits for nothing behind it: the largest command is the last.
    #[test]
    fn the_last_and_largest_command_comes_with_its_last_byte() {
        let value = "x".repeat(30_000);
        let last = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$30000\r\n{value}\r\n");
        let log = format!("*1\r\n$5\r\nMULTI\r\n{last}");
        for piece in [1, 999, log.len() / 2 + 100, log.len()] {
            let (mut reader, mut given, mut found) = (CommandReader::new(), 0, 0);
            while found < 2 {
                match reader.next_command() {
                    Ok(Next::Command(_)) => found += 1,
                    Ok(Next::More) => {
                        assert!(given < log.len(), "it waits for more than there is");
                        let end = (given + piece).min(log.len());
                        reader.push(&log.as_bytes()[given..end]);
                        given = end;
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(given, log.len());
        }
    }

    #[test]
    fn commands_are_found_between_notes_and_an_end_in_the_middle_is_told() {
        let log = b"#TS:1700000000\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n*1\r\n$5\r\nMULTI\r\n";
        for chunk in 1..log.len() {
            assert_eq!(
                read(log, chunk),
                (vec!["DEL a".into(), "MULTI".into()], None)
            );
        }
        let cut = read(&log[..log.len() - 3], 7);
        assert_eq!(cut, (vec!["DEL a".into()], Some(LogError::Truncated(36))));
        assert_eq!(read(b"DEL a\r\n", 3).1, Some(LogError::Format(0)));
        assert_eq!(read(b"*1\r\n:5\r\n", 3).1, Some(LogError::Format(0)));
        assert_eq!(read(b"", 3), (vec![], None));
    }

    #[test]
    fn zeros_until_the_end_are_a_torn_end_and_zeros_before_it_are_damage() {
        let good = b"*2\r\n$3\r\nDEL\r\n$1\r\na\r\n";
        for cut in 0..good.len() {
            let torn = [&good[..], &good[..cut], &[0; 40]].concat();
            for chunk in [1, 7, torn.len()] {
                let (commands, error) = read(&torn, chunk);
                assert_eq!(commands, ["DEL a"], "cut at {cut}, {chunk} a time");
                assert_eq!(error, Some(LogError::Truncated(good.len() as u64)));
            }
        }
        let inside = [&[0; 40], &good[..]].concat();
        assert_eq!(read(&inside, 7).1, Some(LogError::Format(0)));
    }
}
