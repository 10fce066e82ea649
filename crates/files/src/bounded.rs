//! Reading of files that someone else may replace at any time.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Reads a regular file of at most `bytes_max` bytes. It neither waits for one that has no end,
/// such as a pipe, nor takes the memory of one.
///
/// # Errors
/// It cannot be read, is no regular file, or is longer.
pub fn read_bounded(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut text)?;
    match text.len() > bytes_max {
        true => {
            let mebibytes = bytes_max >> 20;
            let words = format!("it is longer than {mebibytes} MiB");
            Err(io::Error::other(words))
        }
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users in a pipe held a lane, and those in `/dev/zero` took all memory.
    #[test]
    fn what_is_no_regular_file_or_too_long_is_refused() {
        let error = |path: &Path| read_bounded(path, 1 << 20).unwrap_err().to_string();
        for path in ["/dev/zero", "/dev/null", "/"] {
            assert_eq!(error(Path::new(path)), "it is no regular file", "{path}");
        }
        let name = format!("tidewire-bounded-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(read_bounded(&path, 1 << 20).unwrap().len(), 1 << 20);
        std::fs::write(&path, vec![b'x'; (1 << 20) + 1]).unwrap();
        assert_eq!(error(&path), "it is longer than 1 MiB");
        std::fs::remove_file(&path).unwrap();
    }
}
