//! Small pages while memory grows, huge pages afterwards.
//!
//! The kernel clears memory when it is first touched. Touching a huge page takes 0.2 ms, and over 4
//! ms if a virtual machine must first get it from its host. Small pages cost little more in total,
//! a few µs at a time. So memory grows in small pages, and when the process stops growing they are
//! gathered into huge ones, which save up to a tenth of a GET's time among many keys.

use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Gathers the process's memory into huge pages, piece by piece. Which pages memory lies in is all
/// that ever changes.
#[derive(Debug)]
pub struct HugePages {
    /// Page faults of the process until the last look, those that the kernel served from memory.
    faults: u64,
    /// Those since the last list of blocks was made.
    faults_unseen: u64,
    /// Looks in a row at which the process did not grow.
    calm: u32,
    /// What is left to look at: each is so many blocks of [`BLOCK_BYTES`] side by side.
    left: Vec<Range<usize>>,
}

impl HugePages {
    /// From now on what the process touches first is in small pages, until it is gathered. `None`
    /// where the system cannot gather, or is not to use huge pages: all stays as it was.
    pub fn later() -> Option<Self> {
        let modes = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
        if modes.contains("[never]") || !can_gather() || huge_pages_are_off() {
            return None;
        }
        set_huge_pages(false).then(|| HugePages {
            faults: faults(),
            faults_unseen: FAULTS_WORTH_A_ROUND,
            calm: 0,
            left: Vec::new(),
        })
    }

    /// Looks whether the process grows, and if not gathers some of what has grown. To be called
    /// each [`INTERVAL`](Self::INTERVAL); takes some microseconds, and up to some milliseconds when
    /// a huge page is made, in which who wants the same 2 MiB waits.
    pub fn tick(&mut self) {
        let faults = faults();
        let grown = faults.saturating_sub(self.faults);
        self.faults = faults;
        self.faults_unseen += grown;
        self.calm = if grown > FAULTS_CALM_MAX {
            0
        } else {
            self.calm.saturating_add(1)
        };
        if self.calm < CALM_MIN {
            return;
        }
        if self.left.is_empty() && self.faults_unseen >= FAULTS_WORTH_A_ROUND {
            self.faults_unseen = 0;
            self.left = blocks(&fs::read_to_string("/proc/self/maps").unwrap_or_default());
        }
        self.gather_some();
    }

    /// How often [`tick`](Self::tick) is to be called.
    pub const INTERVAL: Duration = Duration::from_millis(50);

    /// Goes on where it was, until one block was gathered or enough were looked at.
    fn gather_some(&mut self) {
        for _ in 0..BLOCKS_A_TICK {
            let Some(range) = self.left.last_mut() else {
                return;
            };
            let block = range.start;
            range.start += BLOCK_BYTES;
            if range.start >= range.end {
                self.left.pop();
            }
            let began = Instant::now();
            if is_resident(block) {
                gather(block);
            }
            // One that was in a huge page already takes microseconds.
            if began.elapsed() > GATHERED_MIN {
                return;
            }
        }
    }
}

/// The whole blocks of the process's own memory, by what `/proc/self/maps` says.
fn blocks(maps: &str) -> Vec<Range<usize>> {
    let range = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let is_own = words.next() == Some("rw-p") && words.nth(2) == Some("0");
        let name = words.next().unwrap_or_default();
        if !is_own || !(name.is_empty() || name.starts_with("[anon") || name == "[heap]") {
            return None;
        }
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        let whole = start.next_multiple_of(BLOCK_BYTES)..end / BLOCK_BYTES * BLOCK_BYTES;
        (!whole.is_empty()).then_some(whole)
    };
    maps.lines().filter_map(range).collect()
}

/// Whether the whole block is in memory: what nobody has touched is not to become resident.
fn is_resident(block: usize) -> bool {
    let mut pages = [0u8; BLOCK_BYTES / PAGE_BYTES];
    // SAFETY: the kernel writes a byte a page to `pages`, and only reads its own tables of the
    // block; if nothing is mapped there it answers with an error.
    let outcome =
        unsafe { libc::mincore(block as *mut libc::c_void, BLOCK_BYTES, pages.as_mut_ptr()) };
    outcome == 0 && pages.iter().all(|page| page & 1 != 0)
}

