//! MONITOR: clients that receive every command of all lanes.

use std::fmt::Write;
use std::sync::Arc;

use tidewire_resp::Arguments;

use crate::mail::RedisMail;
use crate::server::Server;

/// Where a command came from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Giver<'a> {
    /// A client, by its address.
    Client(&'a str),
    /// A script.
    Script,
}

impl Server {
    /// Shows a command to the clients of every lane that run MONITOR.
    #[cold]
    pub(crate) fn show_command(
        &self,
        giver: Giver<'_>,
        database: usize,
        arguments: Arguments<'_>,
        is_hidden: impl Fn(usize) -> bool,
    ) {
        let lanes = self.monitors.lanes();
        let line: Arc<[u8]> = line_of(
            tidewire_lane::unix_ns() / 1_000,
            giver,
            database,
            arguments,
            is_hidden,
        )
        .into_bytes()
        .into();
        debug_assert!(line.ends_with(b"\r\n"), "a shown command is a whole reply");
        for lane in 0..self.config.lanes {
            if lanes >> lane & 1 == 1 && self.post.reserve(lane, line.len()) {
                self.mail.send(lane, RedisMail::Shown(line.clone()));
            }
        }
    }
}

fn line_of(
    unix_us: u64,
    giver: Giver<'_>,
    database: usize,
    arguments: Arguments<'_>,
    is_hidden: impl Fn(usize) -> bool,
) -> String {
    let (seconds, micros) = (unix_us / 1_000_000, unix_us % 1_000_000);
    let mut line = format!("+{seconds}.{micros:06} [{database} ");
    line.push_str(match giver {
        Giver::Client("local") => "unix:",
        Giver::Client(address) => address,
        Giver::Script => "lua",
    });
    line.push(']');
    for (number, argument) in arguments.iter().enumerate() {
        line.push_str(" \"");
        match is_hidden(number) {
            true => line.push_str("(redacted)"),
            false => quote(argument, &mut line),
        }
        line.push('"');
    }
    line.push_str("\r\n");
    line
}

/// Bytes as text of one line, as Redis shows them.
fn quote(bytes: &[u8], out: &mut String) {
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            7 => out.push_str("\\a"),
            8 => out.push_str("\\b"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_resp::ArgumentList;

    #[test]
    fn a_command_is_shown_as_redis_shows_it() {
        let mut list = ArgumentList::new();
        let words: [&[u8]; 4] = [b"set", b"a\"b\\", b"\n\x00\xff\x07", b"secret"];
        words.iter().for_each(|word| list.push(word));
        let giver = Giver::Client("127.0.0.1:60866");
        let arguments = list.as_arguments();
        let line = line_of(1_339_518_083_107_412, giver, 3, arguments, |at| at == 3);
        let expected = "+1339518083.107412 [3 127.0.0.1:60866] \"set\" \"a\\\"b\\\\\" \
                        \"\\n\\x00\\xff\\a\" \"(redacted)\"\r\n";
        assert_eq!(line, expected);
        let line = line_of(5, Giver::Script, 0, arguments, |_| true);
        assert!(line.starts_with("+0.000005 [0 lua] \"(redacted)\""));
    }
}
