//! Commands about the server, and those of parts that it does not have.

use tidewire_keyspace::SessionCommand;

use super::{Call, State};

impl State {
    /// The commands of this file and of those that it leads to.
    pub(super) fn run_server(&mut self, call: &mut Call<'_>, command: SessionCommand) {
        use SessionCommand as Name;
        match command {
            Name::ConfigRewrite => self.config_rewrite(call),
            Name::Debug => self.debug(call),
            Name::AclWhoAmI => self.reply(call.context, |reply| reply.bulk(b"default")),
            Name::AclUsers => self.reply(call.context, |reply| {
                reply.array(1);
                reply.bulk(b"default");
            }),
            Name::AclHelp => self.help(call, ACL_HELP),
            Name::ClientCaching => self.client_caching(call),
            Name::ClientGetRedir => self.reply(call.context, |reply| reply.integer(-1)),
            Name::ClientTracking => self.client_tracking(call),
            Name::ClientTrackingInfo => self.client_tracking_info(call),
            Name::FunctionFlush | Name::ScriptFlush => self.flush_scripts(call),
            Name::FunctionList => self.function_list(call),
            Name::FunctionStats => self.function_stats(call),
            Name::FunctionDelete => self.refuse(call, "ERR Library not found"),
            Name::FunctionKill | Name::ScriptKill => {
                self.refuse(call, "NOTBUSY No scripts in execution right now.");
            }
            Name::FunctionHelp => self.help(call, FUNCTION_HELP),
            Name::ScriptExists => self.script_exists(call),
            Name::ScriptHelp => self.help(call, SCRIPT_HELP),
            Name::SlowlogGet | Name::LatencyLatest | Name::LatencyHistory | Name::ModuleList => {
                self.reply(call.context, |reply| reply.array(0));
            }
            Name::SlowlogLen | Name::LatencyReset => {
                self.reply(call.context, |reply| reply.integer(0));
            }
            Name::SlowlogReset | Name::MemoryPurge => self.reply(call.context, |reply| reply.ok()),
            _ => self.refuse(call, "ERR this command is not available on this server"),
        }
    }

    /// FUNCTION FLUSH and SCRIPT FLUSH: there is nothing to forget.
    fn flush_scripts(&self, call: &mut Call<'_>) {
        let name = String::from_utf8_lossy(&call.arguments[0]).to_ascii_lowercase();
        let is_script = name == "script";
        match (call.arguments.len(), call.arguments.get(2)) {
            (2, _) => {}
            (3, Some(mode))
                if mode.eq_ignore_ascii_case(b"SYNC") || mode.eq_ignore_ascii_case(b"ASYNC") => {}
            _ if is_script => {
                return self.refuse(call, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
            }
            (3, _) => {
                return self.refuse(call, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
            }
            _ => {
                let text = "ERR unknown subcommand or wrong number of arguments for 'flush'. \
                            Try FUNCTION HELP.";
                return self.refuse(call, text);
            }
        }
        self.reply(call.context, |reply| reply.ok());
    }

    fn function_list(&self, call: &mut Call<'_>) {
        let mut at = 2;
        while let Some(option) = call.arguments.get(at) {
            if option.eq_ignore_ascii_case(b"WITHCODE") {
                at += 1;
            } else if option.eq_ignore_ascii_case(b"LIBRARYNAME") {
                if call.arguments.get(at + 1).is_none() {
                    return self.refuse(call, "ERR library name argument was not given");
                }
                at += 2;
            } else {
                let option = String::from_utf8_lossy(option).replace(['\r', '\n'], " ");
                return self.refuse(call, &format!("ERR Unknown argument {option}"));
            }
        }
        self.reply(call.context, |reply| reply.array(0));
    }

    fn function_stats(&self, call: &mut Call<'_>) {
        self.reply(call.context, |reply| {
            reply.map(2);
            reply.bulk(b"running_script");
            reply.null();
            reply.bulk(b"engines");
            reply.map(0);
        });
    }

    fn script_exists(&self, call: &mut Call<'_>) {
        let count = call.arguments.len() - 2;
        self.reply(call.context, |reply| {
            reply.array(count);
            (0..count).for_each(|_| reply.integer(0));
        });
    }
}

const ACL_HELP: &[&str] = &[
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Print this help.",
];

const FUNCTION_HELP: &[&str] = &[
    "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries.",
    "STATS",
    "    Return information about the current function running.",
    "HELP",
    "    Print this help.",
];

const SCRIPT_HELP: &[&str] = &[
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache. Very dangerous on replicas.",
    "HELP",
    "    Print this help.",
];
