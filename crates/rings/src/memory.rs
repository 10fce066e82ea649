//! Memory that two processes map. All `unsafe` of this crate is here: mapping is a call that takes
//! and returns pointers, long bodies are copied into room that is not initialised, and long runs
//! are copied by an instruction that the compiler knows nothing of.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::sync::{AtomicU64, Ordering};

/// Words that another process may change at any time.
#[derive(Debug)]
pub(crate) enum Memory {
    Mapped(Mapping),
    /// Of this process alone: for models, tests and fuzzing.
    Own(Box<[AtomicU64]>),
}

/// A mapping of sealed memory, which lasts as long as this.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is unmapped once, by its owner.
unsafe impl Send for Mapping {}
// SAFETY: it is accessed through atomics alone.
unsafe impl Sync for Mapping {}

impl Memory {
    /// Creates memory of this length, zeroed, and its descriptor, by which another process maps
    /// it. Its size can never change: no access can fail.
    pub(crate) fn create(bytes: usize) -> Result<(Memory, OwnedFd), Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let name = "tidewire-ring";
        let descriptor = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            // Linux before 6.3.
            Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
            other => other?,
        };
        rustix::fs::ftruncate(&descriptor, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&descriptor, SIZE_SEALS | SealFlags::SEAL)?;
        let mapping = Mapping::new(&descriptor, bytes)?;
        Ok((Memory::Mapped(mapping), descriptor))
    }

    /// Maps memory that another process created.
    ///
    /// # Errors
    /// [`Errno::PROTO`]: it is not of this length, not sealed, or no such memory. Its owner could
    /// take it away while it is used.
    pub(crate) fn open(descriptor: &OwnedFd, bytes: usize) -> Result<Memory, Errno> {
        // Only memory files and huge pages have seals. Huge pages may be missing when they are
        // touched.
        let seals = rustix::fs::fcntl_get_seals(descriptor).map_err(|_| Errno::PROTO)?;
        let is_plain = rustix::fs::fstatfs(descriptor)?.f_type == TMPFS_MAGIC;
        let size = rustix::fs::fstat(descriptor)?.st_size;
        if !seals.contains(SIZE_SEALS) || !is_plain || u64::try_from(size) != Ok(bytes as u64) {
            return Err(Errno::PROTO);
        }
        Ok(Memory::Mapped(Mapping::new(descriptor, bytes)?))
    }

    /// Memory of this process alone.
    pub(crate) fn own(words: usize) -> Memory {
        Memory::Own((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        match self {
            Memory::Mapped(mapping) => mapping.words(),
            Memory::Own(words) => words,
        }
    }
}

impl Mapping {
    fn new(descriptor: &OwnedFd, bytes: usize) -> Result<Mapping, Errno> {
        debug_assert!(
            bytes > 0 && bytes.is_multiple_of(size_of::<AtomicU64>()),
            "the memory is of whole words"
        );
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where the mapping lies, so that it replaces nothing.
        let start = unsafe {
            let anywhere = std::ptr::null_mut();
            rustix::mm::mmap(anywhere, bytes, access, MapFlags::SHARED, descriptor, 0)?
        };
        Ok(Mapping {
            start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?,
            words: bytes / size_of::<AtomicU64>(),
        })
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this many words, begins at a page, and lasts as long as `self`.
        // Its file has that size for as long as it exists, by its seals, so that no access fails.
        // The words are atomics: other processes may change them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping as it was made, and nothing refers to it any more.
        let unmapped =
            unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.words * WORD_BYTES) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}

/// Copies bytes into words.
pub(crate) fn store(words: &[AtomicU64], chunks: &[[u8; WORD_BYTES]]) {
    assert_eq!(words.len(), chunks.len(), "a word for each chunk");
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    if words.len() >= MOVED_WORDS_MIN {
        // SAFETY: both slices have that many bytes. The words are atomics, which may be changed
        // through a shared reference, and lie where no Rust reference sees them as anything else.
        unsafe {
            move_bytes(
                words.as_ptr().cast_mut().cast(),
                chunks.as_ptr().cast(),
                words.len(),
            )
        };
        return;
    }
    for (word, chunk) in words.iter().zip(chunks) {
        word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
    }
}

/// Copies words into bytes.
pub(crate) fn load(words: &[AtomicU64], chunks: &mut [[u8; WORD_BYTES]]) {
    assert_eq!(words.len(), chunks.len(), "a word for each chunk");
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    if words.len() >= MOVED_WORDS_MIN {
        // SAFETY: both slices have that many bytes, and the target belongs to the caller.
        unsafe {
            move_bytes(
                chunks.as_mut_ptr().cast(),
                words.as_ptr().cast(),
                words.len(),
            )
        };
        return;
    }
    for (word, chunk) in words.iter().zip(chunks) {
        *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
    }
}

/// Copies words to the end of `bytes`, which must have room for them.
pub(crate) fn append(bytes: &mut Vec<u8>, words: &[AtomicU64]) {
    let spare = bytes.spare_capacity_mut();
    assert!(spare.len() >= words.len() * WORD_BYTES, "there is room");
    let mut is_copied = false;
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    if words.len() >= MOVED_WORDS_MIN {
        // SAFETY: there is room for that many bytes, which belongs to the vector.
        unsafe {
            move_bytes(
                spare.as_mut_ptr().cast(),
                words.as_ptr().cast(),
                words.len(),
            )
        };
        is_copied = true;
    }
    if !is_copied {
        let (chunks, _) = spare.as_chunks_mut::<WORD_BYTES>();
        for (chunk, word) in chunks.iter_mut().zip(words) {
            chunk.write_copy_of_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
    }
    let length = bytes.len() + words.len() * WORD_BYTES;
    // SAFETY: that many bytes were written behind the former end: there are at least as many
    // chunks as words.
    unsafe { bytes.set_len(length) };
}

/// Copies so many words, with the instruction that the processor has for long copies. It takes
/// whole cache lines without reading them first: three times as fast as a loop over words. The
/// compiler assumes nothing of what it reads and writes, so that others may write there meanwhile;
/// the bytes are then any mixture of old and new.
///
/// # Safety
///
/// `from` and `to` are valid for that many words, and do not overlap.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
unsafe fn move_bytes(to: *mut u8, from: *const u8, words: usize) {
    // SAFETY: the caller keeps this function's contract. The direction flag is clear, as the
    // platform's calling convention has it.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rdi") to => _,
            inout("rsi") from => _,
            inout("rcx") words * WORD_BYTES => _,
            options(nostack, preserves_flags),
        );
    }
}

