//! Commands about the server, and those of parts that it does not have.

use super::{Call, State};
use crate::REDIS_VERSION;

impl State {
    pub(super) fn lolwut(&mut self, call: &mut Call<'_>) {
        let version = env!("CARGO_PKG_VERSION");
        let text = format!("{WAVES}Tidewire {version}, as Redis ver. {REDIS_VERSION}\n");
        self.text(call, &text);
    }

    pub(super) fn text(&self, call: &mut Call<'_>, text: &str) {
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }
}

const WAVES: &str = "  ~^~    ~^~~     ~^~\n~^   ~^~~    ~~^~~   ~\n   ~~    ~^~     ~~^~\n\n";

pub(super) const MEMORY_HELP: &[&str] = &[
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

pub(super) const MODULE_HELP: &[&str] = &[
    "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LIST",
    "    Return a list of loaded modules.",
    "HELP",
    "    Print this help.",
];

pub(super) const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";
pub(super) const NO_MODULE: &str = "ERR Error loading the extension. Please check the server logs.";
pub(super) const NO_SUCH_MODULE: &str = "ERR Error unloading module: no such module with that name";
pub(super) const DEBUG_NOT_ALLOWED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is \
                           set to \"local\", you can run it from a local connection, otherwise \
                           you need to set this option in the configuration file, and then \
                           restart the server.";
