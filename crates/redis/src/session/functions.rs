//! FUNCTION.

use std::sync::Arc;

use tidewire_keyspace::{dump_libraries, glob, read_libraries};
use tidewire_resp::Writer;
use tidewire_script::{Engine, Libraries, Library, RestorePolicy};

use super::scripting::{forget_functions, with_functions};
use super::{Call, State};
use crate::mail::RedisMail;
use crate::parameters::LAZYFREE_LAZY_USER_FLUSH;

impl State {
    pub(super) fn function_load(&mut self, call: &mut Call<'_>) {
        let mut replace = false;
        let last = call.arguments.len() - 1;
        for option in call.arguments.tail(2).iter().take(last - 2) {
            if !option.eq_ignore_ascii_case(b"REPLACE") {
                let option = String::from_utf8_lossy(option);
                return self.refuse(call, &format!("ERR Unknown option given: {option}"));
            }
            replace = true;
        }
        let code = &call.arguments[last];
        let load =
            |libraries: &Libraries, engine: &mut Engine| libraries.load(engine, code, replace);
        match with_functions(call, load) {
            Ok(name) => {
                self.tell(call, false);
                self.reply(call.context, |reply| reply.bulk(name.as_bytes()));
            }
            Err(text) => self.refuse(call, &text),
        }
    }

