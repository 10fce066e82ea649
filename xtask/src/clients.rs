//! Runs third-party clients in their own languages, and job queues built on them, against one
//! running server: `tests/clients`.

mod tls;
mod zeromq;

use self::tls::TlsServer;
use crate::counts::{Counts, number_before};
use crate::python;
use crate::server::{Kind, Server, build_checked};
use crate::shell::{Failure, Program, Shell};
use std::fs;
use std::path::{Path, PathBuf};

/// Runs the tests of every language whose tools are installed.
pub(crate) fn run(shell: &Shell, counts: &mut Counts) -> Result<(), Failure> {
    let binary = build_checked(shell)?;
    let work = shell.target().join("clients");
    fs::create_dir_all(&work).map_err(Failure::at(&work))?;
    let server = Server::start(&Kind::tidewire(&binary, LANES), &work)?;
    let tls = TlsServer::start(shell, &binary, &work)?;
    let run = ClientTests {
        shell: Shell::new(shell.root()),
        tests: shell.root().join("tests/clients"),
        work,
        binary,
        port: server.port().to_string(),
        tls,
    };
    let languages: [(&str, &[[&str; 2]], Language); 5] = [
        (
            "node",
            &[["node", "--version"], ["npm", "--version"]],
            ClientTests::node,
        ),
        ("go", &[["go", "version"]], ClientTests::go),
        (
            "java",
            &[["javac", "-version"], ["mvn", "--version"]],
            ClientTests::java,
        ),
        ("jobs", &[["python3", "--version"]], ClientTests::jobs),
        (
            "databento",
            &[["python3", "--version"]],
            ClientTests::databento,
        ),
    ];
    for (name, tools, language) in languages {
        if has_tools(shell, name, tools) {
            println!("--- {name}");
            language(&run, counts)?;
        }
    }
    drop(server);
    zeromq::run(&run, counts)
}

/// Returns whether all tools for a language's tests are installed, and prints those that are not.
fn has_tools(shell: &Shell, name: &str, tools: &[[&str; 2]]) -> bool {
    let missing = tools
        .iter()
        .find(|[tool, question]| !shell.program(tool, [question]).succeeds());
    if let Some([tool, _]) = missing {
        println!("{tool} is absent: the tests of tests/clients/{name} are skipped");
    }
    missing.is_none()
}

type Language = fn(&ClientTests, &mut Counts) -> Result<(), Failure>;

/// The common parameters of all languages.
#[derive(Debug)]
struct ClientTests {
    shell: Shell,
    /// The sources.
    tests: PathBuf,
    /// The folder where clients are installed and tests are built.
    work: PathBuf,
    /// The program, for tests that start their own server.
    binary: PathBuf,
    /// The server's port.
    port: String,
    /// Another server, for clients that speak TLS.
    tls: Option<TlsServer>,
}

impl ClientTests {
    /// Runs a program that tests a client: without TLS, then over TLS.
    fn both(
        &self,
        name: &str,
        program: impl Fn() -> Result<Program, Failure>,
        parse: impl Fn(&str) -> Counts,
        counts: &mut Counts,
    ) -> Result<(), Failure> {
        let output = program()?.env("TIDEWIRE_PORT", &self.port).capture()?;
        counts.add(parse(&output.text), &output, name)?;
        let Some(tls) = &self.tls else {
            return Ok(());
        };
        let program = program()?.env("TIDEWIRE_PORT", &tls.port);
        let output = program.env("TIDEWIRE_TLS_CA", &tls.authority).capture()?;
        counts.add(parse(&output.text), &output, &format!("{name} over TLS"))
    }

    /// Runs node-redis, ioredis and BullMQ, in the versions of the lock file.
    fn node(&self, counts: &mut Counts) -> Result<(), Failure> {
        let folder = self.copy("node")?;
        self.installed(&folder, "package-lock.json", || {
            let arguments = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
            self.shell.program("npm", arguments).folder(&folder).run()
        })?;
        let arguments = ["--test", "--test-reporter=tap"];
        let program = || Ok(self.shell.program("node", arguments).folder(&folder));
        self.both("node --test", program, parse_tap, counts)
    }

