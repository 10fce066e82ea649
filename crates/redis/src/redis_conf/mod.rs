//! A redis.conf: read when the server starts, and written back by CONFIG REWRITE.

mod rewrite;
mod words;

use std::path::{Path, PathBuf};

pub(crate) use rewrite::{Directive, Line, rewrite};
pub(crate) use words::{quoted, split};

use crate::access::check_user;
use crate::parameters::{ACLFILE, BIND, Parameters, REPLICAOF, SAVE};

/// What a redis.conf says.
#[derive(Clone, Debug, Default)]
pub struct RedisConf {
    /// The file, if there is one: CONFIG REWRITE writes it back.
    pub path: Option<PathBuf>,
    /// Parameters and their values, in order. Of each name only the last counts, but for those
    /// whose lines add up.
    pub parameters: Vec<(String, String)>,
    /// The words behind `user`, of each line.
    pub users: Vec<Vec<Vec<u8>>>,
    /// Names of commands and their new names; an empty one takes the command away.
    pub renames: Vec<(String, String)>,
    /// `port`.
    pub port: Option<u16>,
    /// `tls-port`.
    pub tls_port: Option<u16>,
    /// `bind`: addresses between blanks, see [`crate::BindAddress`].
    pub bind: Option<String>,
    /// `unixsocket`.
    pub unix_socket: Option<PathBuf>,
    /// `dir`.
    pub directory: Option<PathBuf>,
}

impl RedisConf {
    /// Reads a file, and what stands behind it on the command line, such as `--port 7000`. An
    /// error names the line.
    pub fn read(path: Option<&Path>, options: &[String]) -> Result<Self, String> {
        let mut conf = RedisConf::default();
        if let Some(path) = path {
            conf.read_file(path, 0)?;
            let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
            conf.path = Some(whole);
        }
        conf.read_text(&lines_of(options), COMMAND_LINE, 0)?;
        if path.is_some() {
            conf.complete()?;
        }
        conf.check()?;
        Ok(conf)
    }

    fn read_file(&mut self, path: &Path, depth: usize) -> Result<(), String> {
        let place = path.display().to_string();
        let text = std::fs::read(path)
            .map_err(|error| format!("Fatal error, can't open config file '{place}': {error}"))?;
        self.read_text(&text, &place, depth)
    }

