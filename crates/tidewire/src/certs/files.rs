//! The files of certificates and keys. A key is never readable by others, at no moment.
//!
//! A pair is complete on disk, under other names, before one of its files gets its own name: first
//! the key, then the certificate. So a run that is stopped at any moment leaves nothing, both, or a
//! key whose certificate waits beside it under its other name: the next run gives it its own.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tidewire_tls::Server;

use super::issuing::{Issued, is_name};
use crate::failure::Failure;

/// Writes pairs of files into a directory, which no other run does meanwhile.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    folder: &'a Path,
    replaces: bool,
    /// The directory, locked.
    lock: File,
}

/// A certificate and its key.
struct Pair {
    certificate: Place,
    key: Place,
}

/// A file's own name, and the one that it has until it is complete.
struct Place {
    path: PathBuf,
    unfinished: PathBuf,
}

impl<'a> Writing<'a> {
    /// Begins to write into a directory that exists.
    pub(super) fn begin(folder: &'a Path, replaces: bool) -> Result<Self, Failure> {
        let place = folder.display();
        let failed = |error: io::Error| Failure::usage(format!("--dir {place}: {error}"));
        let lock = File::open(folder).map_err(failed)?;
        // On a file system without locks it goes on without one.
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(Failure::running(format!(
                "another 'tidewire certs' writes into {place}; run this one after it"
            )));
        }
        Ok(Self {
            folder,
            replaces,
            lock,
        })
    }

    /// Completes the pairs of a run that was stopped, and removes what else it has left. Returns
    /// the certificates that are complete now.
    pub(super) fn recover(&self) -> Result<Vec<PathBuf>, Failure> {
        let failed = |error: io::Error| failed(self.folder, &error);
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(self.folder).map_err(failed)? {
            let file = entry.map_err(failed)?.file_name();
            names.extend(file.to_str().and_then(unfinished_name).map(str::to_owned));
        }
        let mut completed = Vec::new();
        for name in names {
            let Pair { certificate, key } = self.pair(&name);
            let has_key = |path: &Path| is_pair(path, &key.path);
            if has_key(&certificate.unfinished) && !has_key(&certificate.path) {
                self.put(&certificate, true)?;
                self.sync().map_err(failed)?;
                completed.push(certificate.path.clone());
            }
            for place in [&certificate, &key] {
                place.discard().map_err(failed)?;
            }
        }
        Ok(completed)
    }

    /// Refuses to begin if one of the files exists and must not be replaced.
    pub(super) fn check<'b>(&self, names: impl Iterator<Item = &'b str>) -> Result<(), Failure> {
        for name in names {
            let Pair { certificate, key } = self.pair(name);
            for place in [certificate, key] {
                if !self.replaces && place.path.symlink_metadata().is_ok() {
                    return Err(exists(&place.path));
                }
            }
        }
        Ok(())
    }

    /// Writes a certificate and its key. A pair is written whole or not at all.
    pub(super) fn write(&self, name: &str, issued: &Issued, replaces: bool) -> Result<(), Failure> {
        let Pair { certificate, key } = self.pair(name);
        let discard = || {
            // What stays is removed by the next run.
            let _ = key.discard();
            let _ = certificate.discard();
        };
        let begun = key
            .create(&issued.key, KEY_MODE)
            .and_then(|()| certificate.create(&issued.certificate, CERTIFICATE_MODE))
            .and_then(|()| self.put(&key, replaces));
        if let Err(failure) = begun {
            discard();
            return Err(failure);
        }
        match self.put(&certificate, replaces) {
            Ok(()) => {
                discard();
                self.sync().map_err(|error| failed(self.folder, &error))
            }
            Err(failure) if replaces => Err(Failure::running(format!(
                "{failure}; its key is already replaced: run the command again to complete the pair"
            ))),
            Err(failure) => {
                // Without its certificate the new key is of no use, and would be in the way.
                if fs::remove_file(&key.path).is_ok() {
                    discard();
                }
                Err(failure)
            }
        }
    }

    fn pair(&self, name: &str) -> Pair {
        let place = |end: &str| Place {
            path: self.folder.join(format!("{name}.{end}")),
            unfinished: self.folder.join(format!(".{name}.{end}{UNFINISHED}")),
        };
        Pair {
            certificate: place("crt"),
            key: place("key"),
        }
    }

    /// Gives a complete file its own name once its other one is on disk.
    fn put(&self, place: &Place, replaces: bool) -> Result<(), Failure> {
        let put = || {
            self.sync()?;
            step()?;
            match replaces {
                true => fs::rename(&place.unfinished, &place.path),
                // Fails if the file exists, unlike a rename.
                false => fs::hard_link(&place.unfinished, &place.path),
            }
        };
        put().map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(&place.path),
            _ => failed(&place.path, &error),
        })
    }

    fn sync(&self) -> io::Result<()> {
        step()?;
        self.lock.sync_all()
    }
}

