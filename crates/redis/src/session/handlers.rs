//! Which method of the session runs which command. What else there is to say of a command stands
//! in its record (`keyspace/src/commands/table`).

use tidewire_keyspace::commands::table;
use tidewire_keyspace::{Command, Flags, Group, ShardSet};

use super::scripting::ScriptCommand;
use super::{Call, State};
use super::{acl, client, fixed, functions, hot_keys, parameters, pubsub, scripting, slow};
use crate::live::LiveObserver;
use tidewire_fanout::Kind;
use tidewire_fanout::Origin;

/// Runs a command of a session, and replies.
type Handler = fn(&mut State, &mut Call<'_>);

impl State {
    /// Runs a command that the session runs.
    pub(super) fn run_session(&mut self, call: &mut Call<'_>, command: &'static Command) {
        if let Some(script) = ScriptCommand::of(command) {
            return self.run_script_alone(call, script);
        }
        let handler = BY_NUMBER.get(usize::from(command.number)).copied();
        match handler.flatten() {
            Some(handler) if command.has(Flags::CHANGES_LIBRARIES) && !self.is_executing => {
                self.change_libraries(call, handler);
            }
            Some(handler) => handler(self, call),
            None => {
                debug_assert!(false, "{} has no handler", command.full_name);
                self.refuse(call, "ERR this command is not available on this server");
            }
        }
    }

    /// Changes libraries of functions with every shard locked: a snapshot has the change, or the
    /// stream behind it does.
    fn change_libraries(&mut self, call: &mut Call<'_>, handler: Handler) {
        let server = call.server;
        debug_assert!(
            server.scripting.is_running(),
            "the turn comes before the locks"
        );
        let locked = server.keyspace.lock(ShardSet::all());
        handler(self, call);
        let now_ms = call.now_ms();
        server
            .keyspace
            .release(locked, now_ms, &mut LiveObserver(server));
    }
}

#[rustfmt::skip]
const HANDLERS: &[(&str, Handler)] = &[
    ("migrate", |state, call| state.migrate(call)),
    ("ping", |state, call| state.ping(call)),
    ("echo", |state, call| state.echo(call)),
    ("hello", |state, call| state.hello(call)),
    ("auth", |state, call| state.auth(call)),
    ("select", |state, call| state.select(call)),
    ("quit", |state, call| state.quit(call)),
    ("reset", |state, call| state.reset(call)),
    ("client|capa", |state, call| state.client_capa(call)),
    ("client|getname", |state, call| state.client_get_name(call)),
    ("client|help", |state, call| state.help(call, client::CLIENT_HELP)),
    ("client|id", |state, call| state.client_id(call)),
    ("client|info", |state, call| state.client_info(call)),
    ("client|kill", |state, call| state.client_kill(call)),
    ("client|list", |state, call| state.client_list(call)),
    ("client|no-evict", |state, call| state.client_switch(call)),
    ("client|no-touch", |state, call| state.client_switch(call)),
    ("client|pause", |state, call| state.client_pause(call)),
    ("client|reply", |state, call| state.client_reply(call)),
    ("client|setinfo", |state, call| state.client_set_info(call)),
    ("client|setname", |state, call| state.client_set_name(call)),
    ("client|unpause", |state, call| state.client_unpause(call)),
    ("client|caching", |state, call| state.client_caching(call)),
    ("client|getredir", |state, call| state.client_get_redirect(call)),
    ("client|tracking", |state, call| state.client_tracking(call)),
    ("client|trackinginfo", |state, call| state.client_tracking_info(call)),
    ("client|unblock", |state, call| state.client_unblock(call)),
    ("subscribe", |state, call| state.subscribe(call, Kind::Channel)),
    ("unsubscribe", |state, call| state.unsubscribe(call, Kind::Channel)),
    ("psubscribe", |state, call| state.subscribe(call, Kind::Pattern)),
    ("punsubscribe", |state, call| state.unsubscribe(call, Kind::Pattern)),
    ("publish", |state, call| state.publish(call, Origin::Channel)),
    ("pubsub|channels", |state, call| state.pubsub_channels(call, Kind::Channel)),
    ("pubsub|help", |state, call| state.help(call, pubsub::PUBSUB_HELP)),
    ("pubsub|numpat", |state, call| state.pubsub_num_pat(call)),
    ("pubsub|numsub", |state, call| state.pubsub_num_sub(call, Kind::Channel)),
    ("pubsub|shardchannels", |state, call| state.pubsub_channels(call, Kind::Shard)),
    ("pubsub|shardnumsub", |state, call| state.pubsub_num_sub(call, Kind::Shard)),
    ("ssubscribe", |state, call| state.subscribe(call, Kind::Shard)),
    ("sunsubscribe", |state, call| state.unsubscribe(call, Kind::Shard)),
    ("spublish", |state, call| state.publish(call, Origin::Shard)),
    ("function|delete", |state, call| state.function_delete(call)),
    ("function|dump", |state, call| state.function_dump(call)),
    ("function|flush", |state, call| state.function_flush(call)),
    ("function|help", |state, call| state.help(call, functions::HELP)),
    ("function|kill", |state, call| state.script_kill(call, true)),
    ("function|list", |state, call| state.function_list(call)),
    ("function|load", |state, call| state.function_load(call)),
    ("function|restore", |state, call| state.function_restore(call)),
    ("function|stats", |state, call| state.function_stats(call)),
    ("script|debug", |state, call| state.script_debug(call)),
    ("script|exists", |state, call| state.script_exists(call)),
    ("script|flush", |state, call| state.script_flush(call)),
    ("script|help", |state, call| state.help(call, scripting::HELP)),
    ("script|kill", |state, call| state.script_kill(call, false)),
    ("script|load", |state, call| state.script_load(call)),
    ("config|get", |state, call| state.config_get(call)),
    ("config|help", |state, call| state.help(call, parameters::CONFIG_HELP)),
    ("config|resetstat", |state, call| state.config_reset_stat(call)),
    ("config|rewrite", |state, call| state.config_rewrite(call, false)),
    ("config|set", |state, call| state.config_set(call)),
    ("hotkeys|get", |state, call| state.hot_keys_get(call)),
    ("hotkeys|help", |state, call| state.help(call, hot_keys::HELP)),
    ("hotkeys|reset", |state, call| state.hot_keys_reset(call)),
    ("hotkeys|start", |state, call| state.hot_keys_start(call)),
    ("hotkeys|stop", |state, call| state.hot_keys_stop(call)),
    ("info", |state, call| state.info(call)),
    ("shutdown", |state, call| state.shutdown(call)),
    ("debug", |state, call| state.debug(call)),
    ("acl|cat", |state, call| state.acl_cat(call)),
    ("acl|deluser", |state, call| state.acl_del_user(call)),
    ("acl|dryrun", |state, call| state.acl_dry_run(call)),
    ("acl|genpass", |state, call| state.acl_gen_pass(call)),
    ("acl|getuser", |state, call| state.acl_get_user(call)),
    ("acl|help", |state, call| state.help(call, acl::HELP)),
    ("acl|list", |state, call| state.acl_list(call)),
    ("acl|load", |state, call| state.acl_load(call)),
    ("acl|log", |state, call| state.acl_log(call)),
    ("acl|save", |state, call| state.acl_save(call)),
    ("acl|setuser", |state, call| state.acl_set_user(call)),
    ("acl|users", |state, call| state.acl_users(call)),
    ("acl|whoami", |state, call| state.acl_who_am_i(call)),
    ("memory|doctor", |state, call| state.memory_doctor(call)),
    ("memory|help", |state, call| state.help(call, fixed::MEMORY_HELP)),
    ("memory|malloc-stats", |state, call| state.memory_malloc_stats(call)),
    ("memory|purge", |state, call| state.memory_purge(call)),
    ("memory|stats", |state, call| state.memory_stats(call)),
    ("latency|doctor", |state, call| state.latency_doctor(call)),
    ("latency|graph", |state, call| state.latency_graph(call)),
    ("latency|help", |state, call| state.help(call, slow::LATENCY_HELP)),
    ("latency|histogram", |state, call| state.latency_histogram(call)),
    ("latency|history", |state, call| state.latency_history(call)),
    ("latency|latest", |state, call| state.latency_latest(call)),
    ("latency|reset", |state, call| state.latency_reset(call)),
    ("commandlog|get", |state, call| state.commandlog_get(call)),
    ("commandlog|help", |state, call| state.help(call, slow::COMMANDLOG_HELP)),
    ("commandlog|len", |state, call| state.commandlog_len(call)),
    ("commandlog|reset", |state, call| state.commandlog_reset(call)),
    ("slowlog|get", |state, call| state.slowlog_get(call)),
    ("slowlog|help", |state, call| state.help(call, slow::SLOWLOG_HELP)),
    ("slowlog|len", |state, call| state.slowlog_len(call)),
    ("slowlog|reset", |state, call| state.slowlog_reset(call)),
    ("monitor", |state, call| state.monitor(call)),
    ("tidewire.book", |state, call| state.book(call)),
    ("tidewire.keys", |state, call| state.quorum_keys(call)),
    ("tidewire.top", |state, call| state.top(call)),
    ("module|help", |state, call| state.help(call, fixed::MODULE_HELP)),
    ("module|load", |state, call| state.refuse(call, fixed::NO_MODULE)),
    ("module|loadex", |state, call| state.refuse(call, fixed::NO_MODULE)),
    ("module|unload", |state, call| state.refuse(call, fixed::NO_SUCH_MODULE)),
    ("module|list", |state, call| state.reply(call.context, |reply| reply.array(0))),
    ("role", |state, call| state.role(call)),
    ("lastsave", |state, call| state.last_save(call)),
    ("save", |state, call| state.save(call)),
    ("bgsave", |state, call| state.background_save(call)),
    ("bgrewriteaof", |state, call| state.background_rewrite(call)),
    ("replicaof", |state, call| state.replica_of(call)),
    ("slaveof", |state, call| state.replica_of(call)),
    ("failover", |state, call| state.fail_over(call)),
    ("replconf", |state, call| state.replconf(call)),
    ("sync", |state, call| state.sync(call)),
    ("psync", |state, call| state.psync(call)),
    ("wait", |state, call| state.wait(call)),
    ("waitaof", |state, call| state.wait_aof(call)),
    ("lolwut", |state, call| state.lolwut(call)),
    ("multi", |state, call| state.multi(call)),
    ("exec", |state, call| state.exec(call)),
    ("discard", |state, call| state.discard(call)),
    ("watch", |state, call| state.watch(call)),
    ("unwatch", |state, call| state.unwatch(call)),
];

/// The handler of each command, by its number.
static BY_NUMBER: [Option<Handler>; table::COUNT] = assemble();

const fn assemble() -> [Option<Handler>; table::COUNT] {
    let commands = table::with_parts();
    let mut handlers: [Option<Handler>; table::COUNT] = [None; table::COUNT];
    let mut number = 0;
    while number < commands.len() {
        if matches!(commands[number].group, Group::Cluster) {
            handlers[number] = Some(|state, call| state.refuse(call, fixed::NO_CLUSTER));
        }
        number += 1;
    }
    let mut at = 0;
    while at < HANDLERS.len() {
        let (name, handler) = HANDLERS[at];
        handlers[table::number_of(name)] = Some(handler);
        at += 1;
    }
    handlers
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_keyspace::{Flags, Run};

    #[test]
    fn each_command_of_the_session_has_one_handler() {
        for (command, handler) in table::with_parts().iter().zip(&BY_NUMBER) {
            let is_of_session = matches!(command.run, Run::Session);
            let wants_one = is_of_session && !command.has(Flags::RUNS_SCRIPT);
            let name = command.full_name;
            assert!(
                handler.is_some() == wants_one || command.group == Group::Cluster,
                "{name}"
            );
            let named = HANDLERS.iter().filter(|(other, _)| *other == name).count();
            assert!(named <= 1, "{name}");
        }
    }
}
