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
    step("black-box tests", || python::run(&shell, counts))?;
    step("console", || web::run(&shell, counts))?;
    step("other people's clients", || clients::run(&shell, counts))?;
    step("linearizable", || linearizable::short(&shell))?;
    step("live topics", || live::short(&shell))?;
    step("model", || model::short(&shell))
}

fn step(name: &str, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    println!("\n=== {name} ===");
    let begin = Instant::now();
    work().map_err(|failure| failure.of_step(name))?;
    println!("=== {name}: ok, {} s ===", begin.elapsed().as_secs());
    Ok(())
}
