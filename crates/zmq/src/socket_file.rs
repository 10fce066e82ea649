//! The file that a bind to a path makes, and its removal.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// The file of a listening socket, and the directory that was made for it.
///
/// Another process may bind the same path later, as in a restart without a gap: it removes the
/// file and makes one of its own, or renames its own to this path. That file stays.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    directory: Option<PathBuf>,
    /// `None`: the file was gone at once.
    identity: Option<Identity>,
}

/// Which file it is. As long as the socket is open, the kernel gives this identity to no other
/// file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(path: &Path) -> Option<Identity> {
        let known = fs::symlink_metadata(path).ok()?;
        Some(Identity {
            device: known.dev(),
            inode: known.ino(),
        })
    }
}

impl SocketFile {
    /// Notes the file that a bind has just made at `path`. `directory` was made for it.
    ///
    /// The kernel does not tell which file it was. One that another process makes between the bind
    /// and this call, within microseconds, is taken for it.
    pub(crate) fn new(path: &str, directory: Option<PathBuf>) -> SocketFile {
        let path = PathBuf::from(path);
        SocketFile {
            identity: Identity::of(&path),
            path,
            directory,
        }
    }

    /// Removes the file, unless another one is in its place, and the directory. Call it while the
    /// socket is open.
    pub(crate) fn remove(&self) {
        if self.identity.is_some() && Identity::of(&self.path) == self.identity {
            self.take_away();
        }
        if let Some(directory) = &self.directory {
            // It stays if another process has a socket in it.
            let _ = fs::remove_dir(directory);
        }
    }

    /// Takes away what is at the path, and puts it back if it is the file of another process, which
    /// may have come since the last look.
    fn take_away(&self) {
        let name = format!(".zmq-{:016x}", crate::clock::random());
        let away = self.path.with_file_name(name);
        if fs::rename(&self.path, &away).is_err() {
            return;
        }
        if Identity::of(&away) == self.identity {
            let _ = fs::remove_file(&away);
            return;
        }
        match renameat_with(CWD, &away, CWD, &self.path, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            // A third process has bound the path meanwhile.
            Err(Errno::EXIST) => {
                let _ = fs::remove_file(&away);
            }
            // The file system cannot rename so.
            Err(_) => {
                let _ = fs::rename(&away, &self.path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::{Context, Error, SendFlags, Socket, SocketType};

    /// A directory of one test, which goes with it.
    struct Directory(PathBuf);

    impl Directory {
        fn new() -> Directory {
            let name = format!("zmq-test-{:016x}", crate::clock::random());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Directory(path)
        }

        fn join(&self, name: &str) -> String {
            self.0.join(name).to_str().unwrap().to_owned()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn bound(context: &Context, endpoint: &str) -> Socket {
        let socket = context.socket(SocketType::Pull).unwrap();
        socket.bind(endpoint).unwrap();
        socket
    }

    /// It removed whichever file was at its path: after a restart without a gap, in which the new
    /// process binds before the old one closes, no client found the new one.
    #[test]
    fn closing_a_socket_removed_the_file_of_one_that_had_bound_its_path_since() {
        let context = Context::new();
        let directory = Directory::new();
        for scheme in ["ipc", "shm"] {
            let path = directory.join(scheme);
            let endpoint = format!("{scheme}://{path}");
            for unbinds in [false, true] {
                let old = bound(&context, &endpoint);
                let new = bound(&context, &endpoint);
                if unbinds {
                    old.unbind(&endpoint).unwrap();
                }
                old.close().unwrap();
                let push = context.socket(SocketType::Push).unwrap();
                push.connect(&endpoint).unwrap();
                push.send_bytes(b"hello", SendFlags::default()).unwrap();
                assert_eq!(new.receive(false).unwrap().as_slice(), b"hello");
                new.close().unwrap();
                assert!(!Path::new(&path).exists(), "its own file goes");
            }
        }
    }

    #[test]
    fn a_file_that_was_renamed_to_the_path_of_a_socket_stays() {
        let context = Context::new();
        let directory = Directory::new();
        let [path, made] = ["path", "made"].map(|name| directory.join(name));
        let old = bound(&context, &format!("ipc://{path}"));
        let new = UnixListener::bind(&made).unwrap();
        fs::rename(&made, &path).unwrap();
        old.close().unwrap();
        UnixStream::connect(&path).unwrap();
        drop(new);
    }

    #[test]
    fn the_directory_of_a_wildcard_goes_unless_another_process_uses_it() {
        let context = Context::new();
        for stays in [false, true] {
            let socket = bound(&context, "ipc://*");
            let place = socket.last_endpoint().unwrap();
            let path = PathBuf::from(place.strip_prefix("ipc://").unwrap());
            let other = stays.then(|| {
                fs::remove_file(&path).unwrap();
                UnixListener::bind(&path).unwrap()
            });
            socket.close().unwrap();
            assert_eq!(path.exists(), stays);
            let directory = path.parent().unwrap();
            assert_eq!(directory.exists(), stays);
            if other.is_some() {
                fs::remove_dir_all(directory).unwrap();
            }
        }
    }

    /// Between the look and the removal another process binds the path.
    #[test]
    fn a_file_that_comes_in_the_moment_of_the_removal_is_put_back() {
        let directory = Directory::new();
        let path = directory.join("path");
        let old = UnixListener::bind(&path).unwrap();
        let file = SocketFile::new(&path, None);
        fs::remove_file(&path).unwrap();
        let new = UnixListener::bind(&path).unwrap();
        file.take_away();
        UnixStream::connect(&path).unwrap();
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
        drop((old, new));
    }

    #[test]
    fn a_path_in_a_missing_directory_is_no_file_to_remove() {
        let context = Context::new();
        let socket = context.socket(SocketType::Pull).unwrap();
        let refused = socket.bind("ipc:///no/such/directory/path");
        assert_eq!(refused, Err(Error::System(2)));
        SocketFile::new("/no/such/directory/path", None).remove();
    }
}
