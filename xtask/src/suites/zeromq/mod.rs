//! `cargo xtask conformance bindings`: the suites of ZeroMQ's bindings, with libzmq and with our
//! `libzmq.so.5` in its place.

mod cppzmq;
mod ctest;
mod czmq;
mod goczmq;
mod over_czmq;
mod pyzmq;
mod rust_zmq;
mod zmq4;

use super::setting::{Side, go_module, logged, source};
use super::{Group, Workplace};
use crate::arguments::Arguments;
use crate::libzmq::{absolute, has_development_files, install, profile};
use crate::shell::{Failure, Program, Shell};
use std::fs;
use std::path::{Path, PathBuf};

/// Runs the suites that the command line names, or all, and writes the page.
pub(crate) fn run(root: &Path, mut arguments: Arguments) -> Result<(), Failure> {
    let names = arguments.values("--suite")?;
    BINDINGS.check(&names)?;
    BINDINGS.run(&Bindings::new(root, arguments)?, &names)
}

/// The options of the command line and everything derived from them.
#[derive(Debug)]
struct Bindings {
    shell: Shell,
    work: PathBuf,
    /// A folder with libzmq's own `libzmq.so.5` and with `pkgconfig`, and a folder `include` beside
    /// it, unless the system's is used.
    stock: Option<PathBuf>,
    /// The prefix of our library.
    prefix: PathBuf,
    sources: Option<PathBuf>,
}

impl Bindings {
    fn new(root: &Path, mut arguments: Arguments) -> Result<Self, Failure> {
        let shell = Shell::new(root);
        let mut folder = |name| -> Result<Option<PathBuf>, Failure> {
            let value = arguments.value(name)?;
            value.map(|path| absolute(Path::new(&path))).transpose()
        };
        let [stock, prefix, sources] = [
            folder("--stock")?,
            folder("--prefix")?,
            folder("--sources")?,
        ];
        let profile = profile(&mut arguments)?;
        arguments.end()?;
        if let Some(stock) = &stock {
            has_development_files("--stock", stock)?;
        }
        if let Some(prefix) = &prefix {
            has_development_files("--prefix", &prefix.join("lib"))?;
        }
        let work = absolute(&shell.target().join("bindings"))?;
        fs::create_dir_all(&work).map_err(Failure::at(&work))?;
        let prefix = match prefix {
            Some(prefix) => prefix,
            None => {
                let prefix = work.join("prefix");
                install(&shell, &prefix, &profile)?;
                prefix
            }
        };
        Ok(Self {
            shell,
            work,
            stock,
            prefix,
            sources,
        })
    }

    /// Returns `libzmq 4.3.4`, from `pkg-config`.
    fn libzmq_version(&self) -> Result<String, Failure> {
        let program = self.shell.program("pkg-config", ["--modversion", "libzmq"]);
        let version = self.beside_stock(program).read()?;
        Ok(format!("libzmq {}", version.trim()))
    }

    /// Returns whether libzmq is built with its draft functions.
    fn has_drafts(&self) -> Result<bool, Failure> {
        let program = self.shell.program("pkg-config", ["--cflags", "libzmq"]);
        Ok(self.beside_stock(program).read()?.contains("DRAFT_API"))
    }

    /// Lets a program that builds something find libzmq's own header and library.
    fn beside_stock(&self, program: Program) -> Program {
        match &self.stock {
            Some(library) => program.env("PKG_CONFIG_PATH", library.join("pkgconfig")),
            None => program,
        }
    }

    /// Returns the folder of a side's `libzmq.so.5`, if it is not the system's.
    fn library(&self, side: Side) -> Option<PathBuf> {
        match side {
            Side::Rival => self.stock.clone(),
            Side::Tidewire => Some(self.prefix.join("lib")),
        }
    }

    /// Lets a program load a side's library.
    fn with(&self, side: Side, program: Program) -> Program {
        match self.library(side) {
            Some(library) => program.env("LD_LIBRARY_PATH", library),
            None => program,
        }
    }

    /// Returns the sources `NAME-VERSION`, copied from `--sources` or cloned.
    fn source(&self, name: &str, tag: &str, url: &str) -> Result<PathBuf, Failure> {
        let sources = self.sources.as_deref();
        source(&self.shell, &self.work, sources, name, [tag, url])
    }

    fn go_module(&self, module: &str) -> Result<PathBuf, Failure> {
        go_module(&self.shell, &self.work, module)
    }

    fn logged(&self, name: &str, side: Side, program: Program) -> Result<String, Failure> {
        logged(&self.work, name, side, program)
    }

    /// Runs CMake in `work/NAME`, and builds.
    fn cmake(&self, name: &str, source: &Path, options: &[&str]) -> Result<PathBuf, Failure> {
        let build = self.work.join(name);
        let mut program = self.shell.program("cmake", ["-S"]).argument(source);
        program = program.argument("-B").argument(&build);
        if let Some(prefix) = self.stock.as_deref().and_then(Path::parent) {
            program = program.argument(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        }
        for option in options {
            program = program.argument(option);
        }
        self.beside_stock(program).run()?;
        let program = self.shell.program("cmake", ["--build"]).argument(&build);
        program.argument("-j2").run()?;
        Ok(build)
    }
}

impl Workplace for Bindings {
    fn root(&self) -> &Path {
        self.shell.root()
    }

    fn work(&self) -> &Path {
        &self.work
    }
}

const BINDINGS: Group<Bindings> = Group {
    suites: &[
        pyzmq::PYZMQ_25,
        pyzmq::PYZMQ_26,
        pyzmq::PYZMQ_27,
        cppzmq::SUITE,
        czmq::SUITE,
        over_czmq::ZYRE,
        over_czmq::MALAMUTE,
        zmq4::SUITE,
        rust_zmq::SUITE,
        goczmq::SUITE,
    ],
    exceptions: "tests/conformance/bindings.toml",
    page: "docs/conformance-bindings.md",
    heading: |_| HEADING.to_owned(),
};

const HEADING: &str = "\
# Conformance with ZeroMQ's bindings

Test suites of ZeroMQ's bindings, unchanged: first with libzmq, then with Tidewire's `libzmq.so.5` in its place.
Except for zmq4, whose code compares the versions of header and library, a suite is compiled once, against libzmq.
pyzmq comes from PyPI; the wheel `tidewire-libzmq` puts the library in place. libzmq's own tests are on
[another page](conformance-zmq.md). This page is made by

```sh
cargo xtask conformance bindings --stock PREFIX/lib --sources FOLDER
```

Not run: the tests of zeromq.js, which its package leaves out (`tests/clients/zeromq/node` runs zeromq.js against
Tidewire's sockets). JeroMQ's tests have no part that another implementation could run in; `tests/clients/zeromq/java`
runs JeroMQ against Tidewire's sockets.

";
