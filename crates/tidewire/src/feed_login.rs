//! Users and passwords of tools that log in to a hub's feed. No option takes a password: other
//! users of the machine see a process's options.

use std::path::{Path, PathBuf};

use clap::Args;
use tidewire_feed::wire::{Credentials, Password, UserName};

use crate::failure::Failure;

/// The user of a tool.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LoginOptions {
    /// The hub's user [default: default].
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// A file with the user's password in its first line [default: the variable REDISCLI_AUTH].
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

impl LoginOptions {
    /// Returns the credentials; `None` if there is neither a user nor a password.
    pub(crate) fn credentials(&self) -> Result<Option<Credentials>, Failure> {
        let from = Place {
            user: "--user",
            file: "--password-file",
            variable: REDIS_VARIABLE,
        };
        credentials(self.user.as_deref(), self.password_file.as_deref(), &from)
    }
}

/// The names of what credentials are read from.
pub(crate) struct Place {
    pub(crate) user: &'static str,
    pub(crate) file: &'static str,
    pub(crate) variable: &'static str,
}

/// The credentials of `serve` for the feeds that it reads.
pub(crate) const SOURCE: Place = Place {
    user: "--source-user",
    file: "--source-password-file",
    variable: SOURCE_VARIABLE,
};

/// Returns the credentials for a feed, if there are any. The file goes before the variable.
pub(crate) fn credentials(
    user: Option<&str>,
    file: Option<&Path>,
    from: &Place,
) -> Result<Option<Credentials>, Failure> {
    let given = match file {
        Some(path) => Some(first_line(path, from.file)?),
        None => std::env::var(from.variable).ok(),
    };
    if user.is_none() && given.is_none() {
        return Ok(None);
    }
    let name = UserName::new(user.unwrap_or_default())
        .map_err(|error| Failure::usage(format!("{}: {error}", from.user)))?;
    let place = if file.is_some() {
        from.file
    } else {
        from.variable
    };
    let password = Password::new(&given.unwrap_or_default())
        .map_err(|error| Failure::usage(format!("the password of {place}: {error}")))?;
    let user = name;
    Ok(Some(Credentials { user, password }))
}

fn first_line(path: &Path, option: &str) -> Result<String, Failure> {
    let place = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{option}: cannot read {place}: {error}")))?;
    let line = text.lines().next().unwrap_or_default();
    match line.is_empty() {
        true => Err(Failure::usage(format!(
            "{option}: {place}: its first line is empty"
        ))),
        false => Ok(line.to_owned()),
    }
}

const REDIS_VARIABLE: &str = "REDISCLI_AUTH";
/// The password for `--source`.
pub(crate) const SOURCE_VARIABLE: &str = "TIDEWIRE_SOURCE_PASSWORD";

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Place = Place {
        user: "--user",
        file: "--password-file",
        variable: "TIDEWIRE_NO_SUCH_VARIABLE",
    };

    #[test]
    fn a_password_is_the_first_line_of_a_file() {
        let path = std::env::temp_dir().join(format!("tidewire-login-{}", std::process::id()));
        std::fs::write(&path, "secret word\nnot this\n").unwrap();
        let read = |user| credentials(user, Some(&path), &NOWHERE);
        let found = read(Some("feeder")).unwrap().unwrap();
        assert_eq!(
            (found.user.as_str(), found.password.as_bytes()),
            ("feeder", &b"secret word"[..])
        );
        assert!(read(None).unwrap().unwrap().user.is_empty());
        for (text, says) in [
            ("\nsecret\n", "its first line is empty"),
            (&"x".repeat(113), "up to 112 bytes are allowed"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(None).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(read(None).is_err(), "there is no file");
    }

    #[test]
    fn without_a_user_and_a_password_there_are_no_credentials() {
        assert_eq!(credentials(None, None, &NOWHERE).unwrap(), None);
        let found = credentials(Some("ann"), None, &NOWHERE).unwrap().unwrap();
        assert!(found.password.as_bytes().is_empty());
        assert!(credentials(Some(&"u".repeat(49)), None, &NOWHERE).is_err());
    }
}