/// A loop over fewer words is faster.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
const MOVED_WORDS_MIN: usize = 64;
/// Bytes of a word.
pub(crate) const WORD_BYTES: usize = size_of::<u64>();
/// Without these the other side could make the file shorter under the mapping.
const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
/// The file system of memory files.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_show_the_same_words() {
        let (one, descriptor) = Memory::create(8192).unwrap();
        let other = Memory::open(&descriptor, 8192).unwrap();
        one.words()[1023].store(7, Ordering::Relaxed);
        assert_eq!(other.words()[1023].load(Ordering::Relaxed), 7);
        assert_eq!((one.words().len(), other.words().len()), (1024, 1024));
    }

    #[test]
    fn its_size_cannot_be_changed() {
        let (_memory, descriptor) = Memory::create(8192).unwrap();
        for bytes in [0, 4096, 16384] {
            assert_eq!(
                rustix::fs::ftruncate(&descriptor, bytes),
                Err(Errno::PERM),
                "to {bytes}"
            );
        }
    }

    #[test]
    fn what_is_not_sealed_or_of_another_length_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let open = rustix::fs::memfd_create("not-sealed", flags).unwrap();
        rustix::fs::ftruncate(&open, 8192).unwrap();
        assert_eq!(Memory::open(&open, 8192).err(), Some(Errno::PROTO));
        // One of the two is not enough.
        rustix::fs::fcntl_add_seals(&open, SealFlags::GROW).unwrap();
        assert_eq!(Memory::open(&open, 8192).err(), Some(Errno::PROTO));
        rustix::fs::fcntl_add_seals(&open, SealFlags::SHRINK).unwrap();
        assert!(Memory::open(&open, 8192).is_ok());
        assert_eq!(Memory::open(&open, 4096).err(), Some(Errno::PROTO));
        // A file, and what is no file.
        let file = rustix::fs::open(
            std::env::temp_dir(),
            rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        );
        if let Ok(file) = file {
            rustix::fs::ftruncate(&file, 8192).unwrap();
            assert_eq!(Memory::open(&file, 8192).err(), Some(Errno::PROTO));
        }
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        assert_eq!(Memory::open(&event, 8192).err(), Some(Errno::PROTO));
    }

    #[test]
    fn what_may_not_be_written_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let sealed = rustix::fs::memfd_create("read-only", flags).unwrap();
        rustix::fs::ftruncate(&sealed, 8192).unwrap();
        rustix::fs::fcntl_add_seals(&sealed, SIZE_SEALS | SealFlags::WRITE).unwrap();
        assert_eq!(Memory::open(&sealed, 8192).err(), Some(Errno::PERM));
    }
}
