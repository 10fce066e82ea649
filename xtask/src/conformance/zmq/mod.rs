//! `cargo xtask conformance libzmq` and `pyzmq`: runs programs written for libzmq with our library.

mod ctest;
mod interface;
mod page;
mod pyzmq;
mod records;

use super::records::Exceptions;
use crate::arguments::Arguments;
use crate::libzmq;
use crate::shell::{Failure, Shell};
use ctest::Case;
use records::Kept;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs libzmq's own tests with the options of the command line.
pub(super) fn libzmq(root: &Path, mut arguments: Arguments) -> Result<(), Failure> {
    let build = arguments.value("--build")?;
    let build = build.ok_or_else(|| {
        Failure::new("--build PATH is needed: where CMake has built libzmq and its tests")
    })?;
    let names = arguments.values("--test")?;
    let asked = Asked::read(root, &mut arguments)?;
    arguments.end()?;
    let build = libzmq::absolute(Path::new(&build))?;
    let suite = match ctest::has_drafts(&build)? {
        true => LIBZMQ_DRAFTS,
        false => LIBZMQ,
    };
    let left_out = ctest::not_run(&asked.shell, &build)?;
    asked.judge(&suite, names.is_empty(), left_out, |library| {
        ctest::run(&asked.shell, &build, library, &names)
    })
}

/// Runs pyzmq's own tests with the options of the command line.
pub(super) fn pyzmq(root: &Path, mut arguments: Arguments) -> Result<(), Failure> {
    let source = arguments.value("--suite")?;
    let source = source
        .ok_or_else(|| Failure::new("--suite PATH is needed: the sources of pyzmq, unpacked"))?;
    let names = arguments.values("--test")?;
    let scratch = arguments.value("--scratch")?.map(PathBuf::from);
    let asked = Asked::read(root, &mut arguments)?;
    arguments.end()?;
    let scratch = scratch.unwrap_or_else(|| asked.shell.target().join("conformance/pyzmq"));
    let source = libzmq::absolute(Path::new(&source))?;
    let suite = pyzmq::Copied::of(&asked.shell, &source, &scratch)?;
    asked.judge(&PYZMQ, names.is_empty(), BTreeMap::new(), |library| {
        suite.run(&asked.shell, library, &names)
    })
}

/// Asks our library and libzmq's the same questions, with the options of the command line.
pub(super) fn interface(root: &Path, mut arguments: Arguments) -> Result<(), Failure> {
    let asked = Asked::read(root, &mut arguments)?;
    arguments.end()?;
    let stock = asked.stock.as_deref().ok_or_else(|| {
        Failure::new("--stock FOLDER is needed: where libzmq.so.5 is, built with drafts")
    })?;
    let result = interface::compare(&asked.shell, stock, &asked.library()?)?;
    let path = asked.shell.root().join(KEPT);
    let mut kept = Kept::read(&path)?;
    println!("{} questions", result.questions);
    kept.interface = result;
    kept.write(&path)?;
    asked.write_page(&kept)
}

/// The options of all of them.
#[derive(Debug)]
struct Asked {
    shell: Shell,
    /// The prefix of a library that is already installed.
    prefix: Option<PathBuf>,
    profile: String,
    /// The folder of another `libzmq.so.5`, whose passing tests are stored.
    stock: Option<PathBuf>,
}

impl Asked {
    fn read(root: &Path, arguments: &mut Arguments) -> Result<Self, Failure> {
        let mut folder = |name| -> Result<Option<PathBuf>, Failure> {
            let value = arguments.value(name)?;
            value
                .map(|path| libzmq::absolute(Path::new(&path)))
                .transpose()
        };
        let (prefix, stock) = (folder("--prefix")?, folder("--stock")?);
        if let Some(prefix) = &prefix {
            libzmq::has_library("--prefix", &prefix.join("lib"))?;
        }
        if let Some(stock) = &stock {
            libzmq::has_library("--stock", stock)?;
        }
        Ok(Self {
            prefix,
            stock,
            profile: libzmq::profile(arguments)?,
            shell: Shell::new(root),
        })
    }