impl Place {
    /// Creates it under its other name, with this mode from its first moment on.
    fn create(&self, text: &str, mode: u32) -> Result<(), Failure> {
        let options = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .clone();
        let create = || {
            step()?;
            let mut file = options.open(&self.unfinished)?;
            step()?;
            file.write_all(text.as_bytes())?;
            step()?;
            file.sync_all()
        };
        create().map_err(|error| failed(&self.path, &error))
    }

    /// Removes what is there under its other name.
    fn discard(&self) -> io::Result<()> {
        stop_here();
        match fs::remove_file(&self.unfinished) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns the pair's name of a file that is not complete.
fn unfinished_name(file: &str) -> Option<&str> {
    let name = file.strip_prefix('.')?.strip_suffix(UNFINISHED)?;
    let name = name.strip_suffix(".crt").or(name.strip_suffix(".key"))?;
    is_name(name).then_some(name)
}

/// Returns whether both files are there, and the key is the certificate's.
fn is_pair(certificate: &Path, key: &Path) -> bool {
    let read = |path: &Path| {
        let is_file = path.metadata().is_ok_and(|known| known.is_file());
        is_file.then(|| fs::read(path).ok()).flatten()
    };
    let (Some(certificate), Some(key)) = (read(certificate), read(key)) else {
        return false;
    };
    Server::new(&certificate, &key).is_ok()
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::running(format!("cannot write {}: {error}", path.display()))
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!(
        "{} exists; use --replace to replace it, --no-server or another --client to add a client, or \
         another --dir",
        path.display()
    ))
}

/// A moment in which the machine can stop or the disk refuse. The tests do both.
#[cfg(not(test))]
fn step() -> io::Result<()> {
    Ok(())
}

/// A moment in which the machine can stop.
#[cfg(not(test))]
fn stop_here() {}

#[cfg(test)]
use tests::{step, stop_here};

/// The end of the name of a file that is not complete.
const UNFINISHED: &str = ".unfinished";
const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::super::{CertsOptions, run};
    use super::*;

