//! The files of certificates and keys. A key is never readable by others, at no moment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::issuing::Issued;
use crate::failure::Failure;

/// Writes pairs of files into a directory.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    folder: &'a Path,
    replaces: bool,
}

impl<'a> Writing<'a> {
    pub(super) fn new(folder: &'a Path, replaces: bool) -> Self {
        Self { folder, replaces }
    }

    /// Refuses to begin if one of the files exists and must not be replaced.
    pub(super) fn check<'b>(&self, names: impl Iterator<Item = &'b str>) -> Result<(), Failure> {
        for name in names {
            for path in self.pair(name) {
                if !self.replaces && path.symlink_metadata().is_ok() {
                    return Err(exists(&path));
                }
            }
        }
        Ok(())
    }

    /// Writes a certificate and its key. A pair is written whole or not at all.
    pub(super) fn write(&self, name: &str, issued: &Issued, replaces: bool) -> Result<(), Failure> {
        let [certificate, key] = self.pair(name);
        self.write_one(&key, issued.key.as_bytes(), KEY_MODE, replaces)?;
        let written = self.write_one(
            &certificate,
            issued.certificate.as_bytes(),
            CERTIFICATE_MODE,
            replaces,
        );
        if written.is_err() && !replaces {
            // Without its certificate the new key is of no use, and would be in the way.
            let _ = fs::remove_file(&key);
        }
        written
    }

    fn pair(&self, name: &str) -> [PathBuf; 2] {
        ["crt", "key"].map(|end| self.folder.join(format!("{name}.{end}")))
    }

    /// Writes a file under another name, and gives it its own once it is complete.
    fn write_one(
        &self,
        path: &Path,
        bytes: &[u8],
        mode: u32,
        replaces: bool,
    ) -> Result<(), Failure> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = self
            .folder
            .join(format!(".{name}.{}.tmp", std::process::id()));
        let written = create(&temporary, bytes, mode).and_then(|()| match replaces {
            true => fs::rename(&temporary, path),
            // Fails if the file exists, unlike a rename.
            false => fs::hard_link(&temporary, path),
        });
        let _ = fs::remove_file(&temporary);
        written
            .and_then(|()| File::open(self.folder)?.sync_all())
            .map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => exists(path),
                _ => Failure::running(format!("cannot write {}: {error}", path.display())),
            })
    }
}

/// Creates a file with this mode from its first moment on.
fn create(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let options = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .clone();
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!(
        "{} exists; use --replace to replace it, --no-server or another --client to add a client, or \
         another --dir",
        path.display()
    ))
}

const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn issued(text: &str) -> Issued {
        Issued {
            certificate: format!("certificate {text}"),
            key: format!("key {text}"),
            ends_s: 0,
        }
    }

    #[test]
    fn a_pair_is_never_replaced_unasked_and_keys_are_secret() {
        let folder = std::env::temp_dir().join(format!("tidewire-certs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let writing = Writing::new(&folder, false);
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
        let replacing = Writing::new(&folder, true);
        replacing.check(["a"].into_iter()).unwrap();
        replacing.write("a", &issued("two"), true).unwrap();
        assert_eq!(fs::read(folder.join("a.crt")).unwrap(), b"certificate two");
        assert_eq!(mode("a.key"), 0o600);
        let names: Vec<_> = fs::read_dir(&folder).unwrap().flatten().collect();
        assert_eq!(names.len(), 3, "no temporary file is left: {names:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
