//! CONFIG.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::Ordering;

use super::{Call, State, transaction};
use crate::access::replace_file;
use crate::durability::LOADING_TEXT;
use crate::lane_waits::{LaneWait, WaitReason};
use crate::parameters::{
    ACLFILE, BIND, DIR, Effect, OOM_SCORE_ADJ, PORT, Parameters, TLS_PORT, failed_text, has_effect,
};
use crate::quorum;
use crate::redis_conf::{Directive, Line, rewrite};
use crate::server::Server;

impl State {
    pub(super) fn config_get(&self, call: &mut Call<'_>) {
        let patterns: Vec<&[u8]> = call.arguments.tail(2).iter().collect();
        let found = call.server.parameters.find(&patterns);
        self.reply(call.context, |reply| {
            reply.map(found.len());
            for (name, value) in found {
                reply.bulk(&name);
                reply.bulk(&value);
            }
        });
    }

    pub(super) fn config_set(&self, call: &mut Call<'_>) {
        let words: Vec<&[u8]> = call.arguments.tail(2).iter().collect();
        let (pairs, []) = words.as_chunks::<2>() else {
            return self.refuse(call, "ERR syntax error");
        };
        let pairs: Vec<_> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
        let server = call.server;
        let has = |effect| pairs.iter().any(|(name, _)| has_effect(name, effect));
        if server.durability.is_loading() && has(Effect::NotWhileLoading) {
            return self.refuse(call, LOADING_TEXT);
        }
        if server.durability.log.is_on() && moves_directory(server, &pairs) {
            return self.refuse(call, NOT_WITH_LOG);
        }
        if server.quorum.is_on()
            && let Some(text) = quorum::misfit(pairs.iter().copied())
        {
            return self.refuse(call, &format!("ERR CONFIG SET failed: {text}"));
        }
        let (follows_score, listens) = (has(Effect::Score), has(Effect::Listening));
        let certifies = has(Effect::Certificates);
        let can_fail = follows_score || listens || certifies;
        let before = can_fail.then(|| server.parameters.texts(&pairs));
        let directory = has(Effect::Directory).then(|| server.parameters.read(DIR));
        match server
            .parameters
            .set(&server.keyspace, &pairs, self.client.is_local())
        {
            Ok(()) => {
                if let Some(before) = &before
                    && certifies
                    && let Err(text) = follow_certificates(server, before)
                {
                    return self.refuse(call, &text);
                }
                if let Some(before) = &before
                    && listens
                    && let Err(text) = follow_listening(server, before)
                {
                    return self.refuse(call, &text);
                }
                if let Some(before) = &before
                    && follows_score
                    && let Err(text) = follow_memory_score(server, before)
                {
                    return self.refuse(call, &text);
                }
                let is_password = |(name, _): &&(&[u8], &[u8])| has_effect(name, Effect::Password);
                if let Some((_, password)) = pairs.iter().find(is_password) {
                    server.access.set_default_password(password);
                    self.tell_users_changed(call);
                }
                if has(Effect::Topics) {
                    server.watch_topics();
                }
                if has(Effect::Times) {
                    server.statistics.time_next();
                }
                // Limits of memory concern no file: EXEC sets them with its shards locked.
                let concerns_files = transaction::sets_more_than_memory(call.arguments);
                let _permit = LaneWait::permit(WaitReason::Parameters);
                if concerns_files && let Err(text) = server.durability.follow_parameters(server) {
                    if let Some(directory) = directory {
                        // Another server has the new one.
                        let pair = (DIR.name().as_bytes(), directory.as_bytes());
                        let _ = server.parameters.set(&server.keyspace, &[pair], true);
                    }
                    return self.refuse(call, &text);
                }
                // A lane that sleeps must learn that its clients are limited from now on.
                for lane in 0..server.config.lanes {
                    server.mail.wake(lane);
                }
                self.reply(call.context, |reply| reply.ok());
            }
            Err(text) => self.refuse(call, &text),
        }
    }

    pub(super) fn config_reset_stat(&self, call: &mut Call<'_>) {
        call.server.reset_statistics();
        call.server.replication.reset_statistics();
        self.reply(call.context, |reply| reply.ok());
    }

    /// Writes the current configuration to the redis.conf; with `all`, defaults too.
    pub(super) fn config_rewrite(&self, call: &mut Call<'_>, all: bool) {
        let Some(path) = call.server.config.redis_conf.clone() else {
            return self.refuse(call, "ERR The server is running without a config file");
        };
        // What it says of the master is wrong in a moment: then it is written again.
        let master = call.server.replication.master();
        if let Some(master) = master.filter(|one| one.is_handing_over.load(Ordering::Acquire)) {
            master.owes_conf.store(true, Ordering::Release);
        }
        match rewrite_redis_conf(call.server, &path, all) {
            Ok(()) => self.reply(call.context, |reply| reply.ok()),
            Err(error) => self.refuse(call, &format!("ERR Rewriting config file: {error}")),
        }
    }
}

