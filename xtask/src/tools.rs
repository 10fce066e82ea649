//! Tools that the checks need: installed if possible, otherwise named.

use crate::shell::{Failure, Shell};

/// Installs missing tools.
pub(crate) fn install_missing(shell: &Shell) -> Result<(), Failure> {
    rust_components(shell)?;
    python(shell)?;
    if !shell.program("redis-server", ["--version"]).succeeds() {
        println!("redis-server is absent: tests that compare with it skip themselves");
        println!("  (Debian: apt-get install redis-server)");
    }
    Ok(())
}

fn rust_components(shell: &Shell) -> Result<(), Failure> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if shell.cargo([subcommand, "--version"]).succeeds() {
            continue;
        }
        println!("installing {component}");
        shell
            .program("rustup", ["component", "add", component])
            .run()?;
    }
    Ok(())
}

fn python(shell: &Shell) -> Result<(), Failure> {
    let works = || {
        shell
            .program("python3", ["-c", "import ensurepip, venv"])
            .succeeds()
    };
    if works() {
        return Ok(());
    }
    let is_root = shell
        .program("id", ["-u"])
        .read()
        .is_ok_and(|user| user.trim() == "0");
    if is_root && shell.program("apt-get", ["--version"]).succeeds() {
        println!("installing python3-venv");
        shell.program("apt-get", ["update", "-q"]).run()?;
        shell
            .program(
                "apt-get",
                [
                    "install",
                    "-q",
                    "-y",
                    "--no-install-recommends",
                    "python3-venv",
                ],
            )
            .env("DEBIAN_FRONTEND", "noninteractive")
            .run()?;
    }
    if works() {
        return Ok(());
    }
    Err(Failure::new(
        "python3 with venv is needed: install it (Debian: apt-get install python3-venv)",
    ))
}
