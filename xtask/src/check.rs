//! `cargo xtask test`: runs the steps, those that fail fastest first.

use crate::counts::Counts;
use crate::shell::{Failure, Shell};
use crate::{clients, dependencies, linearizable, live, model, python, simulate, tidy, tools, web};
use std::path::Path;
use std::time::Instant;

/// Runs every step until one fails; `counts` then has the tests run so far.
pub(crate) fn run(root: &Path, counts: &mut Counts) -> Result<(), Failure> {
    let shell = Shell::new(root);
    step("tools", || tools::install_missing(&shell))?;
    step("format", || shell.cargo(["fmt", "--all", "--check"]).run())?;
    step("clippy", || {
        let arguments = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        shell.cargo(arguments).run()
    })?;
    step("tidy", || tidy::run(root))?;
    step("dependencies", || dependencies::run(root))?;
    step("tests", || {
        let arguments = ["test", "--workspace", "--no-fail-fast"];
        let tests = shell.cargo(arguments);
        let tests = tests.env("TIDEWIRE_NATS_SERVER", python::nats_server(&shell)?);
        counts.cargo(&tests.capture()?)
    })?;
    step("simulation", || simulate::short(&shell))?;
    step("loom model", || loom(&shell, counts))?;
    step("black-box tests", || python::run(&shell, counts))?;
    step("console", || web::run(&shell, counts))?;
    step("other people's clients", || clients::run(&shell, counts))?;
    step("linearizable", || linearizable::short(&shell))?;
    step("live topics", || live::short(&shell))?;
    step("model", || model::short(&shell))
}

/// Checks every order of events between threads; `docs/checks-of-threads.md` lists the models. They
/// have their own target folder, because the flag changes the build of every crate.
fn loom(shell: &Shell, counts: &mut Counts) -> Result<(), Failure> {
    let models = [
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
    for [package, kind, name] in models {
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

fn step(name: &str, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    println!("\n=== {name} ===");
    let begin = Instant::now();
    work().map_err(|failure| failure.of_step(name))?;
    println!("=== {name}: ok, {} s ===", begin.elapsed().as_secs());
    Ok(())
}