/// Asks the kernel to move a block into one huge page. It may refuse.
fn gather(block: usize) {
    // The switch is the process's: what others touch first meanwhile may be a huge page.
    if set_huge_pages(true) {
        // SAFETY: memory keeps what it holds, wherever it lies; if nothing is mapped there, the
        // kernel answers with an error.
        unsafe { libc::madvise(block as *mut libc::c_void, BLOCK_BYTES, libc::MADV_COLLAPSE) };
        set_huge_pages(false);
    }
}

/// Whether the kernel knows how to gather (Linux 6.1), asked with no memory at all.
fn can_gather() -> bool {
    // SAFETY: it reads a number of the system.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // SAFETY: it is asked to do nothing to no bytes.
    let outcome =
        unsafe { libc::madvise(BLOCK_BYTES as *mut libc::c_void, 0, libc::MADV_COLLAPSE) };
    page_bytes == PAGE_BYTES as libc::c_long && outcome == 0
}

fn huge_pages_are_off() -> bool {
    // SAFETY: it reads a flag of the process.
    unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) != 0 }
}

fn set_huge_pages(on: bool) -> bool {
    let off = libc::c_ulong::from(!on);
    // SAFETY: it sets a flag of the process that says which pages it gets.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, off, 0, 0, 0) == 0 }
}

/// Page faults of the process so far that needed no reading.
fn faults() -> u64 {
    // SAFETY: numbers alone, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to `usage`, which is as large as it expects.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage.ru_minflt as u64
}

/// A huge page, and where one begins.
const BLOCK_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4 << 10;
/// Faults between two looks of a process that does not grow: 1 MiB per second.
const FAULTS_CALM_MAX: u64 = 13;
/// Looks in a row, until what has grown is thought to stay: a second.
const CALM_MIN: u32 = 20;
/// Faults after which there may be a block to gather.
const FAULTS_WORTH_A_ROUND: u64 = (BLOCK_BYTES / PAGE_BYTES) as u64;
/// Most blocks looked at in a tick, some 5 µs each.
const BLOCKS_A_TICK: usize = 64;
/// What took longer was more than a look.
const GATHERED_MIN: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_s_own_memory_is_looked_at() {
        let maps = "\
55d0c0000000-55d0c0800000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000600000 r--p 00000000 00:00 0
7f0001000000-7f0001600000 rw-s 00000000 00:01 77                         /dev/zero (deleted)
7f0002100000-7f0002700000 rw-p 00000000 00:00 0
7f0003100000-7f0003200000 rw-p 00000000 00:00 0
7f0004000000-7f0004400000 rw-p 00001000 fe:00 12                         /usr/lib/libc.so.6
7f0005000000-7f0005200000 rw-p 00000000 00:00 0                          [anon:mimalloc]
7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0                          [stack]
";
        let expected = [
            0x55d0_c000_0000..0x55d0_c080_0000,
            0x7f00_0220_0000..0x7f00_0260_0000,
            0x7f00_0500_0000..0x7f00_0520_0000,
        ];
        assert_eq!(blocks(maps), expected);
        assert_eq!(blocks("no map\n\n-\nzz-yy rw-p 0 0 0"), []);
    }

    #[test]
    fn gathering_changes_nothing_and_makes_nothing_resident() {
        let Some(mut pages) = HugePages::later() else {
            return;
        };
        let mut filled = vec![7u8; 4 * BLOCK_BYTES];
        let mut holes = Vec::<u8>::with_capacity(4 * BLOCK_BYTES);
        // All of it but one page in each block.
        let spare = holes.spare_capacity_mut();
        let first = spare.as_ptr() as usize;
        for (at, byte) in spare.iter_mut().enumerate() {
            if (first + at) % BLOCK_BYTES / PAGE_BYTES != 300 {
                byte.write(9);
            }
        }
        let block = first.next_multiple_of(BLOCK_BYTES);
        assert!(!is_resident(block));
        filled[5] = 5;
        for _ in 0..500 {
            // Other tests fault as well.
            pages.calm = CALM_MIN;
            pages.tick();
        }
        assert!(!is_resident(block));
        assert!(is_resident(
            (filled.as_ptr() as usize).next_multiple_of(BLOCK_BYTES)
        ));
        assert!(
            filled
                .iter()
                .enumerate()
                .all(|(at, &byte)| byte == if at == 5 { 5 } else { 7 })
        );
        assert!(huge_pages_are_off());
    }
}