    pub(super) fn function_delete(&mut self, call: &mut Call<'_>) {
        if !call.server.scripting.libraries.delete(&call.arguments[2]) {
            return self.refuse(call, "ERR Library not found");
        }
        self.tell(call, false);
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn function_flush(&mut self, call: &mut Call<'_>) {
        if call.arguments.len() > 3 {
            let text = "ERR unknown subcommand or wrong number of arguments for 'flush'. Try \
                        FUNCTION HELP.";
            return self.refuse(call, text);
        }
        let server = call.server;
        let is_lazy = match call.arguments.get(2) {
            None => server.parameters.read(LAZYFREE_LAZY_USER_FLUSH),
            Some(mode) if mode.eq_ignore_ascii_case(b"SYNC") => false,
            Some(mode) if mode.eq_ignore_ascii_case(b"ASYNC") => true,
            Some(_) => {
                let text = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option";
                return self.refuse(call, text);
            }
        };
        let gone = server.scripting.libraries.flush();
        // With what runs them they count for one more.
        let count = gone.function_count() as u64 + 1;
        if is_lazy && count > LAZY_COUNT_MIN {
            server.keyspace.free_in_background(Box::new(gone), count);
        }
        forget_functions(server, call.context.lane());
        for lane in (0..server.mail.lanes()).filter(|&lane| lane != call.context.lane()) {
            server.mail.send(lane, RedisMail::FunctionsForgotten);
        }
        server.scripting.forget_function_bytes();
        self.tell(call, false);
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn function_list(&mut self, call: &mut Call<'_>) {
        let (mut with_code, mut pattern) = (false, None);
        let mut at = 2;
        while let Some(option) = call.arguments.get(at) {
            at += 1;
            if !with_code && option.eq_ignore_ascii_case(b"WITHCODE") {
                with_code = true;
            } else if pattern.is_none() && option.eq_ignore_ascii_case(b"LIBRARYNAME") {
                pattern = call.arguments.get(at).map(<[u8]>::to_ascii_lowercase);
                if pattern.is_none() {
                    return self.refuse(call, "ERR library name argument was not given");
                }
                at += 1;
            } else {
                let option = String::from_utf8_lossy(option);
                return self.refuse(call, &format!("ERR Unknown argument {option}"));
            }
        }
        let set = call.server.scripting.libraries.current();
        let is_wanted = |library: &&Arc<Library>| {
            let name = library.name.to_ascii_lowercase();
            let pattern = pattern.as_ref();
            pattern.is_none_or(|pattern| glob::matches(pattern, name.as_bytes()))
        };
        let libraries: Vec<_> = set.libraries().filter(is_wanted).collect();
        self.reply(call.context, |reply| {
            reply.array(libraries.len());
            libraries
                .iter()
                .for_each(|library| write_library(reply, library, with_code));
        });
    }

    pub(super) fn function_stats(&mut self, call: &mut Call<'_>) {
        let scripting = &call.server.scripting;
        // A busy script refuses this command as it refuses any other.
        if let Some(text) = scripting
            .busy_text()
            .filter(|text| text.contains("SCRIPT KILL") && !self.is_executing)
        {
            return self.refuse(call, text);
        }
        let (running, set) = (scripting.running(), scripting.libraries.current());
        self.reply(call.context, |reply| {
            reply.map(2);
            reply.bulk(b"running_script");
            match running {
                None => reply.null(),
                Some(running) => {
                    reply.map(3);
                    reply.bulk(b"name");
                    reply.bulk(running.name.as_bytes());
                    reply.bulk(b"command");
                    let request = running.request.as_arguments();
                    reply.array(request.len());
                    request.iter().for_each(|word| reply.bulk(word));
                    reply.bulk(b"duration_ms");
                    reply.integer(running.started.elapsed().as_millis() as i64);
                }
            }
            reply.bulk(b"engines");
            reply.map(1);
            reply.bulk(b"LUA");
            reply.map(2);
            reply.bulk(b"libraries_count");
            reply.integer(set.libraries().len() as i64);
            reply.bulk(b"functions_count");
            reply.integer(set.function_count() as i64);
        });
    }

    pub(super) fn function_dump(&mut self, call: &mut Call<'_>) {
        let set = call.server.scripting.libraries.current();
        let payload = dump_libraries(set.libraries().map(|library| &*library.code));
        self.reply(call.context, |reply| reply.bulk(&payload));
    }

    pub(super) fn function_restore(&mut self, call: &mut Call<'_>) {
        if call.arguments.len() > 4 {
            let text = "ERR unknown subcommand or wrong number of arguments for 'restore'. Try \
                        FUNCTION HELP.";
            return self.refuse(call, text);
        }
        let policy = match call.arguments.get(3) {
            None => RestorePolicy::Append,
            Some(word) if word.eq_ignore_ascii_case(b"APPEND") => RestorePolicy::Append,
            Some(word) if word.eq_ignore_ascii_case(b"REPLACE") => RestorePolicy::Replace,
            Some(word) if word.eq_ignore_ascii_case(b"FLUSH") => RestorePolicy::Flush,
            Some(_) => {
                let text = "ERR Wrong restore policy given, value should be either FLUSH, APPEND \
                            or REPLACE.";
                return self.refuse(call, text);
            }
        };
        let codes = match read_libraries(&call.arguments[2]) {
            Ok(codes) => codes,
            Err(text) => return self.refuse(call, text),
        };
        let restore =
            |libraries: &Libraries, engine: &mut Engine| libraries.restore(engine, &codes, policy);
        match with_functions(call, restore) {
            Ok(()) => {
                self.tell(call, false);
                self.reply(call.context, |reply| reply.ok());
            }
            Err(text) => self.refuse(call, &text),
        }
    }
}

fn write_library(reply: &mut Writer<'_>, library: &Library, with_code: bool) {
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(library.name.as_bytes());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(function.name.as_bytes());
        reply.bulk(b"description");
        match &function.description {
            Some(text) => reply.bulk(text.as_bytes()),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        let names = function.flags.names();
        reply.set(names.clone().count());
        names.for_each(|name| reply.simple(name));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

pub(super) const HELP: &[&str] = &[
    "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries.",
    "STATS",
    "    Return information about the current function running.",
    "KILL",
    "    Kill the current running function.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "DUMP",
    "    Return a serialized payload representing the current libraries.",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload.",
    "HELP",
    "    Print this help.",
];

/// From this many functions on, a flush frees them in the background.
const LAZY_COUNT_MIN: u64 = 64;