    /// Runs go-redis and asynq, in the versions of `go.sum`.
    fn go(&self, counts: &mut Counts) -> Result<(), Failure> {
        let (folder, arguments) = (self.tests.join("go"), ["test", "-count=1", "-v", "./..."]);
        let sentinel = self.sentinel()?;
        let program = || {
            let program = self.shell.program("go", arguments).folder(&folder);
            let program = program.env("GOFLAGS", "-mod=readonly");
            let program = program.env("TIDEWIRE_BINARY", &self.binary);
            Ok(match sentinel.as_str() {
                "" => program,
                sentinel => program.env("REDIS_SENTINEL", sentinel),
            })
        };
        self.both("go test", program, parse_go, counts)
    }

    /// Returns the Sentinel that the Python tests use; nothing if there is none.
    fn sentinel(&self) -> Result<String, Failure> {
        let tests = self.tests.join("../python");
        let python = python::environment(&self.shell, &tests.join("requirements.txt"))?;
        let arguments = [
            "-c",
            "import sentinels; print(sentinels.find_program() or '')",
        ];
        let program = self.shell.program(python, arguments).folder(&tests);
        let found = program.env("PYTHONDONTWRITEBYTECODE", "1").read()?;
        if found.trim().is_empty() {
            println!("there is no Redis Sentinel 8: go-redis's FailoverClient is not tested");
        }
        Ok(found.trim().to_owned())
    }

    /// Runs Jedis, Lettuce and Redisson, in the versions of `pom.xml`.
    fn java(&self, counts: &mut Counts) -> Result<(), Failure> {
        let folder = self.copy("java")?;
        self.fetch_jars(&folder)?;
        for test in ["JedisTest", "QueueTest"] {
            let program = || self.compile(&folder, test);
            self.both(test, program, parse_java, counts)?;
        }
        Ok(())
    }

    /// Downloads the dependencies of `pom.xml` into `jars`.
    fn fetch_jars(&self, folder: &Path) -> Result<(), Failure> {
        self.installed(folder, "pom.xml", || {
            let goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
            let arguments = ["--quiet", "--batch-mode", goal, "-DoutputDirectory=jars"];
            self.shell.program("mvn", arguments).folder(folder).run()
        })
    }

    /// Compiles a class of tests. Returns the program that runs it.
    fn compile(&self, folder: &Path, test: &str) -> Result<Program, Failure> {
        let arguments = [
            "-d",
            "classes",
            "-Xlint:-options",
            "-nowarn",
            "-sourcepath",
            ".",
            "-cp",
            "jars/*",
        ];
        self.shell
            .program("javac", arguments)
            .argument(format!("{test}.java"))
            .folder(folder)
            .run()?;
        let program = self.shell.program("java", ["-cp", "classes:jars/*", test]);
        Ok(program.folder(folder))
    }

    /// Runs RQ and Celery, in the versions of `requirements.txt`, in their own environment.
    fn jobs(&self, counts: &mut Counts) -> Result<(), Failure> {
        self.python("jobs", counts)
    }

    /// Runs Databento's live clients in Python and in Rust. The Python tests start the Rust one.
    fn databento(&self, counts: &mut Counts) -> Result<(), Failure> {
        let manifest = self.tests.join("databento/rust/Cargo.toml");
        let target = self.work.join("databento/rust");
        let arguments = ["build", "--quiet", "--locked", "--manifest-path"];
        let program = self.shell.program("cargo", arguments).argument(manifest);
        program.env("CARGO_TARGET_DIR", &target).run()?;
        let client = target.join("debug/databento-client");
        let data = std::env::var_os("TIDEWIRE_DATA")
            .map_or_else(|| self.tests.join("../../../shared/data"), PathBuf::from);
        let environment = [
            ("TIDEWIRE_DATABENTO_RUST", &*client),
            ("TIDEWIRE_DATA", &*data),
        ];
        self.python_with("databento", &environment, counts)
    }

