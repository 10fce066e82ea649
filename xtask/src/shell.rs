//! Running other programs from the project's root.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where programs run, and where cargo puts what it builds.
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

    /// Cargo's target folder.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    pub(crate) fn cargo<const N: usize>(&self, arguments: [&str; N]) -> Program {
        self.program(&self.cargo, arguments)
    }

    /// A program that reads nothing and runs at the root.
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

/// A program about to run.
#[derive(Debug)]
pub(crate) struct Program(Command);

/// What a program printed on its standard output, and whether it was content.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) text: String,
    /// `None` where a signal ended it.
    pub(crate) code: Option<i32>,
}

impl Program {
    pub(crate) fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.arg(argument);
        self
    }

    /// Runs it in this folder, not at the root.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs it with its output shown as it comes.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        let status = self.0.status().map_err(|error| self.failure(&error))?;
        if status.success() {
            Ok(())
        } else {
            Err(self.failure(&status))
        }
    }

    /// Runs it, shows its output as it comes and keeps the standard output.
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
        // The other side may have closed our output; the count at the end matters more.
        let _ = std::io::stdout().flush();
        let status = child.wait().map_err(|error| self.failure(&error))?;
        Ok(Output {
            text,
            code: status.code(),
        })
    }

    /// Runs it unseen and returns its standard output if it was content.
    pub(crate) fn read(mut self) -> Result<String, Failure> {
        let output = self.0.output().map_err(|error| self.failure(&error))?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            return Err(self.failure(&format!("{}\n{}", output.status, told.trim_end())));
        }
        String::from_utf8(output.stdout).map_err(|error| self.failure(&error))
    }

    /// Runs it with all that it tells in a file; whether it was content.
    pub(crate) fn log(mut self, path: &Path) -> Result<bool, Failure> {
        let mut run = || -> std::io::Result<bool> {
            let file = std::fs::File::create(path)?;
            self.0.stdout(file.try_clone()?).stderr(file);
            Ok(self.0.status()?.success())
        };
        let result = run();
        result.map_err(|error| self.failure(&error))
    }

    /// Whether it can be run and is content. Unseen.
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

/// Why a chore failed, for people.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Turns an error into a failure that names a file or folder.
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
