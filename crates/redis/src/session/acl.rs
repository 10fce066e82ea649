//! ACL.

use std::fs::File;
use std::io::Read;

use tidewire_keyspace::commands::{CATEGORIES, table};
use tidewire_keyspace::{Command, lookup};
use tidewire_resp::number::parse_integer;
use tidewire_resp::{Arguments, Writer};

use super::{Call, State};
use crate::access::no_command_text;
use crate::access::{Origin, Reason, Rules};
use crate::parameters::ACLFILE;

impl State {
    pub(super) fn acl_list(&mut self, call: &mut Call<'_>) {
        let lines = call.server.access.lines();
        self.reply_bulks(call, &lines);
    }

    pub(super) fn acl_users(&mut self, call: &mut Call<'_>) {
        let users = call.server.access.all();
        let names: Vec<_> = users.iter().map(|(user, _)| &user.name).collect();
        self.reply_bulks(call, &names);
    }

    pub(super) fn acl_who_am_i(&mut self, call: &mut Call<'_>) {
        let name = &self.permit.user.name;
        self.reply(call.context, |reply| reply.bulk(name));
    }

    fn reply_bulks(&self, call: &mut Call<'_>, texts: &[impl AsRef<[u8]>]) {
        self.reply(call.context, |reply| {
            reply.array(texts.len());
            texts.iter().for_each(|text| reply.bulk(text.as_ref()));
        });
    }

    pub(super) fn acl_set_user(&mut self, call: &mut Call<'_>) {
        let server = call.server;
        let modifiers: Vec<&[u8]> = call.arguments.tail(3).iter().collect();
        let all_channels = server.begins_with_all_channels();
        match server
            .access
            .set_user(&call.arguments[2], &modifiers, all_channels)
        {
            Ok(()) => {
                self.tell_users_changed(call);
                self.reply(call.context, |reply| reply.ok());
            }
            Err(text) => self.refuse_in_one_line(call, &text),
        }
    }

    pub(super) fn acl_del_user(&mut self, call: &mut Call<'_>) {
        let names = call.arguments.tail(2);
        if names.iter().any(|name| name == b"default") {
            return self.refuse(call, "ERR The 'default' user cannot be removed");
        }
        let deleted = call.server.access.delete(names.iter());
        self.tell_users_changed(call);
        self.reply(call.context, |reply| reply.integer(deleted as i64));
    }

    pub(super) fn acl_get_user(&mut self, call: &mut Call<'_>) {
        let user = call.server.access.find(&call.arguments[2]);
        let rules = user.and_then(|user| user.rules());
        let is_valkey = call.server.follows_valkey();
        self.reply(call.context, |reply| match rules {
            Some(rules) => write_user(reply, &rules, is_valkey),
            None => reply.null(),
        });
    }

    pub(super) fn acl_cat(&mut self, call: &mut Call<'_>) {
        let Some(name) = call.arguments.get(2) else {
            return self.reply_bulks(call, CATEGORIES);
        };
        if call.arguments.len() > 3 {
            let part = String::from_utf8_lossy(&call.arguments[1]).into_owned();
            let text = format!(
                "unknown subcommand or wrong number of arguments for '{part}'. Try ACL HELP."
            );
            return self.refuse_in_one_line(call, &text);
        }
        let mut known = CATEGORIES.iter();
        let category = known.find(|known| known.as_bytes().eq_ignore_ascii_case(name));
        let Some(category) = category else {
            let name: String = String::from_utf8_lossy(name).chars().take(128).collect();
            return self.refuse_in_one_line(call, &format!("Unknown category '{name}'"));
        };
        let names: Vec<_> = table::with_parts()
            .iter()
            .filter(|command| command.acl_categories().any(|own| own == *category))
            .map(|command| command.full_name)
            .collect();
        self.reply_bulks(call, &names);
    }