    fn python(&self, language: &str, counts: &mut Counts) -> Result<(), Failure> {
        self.python_with(language, &[], counts)
    }

    /// Runs Python tests with additional environment variables.
    fn python_with(
        &self,
        language: &str,
        environment: &[(&str, &Path)],
        counts: &mut Counts,
    ) -> Result<(), Failure> {
        let folder = self.copy(language)?;
        let python = folder.join("venv/bin/python");
        self.installed(&folder, "requirements.txt", || {
            let arguments = ["-m", "venv", "--clear", "venv"];
            self.shell
                .program("python3", arguments)
                .folder(&folder)
                .run()?;
            let pip = ["-m", "pip", "install", "--quiet", "-r", "requirements.txt"];
            self.shell.program(&python, pip).folder(&folder).run()
        })?;
        let program = self
            .shell
            .program(&python, ["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .argument(format!("--timeout={JOBS_TIMEOUT_S}"))
            .folder(&folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TIDEWIRE_BINARY", &self.binary)
            .env("TIDEWIRE_PORT", &self.port);
        let program = environment
            .iter()
            .fold(program, |program, (name, value)| program.env(name, value));
        counts.pytest(&program.capture()?)
    }

    /// Copies a language's sources to the folder where they are built.
    fn copy(&self, language: &str) -> Result<PathBuf, Failure> {
        let (from, to) = (self.tests.join(language), self.work.join(language));
        fs::create_dir_all(&to).map_err(Failure::at(&to))?;
        let entries = fs::read_dir(&from).map_err(Failure::at(&from))?;
        for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
            let path = entry.path();
            fs::copy(&path, to.join(entry.file_name())).map_err(Failure::at(&path))?;
        }
        Ok(to)
    }

    /// Installs the packages of `list`, unless they are installed already.
    fn installed(
        &self,
        folder: &Path,
        list: &str,
        install: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let stamp = "installed.txt";
        if read(stamp) == read(list) {
            return Ok(());
        }
        println!("installing what tests/clients/…/{list} names");
        install()?;
        let path = folder.join(stamp);
        fs::write(&path, read(list)).map_err(Failure::at(&path))
    }
}

/// Parses node's `# pass 34` and `# fail 0`.
pub(crate) fn parse_tap(text: &str) -> Counts {
    let of = |word: &str| {
        let line = text.lines().rev().find_map(|line| line.strip_prefix(word));
        line.and_then(|number| number.trim().parse().ok())
            .unwrap_or(0)
    };
    Counts {
        passed: of("# pass "),
        failed: of("# fail ") + of("# cancelled "),
    }
}

/// Counts go's subtests for each protocol, which are indented under their function.
fn parse_go(text: &str) -> Counts {
    let of = |word: &str| text.lines().filter(|line| line.starts_with(word)).count() as u64;
    Counts {
        passed: of("    --- PASS: "),
        failed: of("    --- FAIL: "),
    }
}

/// Parses the last line, `20 passed, 0 failed`.
fn parse_java(text: &str) -> Counts {
    let line = text.lines().next_back().unwrap_or_default();
    Counts {
        passed: number_before(line, " passed").unwrap_or(0),
        failed: number_before(line, " failed").unwrap_or(0),
    }
}

/// Two lanes, so that the clients of one test are on different lanes.
const LANES: u16 = 2;
/// A test that takes longer counts as hung.
const JOBS_TIMEOUT_S: u32 = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_all_languages_are_read() {
        let expected = Counts {
            passed: 2,
            failed: 1,
        };
        let tap = "ok 1 - # pass 9\n# tests 3\n# pass 2\n# fail 1\n# cancelled 0\n";
        assert_eq!(parse_tap(tap), expected);
        let go = "--- FAIL: TestA (0.1s)\n    --- PASS: TestA/RESP2 (0.0s)\n    \
            --- PASS: TestA/RESP3 (0.0s)\n    --- FAIL: TestB/RESP2 (0.0s)\n";
        assert_eq!(parse_go(go), expected);
        assert_eq!(parse_java("ok strings\n2 passed, 1 failed\n"), expected);
    }
}