/// Writes the current configuration to a redis.conf; with `all`, defaults too.
pub(crate) fn rewrite_redis_conf(server: &Server, path: &Path, all: bool) -> io::Result<()> {
    // One at a time: the newest configuration is written last.
    let _writing = server.conf_writing.lock();
    let old = fs::read(path).or_else(|error| match error.kind() {
        ErrorKind::NotFound => Ok(Vec::new()),
        _ => Err(error),
    })?;
    let mut directives = directives(server);
    let lines = directives
        .iter_mut()
        .flat_map(|directive| &mut directive.lines);
    lines.for_each(|line| line.is_default &= !all);
    let text = rewrite(&old, &directives, Parameters::directive_name);
    replace_file(path, &text)
}

/// Listens where `bind` and `port` say now; if that fails, everything is as it was before.
fn follow_listening(server: &Server, before: &[(Vec<u8>, Vec<u8>)]) -> Result<(), String> {
    let bind = server.parameters.read(BIND);
    let moves = before.iter().any(|(name, _)| BIND.is_named(name));
    // A port that is not named stays where it is: the command line may have put it elsewhere.
    let ports = [PORT, TLS_PORT].map(|id| {
        let is_named = moves || before.iter().any(|(name, _)| id.is_named(name));
        is_named.then(|| server.parameters.read(id) as u16)
    });
    let Err(reason) = server.listen_anew(&bind, ports) else {
        return Ok(());
    };
    tracing::warn!(bind, ?ports, reason, "Redis clients connect as before");
    set_again(server, before)?;
    // The certificates of before, if others were named beside.
    let _ = server.load_certificates();
    let ports = [PORT, TLS_PORT];
    let is_port = |(name, _): &&(Vec<u8>, Vec<u8>)| ports.iter().any(|port| port.is_named(name));
    Err(match before.iter().find(is_port) {
        Some((name, _)) => failed_text(name, "Unable to listen on this port. Check server logs."),
        None => failed_text(b"bind", "Failed to bind to specified addresses."),
    })
}

/// Reads the certificates that the parameters name now; if that fails, everything is as it was
/// before.
fn follow_certificates(server: &Server, before: &[(Vec<u8>, Vec<u8>)]) -> Result<(), String> {
    let _permit = LaneWait::permit(WaitReason::Parameters);
    let Err(reason) = server.load_certificates() else {
        return Ok(());
    };
    tracing::warn!(
        reason,
        "the TLS settings are refused, and those of before stay"
    );
    set_again(server, before)?;
    let names = before.iter().map(|(name, _)| &name[..]);
    let names = names.filter(|name| has_effect(name, Effect::Certificates));
    let name = blamed(&reason, names).unwrap_or(b"tls-cert-file");
    // A file's name may have line ends.
    let reason = reason.replace(char::is_control, " ");
    let text = format!("Unable to update TLS configuration: {reason}");
    Err(failed_text(name, &text))
}

/// Returns which of these parameters a reason speaks of: the one that it names first, or else the
/// first one.
fn blamed<'a>(reason: &str, names: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let words: Vec<&[u8]> = reason.as_bytes().split(|&byte| !is_part(byte)).collect();
    let place = |name: &&[u8]| {
        let mut places = words.iter();
        let place = places.position(|word| word.eq_ignore_ascii_case(name));
        place.unwrap_or(usize::MAX)
    };
    names.min_by_key(place)
}

/// Adjusts the process's score; if the system refuses, everything is as it was before.
fn follow_memory_score(server: &Server, before: &[(Vec<u8>, Vec<u8>)]) -> Result<(), String> {
    let Err(error) = server.adjust_memory_score() else {
        return Ok(());
    };
    tracing::warn!(%error, "oom-score-adj cannot be set");
    set_again(server, before)?;
    server.follow_memory_score();
    let reason = "Failed to set current oom_score_adj. Check server logs.";
    Err(failed_text(OOM_SCORE_ADJ.name().as_bytes(), reason))
}

fn set_again(server: &Server, before: &[(Vec<u8>, Vec<u8>)]) -> Result<(), String> {
    let pairs = before.iter().map(|(name, old)| (&name[..], &old[..]));
    let pairs: Vec<(&[u8], &[u8])> = pairs.collect();
    server.parameters.set(&server.keyspace, &pairs, true)
}

/// The directives of a redis.conf with which the server starts as it is now.
fn directives(server: &Server) -> Vec<Directive> {
    let mut directives = server.parameters.directives();
    let in_file = server.parameters.is_set(ACLFILE);
    let line = |text| Line {
        text,
        is_default: false,
    };
    directives.push(Directive {
        name: "user",
        lines: match in_file {
            true => Vec::new(),
            false => server.access.lines().into_iter().map(line).collect(),
        },
    });
    directives
}

/// Whether `dir` would be another than it is.
fn moves_directory(server: &Server, pairs: &[(&[u8], &[u8])]) -> bool {
    pairs.iter().any(|(name, value)| {
        let other = || *value != server.parameters.read(DIR).as_bytes();
        has_effect(name, Effect::Directory) && other()
    })
}

/// Until a log has its first base in another directory, neither directory holds every change.
const NOT_WITH_LOG: &str = "ERR CONFIG SET failed (possibly related to argument 'dir') - cannot \
                            change dir while appendonly is yes; set appendonly to no first";

pub(super) const CONFIG_HELP: &[&str] = &[
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
    "HELP",
    "    Print this help.",
];