    fn read_text(&mut self, text: &[u8], place: &str, depth: usize) -> Result<(), String> {
        for (line, number) in text.split(|&byte| byte == b'\n').zip(1..) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let failed = |reason: String| {
                let text = String::from_utf8_lossy(line);
                match (place == COMMAND_LINE, split(line)) {
                    // Which words were taken for one option's values is seen as Redis shows it.
                    (true, Some(words)) if words.len() == 2 && !words[1].starts_with(b"--") => {
                        let option = words.join(&b' ');
                        format!("--{}: {}", String::from_utf8_lossy(&option), plain(&reason))
                    }
                    (true, _) => format!("{place}: '{text}': {reason}"),
                    _ => format!("{place}, at line {number}: '{text}': {reason}"),
                }
            };
            let words = split(line).ok_or("Unbalanced quotes in configuration line");
            let words = words.map_err(|reason| failed(reason.to_owned()))?;
            self.read_words(&words, depth).map_err(failed)?;
        }
        Ok(())
    }

    fn read_words(&mut self, words: &[Vec<u8>], depth: usize) -> Result<(), String> {
        let Some((name, values)) = words.split_first() else {
            return Ok(());
        };
        let name = String::from_utf8_lossy(name).to_lowercase();
        let texts: Vec<String> = values
            .iter()
            .map(|value| String::from_utf8_lossy(value).into_owned())
            .collect();
        match (name.as_str(), &texts[..]) {
            ("include", [path]) if depth < INCLUDES_MAX => self.include(path, depth + 1),
            ("include", [_]) => Err("files include each other too deeply".to_owned()),
            ("user", [_, ..]) => self.read_user(values),
            ("rename-command", [old, new]) => self.rename(old, new),
            ("loadmodule", _) => Err("modules cannot be loaded".to_owned()),
            ("port", [port]) => {
                self.set("port", &texts)?;
                self.port = port.parse().ok();
                Ok(())
            }
            ("tls-port", [port]) => {
                self.set("tls-port", &texts)?;
                self.tls_port = port.parse().ok();
                Ok(())
            }
            ("bind", _) => {
                self.set("bind", &texts)?;
                self.bind = Some(texts.join(" "));
                Ok(())
            }
            ("unixsocket", [path]) => {
                self.unix_socket = (!path.is_empty()).then(|| path.into());
                self.set("unixsocket", &texts)
            }
            // The value that is shown is where the server is then.
            ("dir", [path]) => {
                self.directory = Some(path.into());
                Ok(())
            }
            (old, [_]) if FORGOTTEN.contains(&old) => Ok(()),
            _ => self.set(&name, &texts),
        }
    }

    fn read_user(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        if self
            .users
            .iter()
            .any(|known| known.first() == words.first())
        {
            let text = "Duplicate user found. A user can only be defined once in config files";
            return Err(text.to_owned());
        }
        // How selectors begin matters to none of the errors.
        check_user(words, false)?;
        self.users.push(words.to_vec());
        Ok(())
    }

    fn rename(&mut self, old: &str, new: &str) -> Result<(), String> {
        if tidewire_keyspace::lookup(old.as_bytes()).is_none() {
            return Err("No such command in rename-command".to_owned());
        }
        let taken = |name: &str| {
            let renamed = self.renames.iter();
            let is_free = renamed
                .clone()
                .any(|(old, _)| old.eq_ignore_ascii_case(name));
            let is_new = renamed
                .clone()
                .any(|(_, new)| new.eq_ignore_ascii_case(name));
            is_new || !is_free && tidewire_keyspace::lookup(name.as_bytes()).is_some()
        };
        if !new.is_empty() && taken(new) {
            return Err("Target command name already exists".to_owned());
        }
        self.renames.push((old.to_lowercase(), new.to_lowercase()));
        Ok(())
    }

    fn set(&mut self, name: &str, values: &[String]) -> Result<(), String> {
        let adds_up = Parameters::adds_up(name);
        let takes_words = match Parameters::directive_name(name) {
            Some(_) => Parameters::takes_words(name),
            None => return Err("Bad directive or wrong number of arguments".to_owned()),
        };
        let is_master = REPLICAOF.is_named(name.as_bytes());
        let fits = match values.len() {
            0 => takes_words && !is_master,
            1 => !is_master,
            2 if is_master => true,
            _ => takes_words && !is_master,
        };
        if !fits {
            return Err("wrong number of arguments".to_owned());
        }
        if is_master && values[1].parse::<u16>().is_err() {
            return Err("Invalid master port".to_owned());
        }
        let value = values.join(" ");
        match STARTING.contains(&name) {
            true => Parameters::check_value(name, &value)?,
            false => Parameters::check(name, &value)?,
        }
        let known = self.parameters.iter_mut().find(|(known, _)| known == name);
        match known {
            Some((_, known)) if adds_up && !value.is_empty() && !known.is_empty() => {
                *known = format!("{known} {value}");
            }
            Some((_, known)) => *known = value,
            None => self.parameters.push((name.to_owned(), value)),
        }
        Ok(())
    }

    fn include(&mut self, pattern: &str, depth: usize) -> Result<(), String> {
        if !pattern.contains(['*', '?', '[']) {
            return self.read_file(Path::new(pattern), depth);
        }
        let path = Path::new(pattern);
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries
            .filter(|entry| {
                tidewire_keyspace::glob::matches(name, entry.file_name().as_encoded_bytes())
            })
            .map(|entry| entry.path())
            .collect();
        found.sort();
        found
            .iter()
            .try_for_each(|path| self.read_file(path, depth))
    }

    /// What a redis.conf means that says nothing of these; without one they are otherwise.
    fn complete(&mut self) -> Result<(), String> {
        for (name, values) in [
            (SAVE.name(), &["3600", "1", "300", "100", "60", "10000"][..]),
            (BIND.name(), &["*", "-::*"]),
        ] {
            if self.parameters.iter().all(|(known, _)| known != name) {
                let values: Vec<String> = values.iter().map(|&value| value.into()).collect();
                self.set(name, &values)?;
            }
        }
        self.bind.get_or_insert_with(|| "* -::*".to_owned());
        Ok(())
    }

    /// What only the whole tells.
    fn check(&self) -> Result<(), String> {
        let is_file = |name: &str| name == ACLFILE.name();
        let has_file = self
            .parameters
            .iter()
            .any(|(name, value)| is_file(name) && !value.is_empty());
        if has_file && !self.users.is_empty() {
            let text = "users are named both in the configuration and in an ACL file: define \
                        either an ACL file or users, but not both";
            return Err(text.to_owned());
        }
        Ok(())
    }
}

/// A reason in other words than Redis's, which are about arguments of CONFIG SET.
fn plain(reason: &str) -> String {
    reason.replace(
        "argument couldn't be parsed into an integer",
        "a whole number is expected",
    )
}

/// The options of a command line as lines of a file. A word that begins with `--` is the name of
/// a directive, unless it stands where a value is expected.
fn lines_of(options: &[String]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut has_value = true;
    for (at, option) in options.iter().enumerate() {
        let name = option.strip_prefix("--").filter(|_| has_value);
        let Some(name) = name else {
            text.push(b' ');
            text.extend(quoted(option.as_bytes()));
            has_value = true;
            continue;
        };
        text.push(b'\n');
        text.extend_from_slice(name.as_bytes());
        has_value = split(name.as_bytes()).is_none_or(|words| words.len() > 1);
        let next = options.get(at + 1);
        if name.eq_ignore_ascii_case("save") && next.is_none_or(|next| next.starts_with("--")) {
            text.extend_from_slice(b" \"\"");
            has_value = true;
        }
    }
    text
}

/// The place of directives that no file has.
const COMMAND_LINE: &str = "the command line";
/// Given when the server starts, so that what refuses their change does not matter.
const STARTING: &[&str] = &["port", "bind"];
/// Of versions long gone; Redis accepts and ignores them as well.
const FORGOTTEN: &[&str] = &[
    "list-max-ziplist-entries",
    "list-max-ziplist-value",
    "lua-replicate-commands",
];
const INCLUDES_MAX: usize = 16;

#[cfg(test)]
mod tests;
