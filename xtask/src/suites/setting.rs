//! The environment of all suites: programs, sources, and servers on the ports that their tests
//! expect.

use crate::arguments::Arguments;
use crate::conformance::copy_folder;
use crate::libzmq::absolute;
use crate::server::{Kind, Server, build};
use crate::shell::{Failure, Program, Shell};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// The server or library that a suite runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Rival,
    Tidewire,
}

/// The options of the command line and everything derived from them.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) shell: Shell,
    /// The folder where suites are built and results are stored.
    pub(super) work: PathBuf,
    pub(super) lanes: u16,
    pub(super) redis: PathBuf,
    pub(super) tidewire: PathBuf,
    sources: Option<PathBuf>,
}

impl Setting {
    pub(super) fn new(shell: Shell, mut arguments: Arguments) -> Result<Self, Failure> {
        let redis = arguments.value("--redis")?;
        let redis = redis.unwrap_or_else(|| "redis-server".into());
        let lanes = arguments.number("--lanes", LANES)?;
        let folder = |value: Option<String>| value.map(|path| absolute(Path::new(&path)));
        let sources = folder(arguments.value("--sources")?).transpose()?;
        let binary = arguments.value("--binary")?;
        arguments.end()?;
        let tidewire = match binary {
            Some(path) => absolute(Path::new(&path))?,
            None => build(&shell)?,
        };
        let redis = if redis.contains('/') {
            absolute(Path::new(&redis))?
        } else {
            redis.into()
        };
        let work = shell.target().join("suites");
        fs::create_dir_all(&work).map_err(Failure::at(&work))?;
        Ok(Self {
            shell,
            work,
            lanes,
            redis,
            tidewire,
            sources,
        })
    }

    /// Returns `Redis 8.0.6`, from `redis-server --version`.
    pub(super) fn redis_version(&self) -> Result<String, Failure> {
        let text = self.shell.program(&self.redis, ["--version"]).read()?;
        let version = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix("v="));
        Ok(format!("Redis {}", version.unwrap_or("of unknown version")))
    }

    /// Returns the sources `NAME-VERSION`, copied from `--sources` or cloned.
    pub(super) fn source(&self, name: &str, tag: &str, url: &str) -> Result<PathBuf, Failure> {
        source(
            &self.shell,
            &self.work,
            self.sources.as_deref(),
            name,
            [tag, url],
        )
    }

    /// Returns the read-only folder of a Go module's sources.
    pub(super) fn go_module(&self, module: &str) -> Result<PathBuf, Failure> {
        go_module(&self.shell, &self.work, module)
    }

    /// Starts a server of this side on the port that the tests expect.
    pub(super) fn server(&self, side: Side, port: u16) -> Result<Server, Failure> {
        self.server_with(side, port, &[])
    }

    /// Works like `server`, with additional redis.conf parameters.
    pub(super) fn server_with(
        &self,
        side: Side,
        port: u16,
        parameters: &[String],
    ) -> Result<Server, Failure> {
        let (kind, mark) = match side {
            Side::Rival => (Kind::redis(&self.redis), None),
            Side::Tidewire => (self.tidewire(), Some("--".to_owned())),
        };
        is_free(port)?;
        let mut more: Vec<String> = mark.into_iter().collect();
        more.extend(["--save".to_owned(), String::new()]);
        more.extend_from_slice(parameters);
        Server::start_at(&kind, port, &self.folder(&format!("server-{port}"))?, &more)
    }

    /// Returns Tidewire's options when the tests set the rest.
    pub(super) fn options_beside_conf(&self) -> Vec<String> {
        self.tidewire().options_beside_conf()
    }

    fn tidewire(&self) -> Kind {
        Kind::tidewire(&self.tidewire, self.lanes)
    }

    /// Returns an empty folder with this name in the work folder.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = self.work.join(name);
        if folder.is_dir() {
            fs::remove_dir_all(&folder).map_err(Failure::at(&folder))?;
        }
        fs::create_dir_all(&folder).map_err(Failure::at(&folder))?;
        Ok(folder)
    }

    /// Runs a suite with its output in a file next to its results. Returns the output.
    pub(super) fn logged(&self, name: &str, side: Side, run: Program) -> Result<String, Failure> {
        logged(&self.work, name, side, run)
    }
}

/// Returns the sources `NAME-VERSION` in the folder `work`: they are copied from `sources`, or the
/// tag is cloned.
pub(super) fn source(
    shell: &Shell,
    work: &Path,
    sources: Option<&Path>,
    name: &str,
    [tag, url]: [&str; 2],
) -> Result<PathBuf, Failure> {
    let place = work.join(name);
    if place.is_dir() {
        return Ok(place);
    }
    let new = work.join("new");
    if new.is_dir() {
        fs::remove_dir_all(&new).map_err(Failure::at(&new))?;
    }
    if let Some(sources) = sources {
        let from = sources.join(name);
        if !from.is_dir() {
            return Err(Failure::new(format!(
                "--sources: no folder {}; unpack {tag} of {url} there",
                from.display()
            )));
        }
        copy_folder(&from, &new).map_err(Failure::at(&from))?;
    } else {
        let clone = ["clone", "--quiet", "--depth", "1", "--branch", tag, url];
        shell.program("git", clone).argument(&new).run()?;
    }
    fs::rename(&new, &place).map_err(Failure::at(&place))?;
    Ok(place)
}

/// Returns the read-only folder of a Go module's sources.
pub(super) fn go_module(shell: &Shell, work: &Path, module: &str) -> Result<PathBuf, Failure> {
    let download = ["mod", "download", "-json", module];
    let text = shell.program("go", download).folder(work).read()?;
    let told: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("go mod download {module}: {error}")))?;
    let folder = told.get("Dir").and_then(serde_json::Value::as_str);
    let missing = || Failure::new(format!("go mod download {module}: no folder"));
    folder.map(PathBuf::from).ok_or_else(missing)
}

impl super::Workplace for Setting {
    fn root(&self) -> &Path {
        self.shell.root()
    }

    fn work(&self) -> &Path {
        &self.work
    }
}

/// Returns an error with instructions if a port is in use.
pub(super) fn is_free(port: u16) -> Result<(), Failure> {
    if TcpListener::bind(("127.0.0.1", port)).is_ok() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "port {port}, which the tests expect, is in use: stop that server, or run the command in a \
         network of its own: unshare (see CONTRIBUTING.md)"
    )))
}

/// Runs a suite with its output in a file of the folder `work`. Returns the output.
pub(super) fn logged(work: &Path, name: &str, side: Side, run: Program) -> Result<String, Failure> {
    let place = work.join(format!("{name}-{side:?}.log").to_lowercase());
    // The exit code says nothing beyond the outcomes of the tests.
    run.log(&place)?;
    read(&place)
}

pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let text = fs::read(path).map_err(Failure::at(path))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Two lanes find what one cannot.
const LANES: u16 = 2;
