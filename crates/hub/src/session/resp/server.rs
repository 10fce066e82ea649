//! Commands about the server, and those of parts that it does not have.

use tidewire_keyspace::SessionCommand;

use super::{Call, State, functions, scripting, slow};
use crate::session::resp::parameters::REDIS_VERSION;

impl State {
    /// The commands of this file and of those that it leads to.
    pub(super) fn run_server(&mut self, call: &mut Call<'_>, command: SessionCommand) {
        use SessionCommand as Name;
        match command {
            Name::ConfigRewrite => self.config_rewrite(call, false),
            Name::Debug => self.debug(call),
            Name::ClientCaching => self.client_caching(call),
            Name::ClientGetRedir => self.client_get_redirect(call),
            Name::ClientTracking => self.client_tracking(call),
            Name::ClientTrackingInfo => self.client_tracking_info(call),
            Name::FunctionDelete => self.function_delete(call),
            Name::FunctionDump => self.function_dump(call),
            Name::FunctionFlush => self.function_flush(call),
            Name::FunctionHelp => self.help(call, functions::HELP),
            Name::FunctionKill => self.script_kill(call, true),
            Name::FunctionList => self.function_list(call),
            Name::FunctionLoad => self.function_load(call),
            Name::FunctionRestore => self.function_restore(call),
            Name::FunctionStats => self.function_stats(call),
            Name::ScriptExists => self.script_exists(call),
            Name::ScriptFlush => self.script_flush(call),
            Name::ScriptHelp => self.help(call, scripting::HELP),
            Name::ScriptKill => self.script_kill(call, false),
            Name::ScriptLoad => self.script_load(call),
            Name::ModuleList => self.reply(call.context, |reply| reply.array(0)),
            Name::Monitor => self.monitor(call),
            Name::TidewireTop => self.top(call),
            Name::SlowlogGet => self.slowlog_get(call),
            Name::SlowlogLen => self.slowlog_len(call),
            Name::SlowlogReset => self.slowlog_reset(call),
            Name::SlowlogHelp => self.help(call, slow::SLOWLOG_HELP),
            Name::MemoryPurge => self.memory_purge(call),
            Name::LatencyLatest => self.latency_latest(call),
            Name::LatencyHistory => self.latency_history(call),
            Name::LatencyReset => self.latency_reset(call),
            Name::LatencyDoctor => self.latency_doctor(call),
            Name::LatencyGraph => self.latency_graph(call),
            Name::LatencyHelp => self.help(call, slow::LATENCY_HELP),
            Name::LatencyHistogram => self.latency_histogram(call),
            Name::MemoryDoctor => self.memory_doctor(call),
            Name::MemoryHelp => self.help(call, MEMORY_HELP),
            Name::MemoryMallocStats => self.memory_malloc_stats(call),
            Name::MemoryStats => self.memory_stats(call),
            Name::ModuleHelp => self.help(call, MODULE_HELP),
            _ => self.run_server_itself(call, command),
        }
    }

    fn run_server_itself(&mut self, call: &mut Call<'_>, command: SessionCommand) {
        use SessionCommand as Name;
        match command {
            Name::Role => self.role(call),
            Name::ReplicaOf => self.replica_of(call),
            Name::Failover => self.fail_over(call),
            Name::LastSave => self.last_save(call),
            Name::Save => self.save(call),
            Name::BgSave => self.background_save(call),
            Name::BgRewriteAof => self.background_rewrite(call),
            Name::Shutdown => self.shutdown(call),
            Name::Lolwut => {
                let version = env!("CARGO_PKG_VERSION");
                let text = format!("{WAVES}Tidewire {version}, as Redis ver. {REDIS_VERSION}\n");
                self.text(call, &text);
            }
            Name::Cluster => self.refuse(call, NO_CLUSTER),
            Name::Migrate => self.migrate(call),
            Name::ModuleLoad => self.refuse(call, NO_MODULE),
            Name::ModuleUnload => self.refuse(call, NO_SUCH_MODULE),
            Name::ScriptDebug => self.script_debug(call),
            _ if self.run_acl(call, command) => {}
            _ => self.refuse(call, "ERR this command is not available on this server"),
        }
    }

    pub(super) fn text(&self, call: &mut Call<'_>, text: &str) {
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }
}

const WAVES: &str = "  ~^~    ~^~~     ~^~\n~^   ~^~~    ~~^~~   ~\n   ~~    ~^~     ~~^~\n\n";

const MEMORY_HELP: &[&str] = &[
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Return memory problems reports.",
    "MALLOC-STATS",
    "    Return internal statistics report from the memory allocator.",
    "PURGE",
    "    Attempt to purge dirty pages for reclamation by the allocator.",
    "STATS",
    "    Return information about the memory usage of the server.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).",
    "HELP",
    "    Print this help.",
];

const MODULE_HELP: &[&str] = &[
    "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LIST",
    "    Return a list of loaded modules.",
    "HELP",
    "    Print this help.",
];

const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";
const NO_MODULE: &str = "ERR Error loading the extension. Please check the server logs.";
const NO_SUCH_MODULE: &str = "ERR Error unloading module: no such module with that name";