    pub(super) fn acl_gen_pass(&mut self, call: &mut Call<'_>) {
        let bits = match call.arguments.len() {
            2 => Some(PASSWORD_BITS),
            3 => parse_integer(&call.arguments[2]),
            _ => return self.refuse(call, SYNTAX),
        };
        let Some(bits) = bits else {
            return self.refuse(call, "ERR value is not an integer or out of range");
        };
        if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
            let text = format!(
                "ERR ACL GENPASS argument must be the number of bits for the output password, a \
                 positive number up to {PASSWORD_BITS_MAX}"
            );
            return self.refuse(call, &text);
        }
        match random_digits((bits as usize).div_ceil(4)) {
            Ok(digits) => self.reply(call.context, |reply| reply.bulk(digits.as_bytes())),
            Err(error) => self.refuse(call, &format!("ERR no random numbers: {error}")),
        }
    }

    pub(super) fn acl_load(&mut self, call: &mut Call<'_>) {
        let server = call.server;
        let path = server.parameters.read(ACLFILE);
        if path.is_empty() {
            return self.refuse_without_file(call);
        }
        match server.access.load(&path, server.begins_with_all_channels()) {
            Ok(()) => {
                self.tell_users_changed(call);
                self.reply(call.context, |reply| reply.ok());
            }
            Err(text) => self.refuse_in_one_line(call, &text),
        }
    }

    pub(super) fn acl_save(&mut self, call: &mut Call<'_>) {
        let path = call.server.parameters.read(ACLFILE);
        if path.is_empty() {
            return self.refuse_without_file(call);
        }
        match call.server.access.save(&path) {
            Ok(()) => self.reply(call.context, |reply| reply.ok()),
            Err(error) => {
                tracing::error!(path, %error, "the users could not be saved");
                self.refuse(call, NOT_SAVED);
            }
        }
    }

    pub(super) fn acl_log(&mut self, call: &mut Call<'_>) {
        let count = match call.arguments.get(2) {
            None => Some(LOG_ENTRIES),
            Some(_) if call.arguments.len() > 3 => {
                let part = String::from_utf8_lossy(&call.arguments[1]).into_owned();
                let text = format!(
                    "ERR unknown subcommand or wrong number of arguments for '{part}'. \
                     Try ACL HELP."
                );
                return self.refuse(call, &text);
            }
            Some(word) if word.eq_ignore_ascii_case(b"reset") => {
                call.server.access.log.lock().clear();
                return self.reply(call.context, |reply| reply.ok());
            }
            Some(count) => parse_integer(count),
        };
        let Some(count) = count else {
            return self.refuse(call, "ERR value is not an integer or out of range");
        };
        let count = usize::try_from(count).unwrap_or(0);
        let newest = call.server.access.log.lock().newest(count);
        let now_ms = tidewire_lane::unix_ms();
        self.reply(call.context, |reply| {
            reply.array(newest.len());
            for known in &newest {
                let entry = &known.entry;
                reply.map(10);
                let integer = |reply: &mut Writer<'_>, name: &str, value: i64| {
                    reply.bulk(name.as_bytes());
                    reply.integer(value);
                };
                let bulk = |reply: &mut Writer<'_>, name: &str, value: &[u8]| {
                    reply.bulk(name.as_bytes());
                    reply.bulk(value);
                };
                integer(reply, "count", known.count);
                bulk(reply, "reason", reason_word(entry.reason).as_bytes());
                bulk(reply, "context", origin_word(entry.origin).as_bytes());
                bulk(reply, "object", &entry.object);
                bulk(reply, "username", &entry.user);
                reply.bulk(b"age-seconds");
                reply.double((now_ms - entry.unix_ms) as f64 / 1_000.0);
                bulk(reply, "client-info", entry.client.as_bytes());
                integer(reply, "entry-id", known.number);
                integer(reply, "timestamp-created", known.created_unix_ms);
                integer(reply, "timestamp-last-updated", entry.unix_ms);
            }
        });
    }

    pub(super) fn acl_dry_run(&mut self, call: &mut Call<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = &call.arguments[2];
        let user = call.server.access.find(name);
        let Some((rules, user)) = user.and_then(|user| Some((user.rules()?, user))) else {
            let name = text(name);
            return self.refuse_in_one_line(call, &format!("User '{name}' not found"));
        };
        let request = call.arguments.tail(3);
        let Some(command) = command_of(request) else {
            let name = text(&request[0]);
            return self.refuse_in_one_line(call, &format!("Command '{name}' not found"));
        };
        if let Err(error) = tidewire_keyspace::check_arity(command, request) {
            return self.refuse(call, &error.to_string());
        }
        let told = match rules.check(command, request, self.next_database()) {
            Ok(()) => return self.reply(call.context, |reply| reply.ok()),
            Err(denial) => {
                let (name, object) = (user.name(), text(&request[denial.at]));
                let access = format!("User {name} has no permissions to access");
                match denial.reason {
                    Reason::Command => no_command_text(&user, command),
                    Reason::Database => format!("{access} database {object}"),
                    Reason::Channel => format!("{access} the '{object}' channel"),
                    _ => format!("{access} the '{object}' key"),
                }
            }
        };
        self.reply(call.context, |reply| reply.bulk(told.as_bytes()));
    }

    fn refuse_without_file(&self, call: &mut Call<'_>) {
        match call.server.follows_valkey() {
            true => self.refuse(call, &NO_FILE.replace("Redis", "Valkey")),
            false => self.refuse(call, NO_FILE),
        }
    }

    /// Tells every lane that users have changed. The reply waits until all lanes have checked
    /// their sessions.
    pub(super) fn tell_users_changed(&self, call: &mut Call<'_>) {
        call.server.tell_users_changed();
        call.sessions.users_changers.push(self.id);
    }

    /// Refuses with a text that contains what the client has sent.
    fn refuse_in_one_line(&self, call: &mut Call<'_>, text: &str) {
        let text = text.replace(['\r', '\n'], " ");
        self.refuse(call, &format!("ERR {text}"));
    }
}

