//! Runs other ZeroMQ implementations (libzmq through pyzmq and zeromq.js, JeroMQ and go-zeromq)
//! against our sockets in a separate process, and against the ports of a hub; and pyzmq with our
//! library, installed as a wheel: `tests/clients/zeromq`.

use super::{ClientTests, has_tools, parse_go, parse_java, parse_tap};
use crate::counts::Counts;
use crate::python;
use crate::server::{CHECKED, Kind, Server, free_port};
use crate::shell::{Failure, Program};
use crate::{libzmq, wheel};
use std::fs;
use std::path::PathBuf;

/// Runs the tests of every language whose tools are installed.
pub(super) fn run(run: &ClientTests, counts: &mut Counts) -> Result<(), Failure> {
    let ports = [free_port()?, free_port()?, free_port()?];
    let folder = run.work.join("zeromq");
    fs::create_dir_all(&folder).map_err(Failure::at(&folder))?;
    let hub = Kind::Hub {
        binary: run.binary.clone(),
        zmq: ports,
    };
    let _hub = Server::start(&hub, &folder)?;
    let target = run.shell.target().join(CHECKED);
    let tests = Tests {
        run,
        peer: target.join("examples/peer"),
        library: target.join("libzmq.so"),
        ports,
    };
    let languages: [(&str, &[[&str; 2]], Language<'_>); 5] = [
        ("zeromq/python", &[["python3", "--version"]], Tests::python),
        ("zeromq/wheel", &[["python3", "--version"]], Tests::wheel),
        (
            "zeromq/node",
            &[["node", "--version"], ["npm", "--version"]],
            Tests::node,
        ),
        ("zeromq/go", &[["go", "version"]], Tests::go),
        (
            "zeromq/java",
            &[["javac", "-version"], ["mvn", "--version"]],
            Tests::java,
        ),
    ];
    for (name, tools, language) in languages {
        if has_tools(&run.shell, name, tools) {
            println!("--- {name}");
            language(&tests, counts)?;
        }
    }
    Ok(())
}

type Language<'a> = fn(&Tests<'a>, &mut Counts) -> Result<(), Failure>;

/// The common parameters of all languages.
#[derive(Debug)]
struct Tests<'a> {
    run: &'a ClientTests,
    /// The program with our sockets.
    peer: PathBuf,
    /// Our library in place of libzmq.
    library: PathBuf,
    /// The hub's ports: PUB, PULL and ROUTER.
    ports: [u16; 3],
}

impl Tests<'_> {
    fn python(&self, counts: &mut Counts) -> Result<(), Failure> {
        let program = self.pytest("zeromq/python", TIMEOUT_S)?;
        counts.pytest(&program.capture()?)
    }

    /// Runs pyzmq from PyPI with our wheel, in the versions of `conftest.py`, each in its own
    /// environment.
    fn wheel(&self, counts: &mut Counts) -> Result<(), Failure> {
        let shell = &self.run.shell;
        let folder = self.run.work.join("zeromq/wheel");
        fs::create_dir_all(&folder).map_err(Failure::at(&folder))?;
        let prefix = libzmq::absolute(&folder.join("prefix"))?;
        libzmq::install_built(shell, &prefix, CHECKED)?;
        let wheel = wheel::pack(shell, &prefix.join("lib"), &folder)?;
        let program = self.pytest("zeromq/wheel", TIMEOUT_WITH_DOWNLOADS_S)?;
        let program = program.env("TIDEWIRE_WHEEL", wheel);
        let program = program.env("TIDEWIRE_WORK", libzmq::absolute(&folder)?);
        counts.pytest(&program.capture()?)
    }

    /// Returns pytest, to be run in a folder of the tests.
    fn pytest(&self, folder: &str, timeout_s: u32) -> Result<Program, Failure> {
        let shell = &self.run.shell;
        let requirements = shell.root().join("tests/python/requirements.txt");
        let python = python::environment(shell, &requirements)?;
        let program = shell
            .program(python, ["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .argument(format!("--timeout={timeout_s}"))
            .folder(&self.run.tests.join(folder))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(self.told(program))
    }

    fn node(&self, counts: &mut Counts) -> Result<(), Failure> {
        let folder = self.run.copy("zeromq/node")?;
        self.run.installed(&folder, "package-lock.json", || {
            let arguments = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
            let npm = self.run.shell.program("npm", arguments);
            npm.folder(&folder).run()
        })?;
        let arguments = ["--test", "--test-reporter=tap"];
        let program = self.run.shell.program("node", arguments).folder(&folder);
        let output = self.told(program).capture()?;
        counts.add(parse_tap(&output.text), &output, "node --test")
    }

    fn go(&self, counts: &mut Counts) -> Result<(), Failure> {
        let program = self
            .run
            .shell
            .program("go", ["test", "-count=1", "-v", "./..."])
            .folder(&self.run.tests.join("zeromq/go"))
            .env("GOFLAGS", "-mod=readonly");
        let output = self.told(program).capture()?;
        counts.add(parse_go(&output.text), &output, "go test")
    }

    fn java(&self, counts: &mut Counts) -> Result<(), Failure> {
        let folder = self.run.copy("zeromq/java")?;
        self.run.fetch_jars(&folder)?;
        let program = self.run.compile(&folder, "JeromqTest")?;
        let output = self.told(program).capture()?;
        counts.add(parse_java(&output.text), &output, "JeromqTest")
    }

    /// Sets the environment variables with all addresses.
    fn told(&self, program: Program) -> Program {
        let names = [
            "TIDEWIRE_ZMQ_PUB",
            "TIDEWIRE_ZMQ_PULL",
            "TIDEWIRE_ZMQ_ROUTER",
        ];
        let program = program
            .env("TIDEWIRE_ZMQ_PEER", &self.peer)
            .env("TIDEWIRE_LIBZMQ", &self.library);
        names
            .iter()
            .zip(self.ports)
            .fold(program, |program, (name, port)| {
                program.env(name, format!("tcp://127.0.0.1:{port}"))
            })
    }
}

/// A test that takes longer counts as hung.
const TIMEOUT_S: u32 = 60;
/// The first test of each environment installs it.
const TIMEOUT_WITH_DOWNLOADS_S: u32 = 300;
