//! Runs other programs from the project's root.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder where programs run, and cargo's target folder.
#[derive(Debug)]
pub(crate) struct Shell {
    root: PathBuf,
    target: PathBuf,
    cargo: OsString,
}

impl Shell {
    pub(crate) fn new(root: &Path) -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        Self {
            root: root.to_path_buf(),
            target: root.join(target),
            cargo: std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns cargo's target folder.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    pub(crate) fn cargo<const N: usize>(&self, arguments: [&str; N]) -> Program {
        self.program(&self.cargo, arguments)
    }

    /// Returns a program that runs at the root and reads no input.
    pub(crate) fn program<const N: usize>(
        &self,
        name: impl AsRef<OsStr>,
        arguments: [&str; N],
    ) -> Program {
        let mut command = Command::new(name);
        command
            .args(arguments)
            .current_dir(&self.root)
            .stdin(Stdio::null());
        Program(command)
    }
}

/// A program to run.
#[derive(Debug)]
pub(crate) struct Program(Command);

/// A program's standard output, and whether it succeeded.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) text: String,
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
}

impl Program {
    pub(crate) fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.arg(argument);
        self
    }

    /// Runs it in this folder instead of the root.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs it and shows its output as it comes.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        let status = self.0.status().map_err(|error| self.failure(&error))?;
        if status.success() {
            Ok(())
        } else {
            Err(self.failure(&status))
        }
    }

    /// Runs it, shows its output as it comes and keeps standard output.
    pub(crate) fn capture(mut self) -> Result<Output, Failure> {
        let mut child = self
            .0
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| self.failure(&error))?;
        let mut text = String::new();
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                println!("{line}");
                text.push_str(&line);
                text.push('\n');
            }
        }
        // The reader may have closed our output; the count at the end matters more.
        let _ = std::io::stdout().flush();
        let status = child.wait().map_err(|error| self.failure(&error))?;
        Ok(Output {
            text,
            code: status.code(),
        })
    }

    /// Runs it without showing output. Returns its standard output if it succeeds.
    pub(crate) fn read(mut self) -> Result<String, Failure> {
        let output = self.0.output().map_err(|error| self.failure(&error))?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            return Err(self.failure(&format!("{}\n{}", output.status, told.trim_end())));
        }
        String::from_utf8(output.stdout).map_err(|error| self.failure(&error))
    }

    /// Runs it with all output in a file. Returns whether it succeeded.
    pub(crate) fn log(mut self, path: &Path) -> Result<bool, Failure> {
        let mut run = || -> std::io::Result<bool> {
            let file = std::fs::File::create(path)?;
            self.0.stdout(file.try_clone()?).stderr(file);
            Ok(self.0.status()?.success())
        };
        let result = run();
        result.map_err(|error| self.failure(&error))
    }

    /// Returns whether it can be run and succeeds. Shows no output.
    pub(crate) fn succeeds(mut self) -> bool {
        self.0.output().is_ok_and(|output| output.status.success())
    }

    fn failure(&self, reason: &impl fmt::Display) -> Failure {
        let mut line = self.0.get_program().to_string_lossy().into_owned();
        for argument in self.0.get_args() {
            line.push(' ');
            line.push_str(&argument.to_string_lossy());
        }
        Failure::new(format!("`{line}`: {reason}"))
    }
}

/// The reason why a chore failed, as a message.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Returns a function that turns an error into a failure about a file or folder.
    pub(crate) fn at<E: fmt::Display>(path: &Path) -> impl Fn(E) -> Self + Copy {
        move |error| Self::new(format!("{}: {error}", path.display()))
    }

    pub(crate) fn of_step(self, step: &str) -> Self {
        Self(format!("{step} failed: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