fn command_of(request: Arguments<'_>) -> Option<&'static Command> {
    let command = request.get(0).and_then(lookup)?;
    match request.get(1) {
        Some(name) if command.is_container() => command.subcommand(name),
        _ => Some(command),
    }
}

/// Redis's reply has no databases. They are shown if there is a rule about them.
fn write_user(reply: &mut Writer<'_>, rules: &Rules, is_valkey: bool) {
    let shown = match is_valkey || rules.limits_databases() {
        true => 4,
        false => 3,
    };
    reply.map(3 + shown);
    let flags = rules.flags(is_valkey);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    let digests: Vec<_> = rules.password_digests().collect();
    reply.bulk(b"passwords");
    reply.array(digests.len());
    digests
        .iter()
        .for_each(|digest| reply.bulk(digest.as_bytes()));
    let mut selectors = rules.selector_fields();
    debug_assert!(selectors.len() > 0, "a user has a selector of its own");
    if let Some(own) = selectors.next() {
        write_selector(reply, &own[..shown]);
    }
    reply.bulk(b"selectors");
    reply.array(selectors.len());
    for selector in selectors {
        reply.map(shown);
        write_selector(reply, &selector[..shown]);
    }
}

fn write_selector(reply: &mut Writer<'_>, fields: &[Vec<u8>]) {
    let names = ["commands", "keys", "channels", "databases"];
    for (name, value) in names.iter().zip(fields) {
        reply.bulk(name.as_bytes());
        reply.bulk(value);
    }
}

fn reason_word(reason: Reason) -> &'static str {
    match reason {
        Reason::Database => "database",
        Reason::Command => "command",
        Reason::Key => "key",
        Reason::Channel => "channel",
        Reason::Authentication => "auth",
        Reason::Certificate => "tls-cert",
    }
}

fn origin_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Toplevel => "toplevel",
        Origin::Multi => "multi",
        Origin::Script => "lua",
    }
}

/// Returns hexadecimal digits from the system's source of random numbers.
fn random_digits(count: usize) -> std::io::Result<String> {
    let mut bytes = vec![0; count.div_ceil(2)];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate(count);
    Ok(digits)
}

const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4_096;
const LOG_ENTRIES: i64 = 10;
const SYNTAX: &str = "ERR syntax error";
const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want \
                       to specify users via the ACL SETUSER command and then issue a CONFIG \
                       REWRITE (assuming you have a Redis configuration file set) in order to \
                       store users in the Redis configuration.";
const NOT_SAVED: &str = "ERR There was an error trying to save the ACLs. Please check the server \
                         logs for more information";

pub(super) const HELP: &[&str] = &[
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Print this help.",
];
