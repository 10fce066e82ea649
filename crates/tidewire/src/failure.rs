//! How the program ends when it cannot do what it was asked to.

use clap::error::ErrorKind;

/// One clear line, and an exit code: 2 for what the user can set right, 1 for the rest.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    code: i32,
    /// `--help` and `--version` are no failures: their text goes to the standard output.
    asked_for: bool,
}

impl Failure {
    /// A wrong option, file or address.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: 2,
            asked_for: false,
        }
    }

    /// Something that failed while running.
    pub(crate) fn running(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: 1,
            asked_for: false,
        }
    }

    /// Says it, and ends the program.
    pub(crate) fn exit(self) -> ! {
        if self.asked_for {
            print!("{}", self.text);
        } else {
            eprintln!("tidewire: {}", self.text);
        }
        std::process::exit(self.code);
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Self {
                text,
                code: 0,
                asked_for: true,
            },
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Self {
                text,
                code: 2,
                asked_for: true,
            },
            // The first paragraph says what is wrong; usage and tips are for --help.
            _ => {
                let paragraph: Vec<&str> = text
                    .lines()
                    .take_while(|line| !line.is_empty())
                    .map(str::trim)
                    .collect();
                let line = paragraph.join(" ");
                Self::usage(line.strip_prefix("error: ").unwrap_or(&line))
            }
        }
    }
}
