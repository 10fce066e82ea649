//! Tests of the console and of its JavaScript client: Node's runner and a headless Chromium.

use crate::clients::parse_tap;
use crate::counts::Counts;
use crate::python;
use crate::server;
use crate::shell::{Failure, Shell};

/// Runs `tests/web` against the program. Without Node or Chromium these tests are skipped,
/// and the output says so.
pub(crate) fn run(shell: &Shell, counts: &mut Counts) -> Result<(), Failure> {
    client(shell, counts)?;
    install_chromium(shell);
    let requirements = shell.root().join("tests/python/requirements.txt");
    let python = python::environment(shell, &requirements)?;
    let binary = server::build_checked(shell)?;
    let arguments = [
        "-m",
        "pytest",
        "tests/web",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "--timeout=240",
    ];
    let pytest = shell
        .program(python, arguments)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TIDEWIRE_BINARY", binary);
    counts.pytest(&pytest.capture()?)
}

/// Runs the unit tests of the scripts.
fn client(shell: &Shell, counts: &mut Counts) -> Result<(), Failure> {
    if !shell.program("node", ["--version"]).succeeds() {
        println!("node is absent: the tests of tidewire.js are skipped");
        return Ok(());
    }
    let arguments = [
        "--test",
        "--test-reporter=tap",
        "tests/web/client.test.mjs",
        "tests/web/console.test.mjs",
    ];
    let output = shell.program("node", arguments).capture()?;
    counts.add(parse_tap(&output.text), &output, "node --test")
}

/// Installs Debian's Chromium where this user may. The tests say themselves that it is absent.
fn install_chromium(shell: &Shell) {
    let is_there = std::env::var_os("TIDEWIRE_CHROMIUM").is_some()
        || shell.program("chromium", ["--version"]).succeeds();
    if is_there || !rustix::process::geteuid().is_root() {
        return;
    }
    println!("installing chromium");
    let arguments = [
        "install",
        "--yes",
        "--quiet",
        "--no-install-recommends",
        "chromium",
    ];
    if !shell.program("apt-get", arguments).succeeds() {
        println!("chromium cannot be installed: the tests in a browser are skipped");
    }
}
