//! `cargo xtask loom`: every order of events between threads, by the models of
//! `docs/checks-of-threads.md`.

use crate::counts::Counts;
use crate::shell::{Failure, Shell};

/// The package of each model, and how its test is named.
const MODELS: [[&str; 3]; 9] = [
    ["tidewire-lastvalue", "--test", "loom"],
    ["tidewire-keyspace", "--lib", "lock::"],
    ["tidewire-lane", "--lib", "model::"],
    ["tidewire-fanout", "--lib", "model::"],
    ["tidewire-plant", "--lib", "model::"],
    ["tidewire-market", "--lib", "model::"],
    ["tidewire-rings", "--lib", "model::"],
    ["tidewire-zmq", "--lib", "model::"],
    ["tidewire-redis", "--lib", "model::"],
];

/// Runs all models. They have their own target folder, because loom's flag changes the build of
/// every crate: that build alone takes longer than the models.
pub(crate) fn run(shell: &Shell, counts: &mut Counts) -> Result<(), Failure> {
    for [package, kind, name] in MODELS {
        // Without debug assertions: these keep thread-local state, which loom's threads share.
        let command = shell
            .cargo(["test", "--release", "-p", package, kind, name])
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_TARGET_DIR", shell.target().join("loom"))
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        counts.cargo(&command.capture()?)?;
    }
    Ok(())
}