    /// What happens at a step.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        None,
        /// The process ends in this step.
        Stop(usize),
        /// The disk is full in this step, and in all later ones if it says so.
        Full(usize, bool),
    }

    thread_local! {
        static FAULT: Cell<Fault> = const { Cell::new(Fault::None) };
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn step() -> io::Result<()> {
        let at = STEPS.get();
        STEPS.set(at + 1);
        match FAULT.get() {
            Fault::Stop(stop) if stop == at => std::panic::resume_unwind(Box::new("stopped")),
            Fault::Full(from, stays) if at == from || stays && at > from => {
                Err(ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn stop_here() {
        let _ = step();
    }

    /// Runs the command with a fault. Returns what it says, or `None` if it was stopped.
    fn run_with(fault: Fault, options: &CertsOptions) -> Option<Result<(), String>> {
        FAULT.set(fault);
        STEPS.set(0);
        let result = catch_unwind(AssertUnwindSafe(|| run(options)));
        FAULT.set(Fault::None);
        let said = result.ok()?;
        Some(said.map_err(|failure| failure.to_string()))
    }

    fn options(dir: &Path, replace: bool) -> CertsOptions {
        CertsOptions {
            dir: dir.to_owned(),
            host: Vec::new(),
            client: Vec::new(),
            days: 30,
            no_server: false,
            replace,
        }
    }

    fn folder(name: &str) -> PathBuf {
        let name = format!("tidewire-certs-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn files(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<_> = names
            .map(|one| one.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn holds_whole_pairs(folder: &Path) -> bool {
        files(folder).iter().all(|name| {
            let path = folder.join(name);
            let has_other = is_pair(&path.with_extension("crt"), &path.with_extension("key"));
            has_other && !name.ends_with(UNFINISHED)
        })
    }

    fn assert_complete(folder: &Path, why: &str) {
        let pairs = ["ca", "client", "server"];
        let all = pairs.map(|name| [format!("{name}.crt"), format!("{name}.key")]);
        assert_eq!(files(folder), all.concat(), "{why}");
        for name in pairs {
            let [certificate, key] = ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")));
            assert!(is_pair(&certificate, &key), "{name}: {why}");
        }
    }

    /// A run that was stopped between the authority's key and its certificate left a directory that
    /// no later run could use.
    #[test]
    fn a_run_that_is_stopped_anywhere_is_completed_by_the_next_one() {
        for replaces in [false, true] {
            let mut is_stopped = true;
            let mut at = 0;
            while is_stopped {
                let dir = folder("stopped");
                if replaces {
                    run(&options(&dir, false)).unwrap();
                }
                let stop = Fault::Stop(at);
                is_stopped = run_with(stop, &options(&dir, replaces)).is_none();
                let why = format!("{stop:?}, replaces: {replaces}, left {:?}", files(&dir));
                if let Some(Err(said)) = run_with(Fault::None, &options(&dir, replaces)) {
                    let is_told = said.contains("exists; use --replace");
                    assert!(is_told && !replaces, "{said}: {why}");
                    run(&options(&dir, true)).unwrap();
                }
                assert_complete(&dir, &why);
                fs::remove_dir_all(&dir).unwrap();
                at += 1;
            }
            assert!(at > 20, "{at} steps");
        }
    }

    #[test]
    fn a_full_disk_leaves_whole_pairs_or_says_what_to_do() {
        for (replaces, stays) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut at = 0;
            loop {
                let dir = folder("full");
                if replaces {
                    run(&options(&dir, false)).unwrap();
                }
                let full = Fault::Full(at, stays);
                let said = run_with(full, &options(&dir, replaces)).unwrap();
                let why = format!("{full:?}, replaces: {replaces}, left {:?}", files(&dir));
                let is_over = at >= STEPS.get();
                if let Err(said) = said {
                    assert!(said.contains("cannot write"), "{said}: {why}");
                    let is_told = said.contains("run the command again");
                    assert!(is_told || holds_whole_pairs(&dir), "{said}: {why}");
                    run(&options(&dir, true)).unwrap();
                }
                assert_complete(&dir, &why);
                fs::remove_dir_all(&dir).unwrap();
                if is_over {
                    break;
                }
                at += 1;
            }
            assert!(at > 20, "{at} steps");
        }
    }

    #[test]
    fn what_was_cut_off_in_the_middle_is_removed() {
        let dir = folder("cut");
        run(&options(&dir, false)).unwrap();
        for (name, text) in [
            (".server.crt.unfinished", "-----BEGIN CERT"),
            (".server.key.unfinished", ""),
            (".other.key.unfinished", "-----BEGIN"),
        ] {
            fs::write(dir.join(name), text).unwrap();
        }
        let own = ["..a.crt.unfinished", ".a.crt", "b.crt.unfinished"];
        for name in own {
            fs::write(dir.join(name), "another program's").unwrap();
        }
        run(&options(&dir, true)).unwrap();
        for name in own {
            fs::remove_file(dir.join(name)).unwrap();
        }
        assert_complete(&dir, "what was cut off");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn two_runs_do_not_write_into_one_directory() {
        let dir = folder("two");
        fs::create_dir_all(&dir).unwrap();
        let first = Writing::begin(&dir, false).unwrap();
        let said = Writing::begin(&dir, false).unwrap_err().to_string();
        assert!(said.contains("another 'tidewire certs'"), "{said}");
        drop(first);
        Writing::begin(&dir, false).unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }

    fn issued(text: &str) -> Issued {
        Issued {
            certificate: format!("certificate {text}"),
            key: format!("key {text}"),
            ends_s: 0,
        }
    }

    #[test]
    fn a_pair_is_never_replaced_unasked_and_keys_are_secret() {
        let folder = folder("pair");
        fs::create_dir_all(&folder).unwrap();
        let writing = Writing::begin(&folder, false).unwrap();
        writing.check(["a"].into_iter()).unwrap();
        writing.write("a", &issued("one"), false).unwrap();
        let mode = |name: &str| {
            let found = fs::metadata(folder.join(name)).unwrap();
            found.permissions().mode() & 0o777
        };
        assert_eq!(mode("a.key"), 0o600);
        assert_eq!(mode("a.crt") & 0o600, 0o600);
        writing.check(["a"].into_iter()).unwrap_err();
        writing.write("a", &issued("two"), false).unwrap_err();
        assert_eq!(fs::read(folder.join("a.key")).unwrap(), b"key one");
        // A link that leads nowhere is in the way, too.
        std::os::unix::fs::symlink("/nowhere/at/all", folder.join("b.key")).unwrap();
        writing.check(["b"].into_iter()).unwrap_err();
        writing.write("b", &issued("two"), false).unwrap_err();
        drop(writing);
        let replacing = Writing::begin(&folder, true).unwrap();
        replacing.check(["a"].into_iter()).unwrap();
        replacing.write("a", &issued("two"), true).unwrap();
        assert_eq!(fs::read(folder.join("a.crt")).unwrap(), b"certificate two");
        assert_eq!(mode("a.key"), 0o600);
        assert_eq!(files(&folder), ["a.crt", "a.key", "b.key"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
