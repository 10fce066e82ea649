//! `cargo xtask cluster`: three NATS servers and three hubs on this machine. Shows what each hub
//! has, or breaks them in turn and compares them with an oracle.

use crate::arguments::Arguments;
use crate::python;
use crate::shell::{Failure, Program, Shell};
use std::path::{Path, PathBuf};

/// Runs `cluster` with the options of the command line.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut arguments = Arguments::new(arguments);
    let mut words = Vec::new();
    if arguments.flag("--test") {
        words.push("--test".to_owned());
    }
    for name in ["--seconds", "--seed", "--faults"] {
        if let Some(value) = arguments.value(name)? {
            words.extend([name.to_owned(), value]);
        }
    }
    let binary = arguments.value("--binary")?;
    arguments.end()?;
    let shell = Shell::new(root);
    let requirements = shell.root().join("tests/python/requirements.txt");
    let python = python::environment(&shell, &requirements)?;
    let binary = match binary {
        Some(binary) => PathBuf::from(binary),
        None => crate::server::build(&shell)?,
    };
    let script = shell
        .program(python, ["tests/cluster/cluster.py"])
        .env("TIDEWIRE_BINARY", &binary)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let add = |script: Program, word: &String| script.argument(word);
    words.iter().fold(script, add).run()
}