    /// Runs a suite with our library and writes the page. Fails for tests that are not exceptions.
    fn judge(
        &self,
        name: &SuiteName,
        is_whole: bool,
        left_out: BTreeMap<String, usize>,
        run: impl Fn(&Path) -> Result<BTreeMap<String, Case>, Failure>,
    ) -> Result<(), Failure> {
        let path = self.shell.root().join(KEPT);
        let mut kept = Kept::read(&path)?;
        if let Some(stock) = &self.stock {
            println!("--- {} with the libzmq in {}", name.shown, stock.display());
            kept.suite(name.key).stock.extend(outcomes(&run(stock)?));
            kept.write(&path)?;
        }
        let library = self.library()?;
        println!("--- {} with Tidewire's libzmq", name.shown);
        let cases = run(&library)?;
        let exceptions = Exceptions::read(&self.shell.root().join(EXCEPTIONS))?;
        for (test, case) in cases.iter().filter(|(_, case)| !case.passed) {
            println!("failed: {test}\n{}", case.reason);
        }
        let suite = kept.suite(name.key);
        if is_whole {
            suite.ours = outcomes(&cases);
            suite.left_out = left_out;
            suite.ignored = cases.values().map(|case| case.ignored).sum();
            kept.write(&path)?;
            self.write_page(&kept)?;
        }
        let passed = cases.values().filter(|case| case.passed).count();
        println!("\n{}: {passed} of {} passed", name.shown, cases.len());
        verdict(
            name.key,
            &cases,
            &kept.suite(name.key).stock,
            &exceptions,
            is_whole,
        )
    }

    fn write_page(&self, kept: &Kept) -> Result<(), Failure> {
        let exceptions = Exceptions::read(&self.shell.root().join(EXCEPTIONS))?;
        let path = self.shell.root().join(PAGE);
        fs::write(&path, page::page(kept, &exceptions)).map_err(Failure::at(&path))
    }

    /// Returns the folder of our `libzmq.so.5`.
    fn library(&self) -> Result<PathBuf, Failure> {
        if let Some(prefix) = &self.prefix {
            return Ok(prefix.join("lib"));
        }
        let prefix = libzmq::absolute(&self.shell.target().join("conformance/libzmq"))?;
        libzmq::install(&self.shell, &prefix, &self.profile)?;
        Ok(prefix.join("lib"))
    }
}

/// A suite's name in files, and its name in text.
#[derive(Debug)]
struct SuiteName {
    key: &'static str,
    shown: &'static str,
}

const LIBZMQ: SuiteName = SuiteName {
    key: "libzmq",
    shown: "libzmq's own tests",
};
/// The same tests and some more, where CMake was told to build the draft functions.
const LIBZMQ_DRAFTS: SuiteName = SuiteName {
    key: "libzmq-drafts",
    shown: "libzmq's own tests with drafts",
};
const PYZMQ: SuiteName = SuiteName {
    key: "pyzmq",
    shown: "pyzmq's own tests",
};

/// Checks that all tests except exceptions pass, and that all tests that libzmq passes were run.
fn verdict(
    suite: &str,
    cases: &BTreeMap<String, Case>,
    stock: &BTreeMap<String, bool>,
    exceptions: &Exceptions,
    is_whole: bool,
) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for (test, case) in cases {
        match (case.passed, exceptions.reason(suite, test)) {
            (false, None) => wrong.push(format!("{test} fails")),
            (true, Some(_)) => println!("note: {test} is an exception, and passes"),
            _ => {}
        }
    }
    if is_whole {
        let missing = stock.iter().filter(|(test, passed)| {
            **passed && !cases.contains_key(*test) && exceptions.reason(suite, test).is_none()
        });
        wrong.extend(missing.map(|(test, _)| format!("{test} was not run")));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::new(wrong.join("\n")))
}

fn outcomes(cases: &BTreeMap<String, Case>) -> BTreeMap<String, bool> {
    let outcome = |(test, case): (&String, &Case)| (test.clone(), case.passed);
    cases.iter().map(outcome).collect()
}

const KEPT: &str = "tests/conformance/libzmq-results.toml";
const EXCEPTIONS: &str = "tests/conformance/libzmq.toml";
const PAGE: &str = "docs/conformance-zmq.md";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_or_is_missing_needs_an_exception() {
        let case = |passed| Case {
            passed,
            reason: String::new(),
            ignored: 0,
        };
        let cases: BTreeMap<String, Case> =
            [("a".to_owned(), case(true)), ("b".to_owned(), case(false))].into();
        let stock: BTreeMap<String, bool> = [("a", true), ("b", true), ("c", true), ("d", false)]
            .map(|(test, passed)| (test.to_owned(), passed))
            .into();
        let text = "[[exception]]\nsuite = 'libzmq'\ntest = 'b'\nreason = 'r'\n";
        let exceptions: Exceptions = toml::from_str(text).unwrap();
        let judge = |exceptions: &Exceptions, is_whole| {
            let result = verdict("libzmq", &cases, &stock, exceptions, is_whole);
            result.map_err(|failure| failure.to_string())
        };
        assert_eq!(judge(&exceptions, false), Ok(()));
        assert_eq!(judge(&exceptions, true), Err("c was not run".into()));
        let none = Exceptions::default();
        assert_eq!(judge(&none, false), Err("b fails".into()));
    }
}
