//! Errors of commands, with Redis's texts.

use std::fmt;

use tidewire_resp::Arguments;

/// The result of a command's handler and its parts.
pub(crate) type Result<T = ()> = std::result::Result<T, CommandError>;

macro_rules! errors {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// Why a command was refused. Displays as the exact text of the error reply.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum CommandError {
            $($(#[$doc])* $variant,)*
            /// A TTL is out of range; contains the command's name.
            InvalidExpire(&'static str),
            /// Too few or too many arguments; contains the command's full name, `object
            /// encoding`.
            WrongArity(&'static str),
            /// EXPIRE does not know this option; contains the option.
            UnsupportedOption(Box<str>),
            /// The key belongs to a mount; contains the mount's own text.
            Mounted(Box<str>),
            /// An error of one command only; contains the whole text.
            Refused(&'static str),
            /// The same, with a text that mentions the arguments; it is one line.
            RefusedWith(Box<str>),
        }

        impl fmt::Display for CommandError {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(CommandError::$variant => formatter.write_str($text),)*
                    CommandError::InvalidExpire(name) => {
                        write!(formatter, "ERR invalid expire time in '{name}' command")
                    }
                    CommandError::WrongArity(name) => {
                        write!(formatter, "ERR wrong number of arguments for '{name}' command")
                    }
                    CommandError::UnsupportedOption(option) => {
                        write!(formatter, "ERR Unsupported option {option}")
                    }
                    CommandError::Refused(text) => formatter.write_str(text),
                    CommandError::Mounted(text) | CommandError::RefusedWith(text) => {
                        formatter.write_str(text)
                    }
                }
            }
        }
    };
}

errors! {
    /// The key holds another data type.
    WrongType = "WRONGTYPE Operation against a key holding the wrong kind of value",
    /// The arguments do not fit together.
    Syntax = "ERR syntax error",
    /// An argument or a value is not an integer.
    NotInteger = "ERR value is not an integer or out of range",
    /// An argument or a value is not a number.
    NotFloat = "ERR value is not a valid float",
    /// The sum does not fit 64 bits.
    Overflow = "ERR increment or decrement would overflow",
    /// DECRBY by the smallest integer.
    DecrementOverflow = "ERR decrement would overflow",
    /// The result of INCRBYFLOAT is not finite.
    NotFinite = "ERR increment would produce NaN or Infinity",
    /// The amount of HINCRBYFLOAT is not finite.
    AmountNotFinite = "ERR value is NaN or Infinity",
    /// A hash field is not an integer.
    HashNotInteger = "ERR hash value is not an integer",
    /// A hash field is not a number.
    HashNotFloat = "ERR hash value is not a float",
    /// Keys are being loaded: no other command may write.
    Loading = "LOADING Redis is loading the dataset in memory",
    /// The key does not exist.
    NoSuchKey = "ERR no such key",
    /// COPY and MOVE onto themselves.
    SameObject = "ERR source and destination objects are the same",
    /// The database number does not exist.
    DatabaseOutOfRange = "ERR DB index is out of range",
    /// SWAPDB, first argument.
    InvalidFirstDatabase = "ERR invalid first DB index",
    /// SWAPDB, second argument.
    InvalidSecondDatabase = "ERR invalid second DB index",
    /// SETRANGE with a negative offset.
    OffsetOutOfRange = "ERR offset is out of range",
    /// The string would be longer than allowed.
    StringTooLong = "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
    /// A scan's cursor is not a number.
    InvalidCursor = "ERR invalid cursor",
    /// NX with XX, GT or LT.
    NxWithOthers = "ERR NX and XX, GT or LT options at the same time are not compatible",
    /// GT with LT.
    GtWithLt = "ERR GT and LT options at the same time are not compatible",
    /// A count is too far from zero.
    OutOfRange = "ERR value is out of range",
    /// A count cannot be negated.
    CountOutOfRange = "ERR value is out of range, value must between \
                       -9223372036854775807 and 9223372036854775807",
    /// A count is below 0.
    NotPositive = "ERR value is out of range, must be positive",
    /// The number of keys is not positive.
    KeyCountNotPositive = "ERR numkeys should be greater than 0",
    /// The number of keys is greater than the number of arguments.
    TooFewKeys = "ERR Number of keys can't be greater than number of args",
    /// COUNT of LMPOP is below 1.
    CountNotPositive = "ERR count should be greater than 0",
    /// LSET of a missing element.
    IndexOutOfRange = "ERR index out of range",
    /// RANK of LPOS is 0.
    ZeroRank = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second \
                ... or use negative to start from the end of the list",
    /// COUNT of LPOS is negative.
    NegativeCount = "ERR COUNT can't be negative",
    /// MAXLEN of LPOS is negative.
    NegativeMaxLength = "ERR MAXLEN can't be negative",
    /// LIMIT of SINTERCARD is negative.
    NegativeLimit = "ERR LIMIT can't be negative",
    /// A number does not fit 32 bits.
    IntegerOutOfRange = "ERR value is out of range, value must between -2147483648 and 2147483647",
    /// LCS of values that are not strings.
    LcsNotString = "ERR The specified keys must contain string values",
    /// LCS with both LEN and IDX.
    LcsLengthAndIndex =
        "ERR If you want both the length and indexes, please just use IDX.",
    /// OBJECT IDLETIME under an LFU policy.
    NoIdleTime = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note \
                  that when switching between policies at runtime LRU and LFU data will take \
                  some time to adjust.",
    /// OBJECT FREQ without an LFU policy.
    NoFrequency = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
                   Please note that when switching between policies at runtime LRU and LFU data \
                   will take some time to adjust.",
    /// COMMAND GETKEYS of an unknown command.
    InvalidCommand = "ERR Invalid command specified",
    /// COMMAND GETKEYS with a wrong number of arguments.
    InvalidArity = "ERR Invalid number of arguments specified for command",
    /// COMMAND GETKEYS with an invalid number of keys.
    InvalidKeyCount = "ERR Invalid arguments specified for command",
    /// COMMAND GETKEYS of a command without keys.
    NoKeyArguments = "ERR The command has no key arguments",
    /// A timeout is not a number.
    TimeoutNotFloat = "ERR timeout is not a float or out of range",
    /// A timeout in ms is not an integer.
    TimeoutNotInteger = "ERR timeout is not an integer or out of range",
    /// A timeout is below 0.
    TimeoutNegative = "ERR timeout is negative",
    /// A timeout is out of range.
    TimeoutOutOfRange = "ERR timeout is out of range",
    /// The command belongs to the connection, not to the keyspace.
    NotData = "ERR command is not allowed here",
}

impl std::error::Error for CommandError {}

impl CommandError {
    pub(crate) fn unsupported_option(option: &[u8]) -> Self {
        CommandError::UnsupportedOption(printable(option, ECHOED_BYTES_MAX).into())
    }

    pub(crate) fn unknown_argument(argument: &[u8]) -> Self {
        let shown = printable(argument, ECHOED_BYTES_MAX);
        CommandError::RefusedWith(format!("ERR unknown argument: {shown}").into())
    }
}

/// Returns the error text for an unknown command.
pub fn unknown_command_text(arguments: Arguments<'_>) -> String {
    let mut text = String::from("ERR unknown command '");
    text.push_str(&printable(
        arguments.get(0).unwrap_or_default(),
        ECHOED_BYTES_MAX,
    ));
    text.push_str("', with args beginning with: ");
    let mut echoed = 0;
    for argument in arguments.tail(1) {
        if echoed >= ECHOED_BYTES_MAX {
            break;
        }
        let part = format!("'{}' ", printable(argument, ECHOED_BYTES_MAX - echoed));
        echoed += part.len();
        text.push_str(&part);
    }
    text
}

/// Formats a name from a client: its bytes are shown, but cannot end the line.
pub(crate) fn printable(bytes: &[u8], length_max: usize) -> String {
    let bytes = &bytes[..bytes.len().min(length_max)];
    // A C format stops at a zero byte.
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).replace(['\r', '\n'], " ")
}

pub(crate) const ECHOED_BYTES_MAX: usize = 128;
