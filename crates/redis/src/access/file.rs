//! Users in a file: `aclfile`, and the `user` lines of a redis.conf.

use std::collections::BTreeMap;
use std::path::Path;

use tidewire_files::{Disk, read_bounded};

use super::selector::has_blanks;
use super::{AccessControl, ModifierError, Rules, join_selectors};

impl AccessControl {
    /// Takes the users of a file in place of all others; or, with the text of the refusal, none.
    pub(crate) fn load(&self, path: &str, all_channels: bool) -> Result<(), String> {
        let text = read_bounded(Path::new(path), FILE_BYTES_MAX).map_err(|error| {
            let reason = reason(&error);
            format!("Error loading ACLs, opening file '{path}': {reason}")
        })?;
        let mut users = BTreeMap::new();
        let mut errors = String::new();
        for (line, number) in text.split(|&byte| byte == b'\n').zip(1..) {
            if let Err(error) = read_line(&mut users, line, all_channels) {
                errors += &error.text(path, number);
            }
        }
        if errors.is_empty() {
            self.replace(users);
            return Ok(());
        }
        errors += "WARNING: ACL errors detected, no change to the previously active ACL rules was \
                   performed";
        Err(errors)
    }

    /// Takes the users that a redis.conf names, as the words behind `user`.
    pub(crate) fn configure(&self, lines: &[Vec<Vec<u8>>], all_channels: bool) {
        for words in lines {
            let Some((name, modifiers)) = words.split_first() else {
                continue;
            };
            let modifiers: Vec<&[u8]> = std::iter::once(&b"reset"[..])
                .chain(modifiers.iter().map(Vec::as_slice))
                .collect();
            if let Err(text) = self.set_user(name, &modifiers, all_channels) {
                let name = String::from_utf8_lossy(name);
                tracing::error!(%name, text, "the user is left out");
            }
        }
    }

    /// The users as lines of a file.
    pub(crate) fn lines(&self) -> Vec<Vec<u8>> {
        let users = self.all();
        let line = |name: &[u8], rules: &Rules| {
            [b"user ", name, b" ", &rules.describe(self.follows_valkey)].concat()
        };
        users
            .iter()
            .map(|(user, rules)| line(&user.name, rules))
            .collect()
    }

    /// Writes the users to a file, whole or not at all.
    pub(crate) fn save(&self, path: &str) -> std::io::Result<()> {
        let mut text = Vec::new();
        for line in self.lines() {
            text.extend(line);
            text.push(b'\n');
        }
        replace_file(Path::new(path), &text)
    }
}

/// Why the words behind `user` make no user.
pub(crate) fn check_user(words: &[Vec<u8>], all_channels: bool) -> Result<(), String> {
    let (name, modifiers) = words.split_first().ok_or("a user has no name")?;
    if has_blanks(name) {
        return Err("Spaces not allowed in ACL usernames".to_owned());
    }
    let modifiers: Vec<&[u8]> = modifiers.iter().map(Vec::as_slice).collect();
    let modifiers = join_selectors(&modifiers).map_err(|_| "Unmatched parenthesis")?;
    let mut rules = Rules::new(all_channels);
    for modifier in &modifiers {
        let applied = rules.apply(modifier, all_channels);
        applied.map_err(|error| format!("{error} ('{}')", String::from_utf8_lossy(modifier)))?;
    }
    Ok(())
}

/// Writes a file beside the old one, and puts it into its place once it is on disk.
pub(crate) fn replace_file(path: &Path, text: &[u8]) -> std::io::Result<()> {
    crate::stale::remove_stale_of(path);
    Disk::default().replace(path, text)
}

/// The error in a line.
enum LineError {
    NoUser,
    BadName(String),
    Duplicate(String),
    Unmatched,
    /// In the order of the modifiers; of those that may hold a secret only the first, and only
    /// its kind.
    Modifiers(Vec<(String, ModifierError)>),
}

impl LineError {
    fn text(&self, path: &str, line: usize) -> String {
        match self {
            LineError::NoUser => {
                format!("{path}:{line} should start with user keyword followed by the username. ")
            }
            LineError::BadName(name) => {
                format!("'{path}:{line}: username '{name}' contains invalid characters. ")
            }
            LineError::Duplicate(name) => {
                format!("WARNING: Duplicate user '{name}' found on line {line}. ")
            }
            LineError::Unmatched => {
                format!("{path}:{line}: Unmatched parenthesis in selector definition.")
            }
            LineError::Modifiers(errors) => {
                let mut text = String::new();
                let mut is_told = false;
                for (modifier, error) in errors {
                    if *error == ModifierError::Unknown {
                        text += &format!(
                            "{path}:{line}: Error in applying operation '{modifier}': {error}. "
                        );
                    } else if !std::mem::replace(&mut is_told, true) {
                        text += &format!("{path}:{line}: {error}. ");
                    }
                }
                text
            }
        }
    }
}

fn read_line(
    users: &mut BTreeMap<Box<[u8]>, Rules>,
    line: &[u8],
    all_channels: bool,
) -> Result<(), LineError> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(());
    }
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let [b"user", name, modifiers @ ..] = &words[..] else {
        return Err(LineError::NoUser);
    };
    let text = || String::from_utf8_lossy(name).into_owned();
    if has_blanks(name) {
        return Err(LineError::BadName(text()));
    }
    if users.contains_key(*name) {
        return Err(LineError::Duplicate(text()));
    }
    let mut rules = Rules::new(all_channels);
    let modifiers = join_selectors(modifiers).map_err(|_| LineError::Unmatched);
    let mut errors = Vec::new();
    for modifier in modifiers.iter().flatten() {
        let modifier = modifier.trim_ascii();
        if let Err(error) = rules.apply(modifier, all_channels) {
            errors.push((String::from_utf8_lossy(modifier).into_owned(), error));
        }
    }
    debug_assert!(!users.contains_key(*name), "a duplicate was refused");
    // A second line of the name is a duplicate even where the first is wrong.
    users.insert((*name).into(), rules);
    modifiers?;
    match errors.is_empty() {
        true => Ok(()),
        false => Err(LineError::Modifiers(errors)),
    }
}

/// The system's own words, without its number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

/// More than the users of any server take.
const FILE_BYTES_MAX: usize = 64 << 20;
