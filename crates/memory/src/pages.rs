//! Uses small pages while memory grows, and huge pages afterwards.
//!
//! The kernel clears memory when it is first touched. Touching a huge page takes 0.2 ms, and over 4
//! ms if a virtual machine must first get it from its host. Small pages cost little more in total,
//! a few µs at a time. So memory grows in small pages. When the process stops growing, they are
//! collapsed into huge ones, which reduces a GET's time among many keys by up to a tenth.

use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Collapses the process's memory into huge pages, piece by piece. Only the page size changes,
/// never the contents.
#[derive(Debug)]
pub struct HugePages {
    /// Page faults of the process until the last tick that the kernel served without I/O.
    faults: u64,
    /// Page faults since the last list of blocks was built.
    faults_unseen: u64,
    /// Number of ticks in a row without growth.
    calm: u32,
    /// Remaining ranges to visit; each is a number of adjacent blocks of [`BLOCK_BYTES`].
    left: Vec<Range<usize>>,
}

impl HugePages {
    /// Makes the process use small pages from now on, until they are collapsed. Returns `None`,
    /// without any change, if the system cannot collapse pages or must not use huge pages.
    pub fn later() -> Option<Self> {
        let modes = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
        if modes.contains("[never]") || !can_gather() || huge_pages_are_off() {
            return None;
        }
        set_huge_pages(false).then(|| HugePages {
            faults: faults(),
            faults_unseen: FAULTS_PER_ROUND_MIN,
            calm: 0,
            left: Vec::new(),
        })
    }

    /// Checks whether the process is growing, and if not, collapses some memory. Call this every
    /// [`INTERVAL`](Self::INTERVAL). It takes some microseconds, or some milliseconds if it builds
    /// a huge page. Other threads that access the same 2 MiB wait meanwhile.
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
        if self.left.is_empty() && self.faults_unseen >= FAULTS_PER_ROUND_MIN {
            self.faults_unseen = 0;
            self.left = blocks(&fs::read_to_string("/proc/self/maps").unwrap_or_default());
        }
        self.gather_some();
    }

    /// The interval for [`tick`](Self::tick).
    pub const INTERVAL: Duration = Duration::from_millis(50);

    /// Continues until one block was collapsed or enough blocks were visited.
    fn gather_some(&mut self) {
        for _ in 0..BLOCKS_PER_TICK {
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
            // A block that is already in a huge page takes only microseconds.
            if began.elapsed() > GATHERED_MIN {
                return;
            }
        }
    }
}

/// Returns the whole blocks of the process's own memory, parsed from `/proc/self/maps`.
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

/// Returns whether the whole block is resident: untouched memory must not become resident.
fn is_resident(block: usize) -> bool {
    let mut pages = [0u8; BLOCK_BYTES / PAGE_BYTES];
    // SAFETY: the kernel writes one byte per page to `pages`, and only reads its own tables about
    // the block. If nothing is mapped there, it returns an error.
    let outcome =
        unsafe { libc::mincore(block as *mut libc::c_void, BLOCK_BYTES, pages.as_mut_ptr()) };
    outcome == 0 && pages.iter().all(|page| page & 1 != 0)
}

/// Asks the kernel to collapse a block into one huge page. The kernel may refuse.
fn gather(block: usize) {
    // The switch applies to the process: other threads may get huge pages for new memory meanwhile.
    if set_huge_pages(true) {
        // SAFETY: the contents of the memory do not change. If nothing is mapped there, the kernel
        // returns an error.
        unsafe { libc::madvise(block as *mut libc::c_void, BLOCK_BYTES, libc::MADV_COLLAPSE) };
        set_huge_pages(false);
    }
}

/// Returns whether the kernel can collapse pages (Linux 6.1), by asking for an empty range.
fn can_gather() -> bool {
    // SAFETY: it only reads a system parameter.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // SAFETY: the range is empty.
    let outcome =
        unsafe { libc::madvise(BLOCK_BYTES as *mut libc::c_void, 0, libc::MADV_COLLAPSE) };
    page_bytes == PAGE_BYTES as libc::c_long && outcome == 0
}

fn huge_pages_are_off() -> bool {
    // SAFETY: it only reads a flag of the process.
    unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) != 0 }
}

fn set_huge_pages(on: bool) -> bool {
    let off = libc::c_ulong::from(!on);
    // SAFETY: it only sets a flag of the process that controls its page sizes.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, off, 0, 0, 0) == 0 }
}

/// Returns the number of the process's page faults so far that needed no I/O.
fn faults() -> u64 {
    // SAFETY: the struct contains only numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to `usage`, which has the type it expects.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage.ru_minflt as u64
}

/// Size and alignment of a huge page.
const BLOCK_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4 << 10;
/// Maximum number of faults between two ticks of a process that is not growing: 1 MiB per second.
const FAULTS_CALM_MAX: u64 = 13;
/// Number of ticks without growth before pages are collapsed: one second.
const CALM_MIN: u32 = 20;
/// Number of faults after which there may be a new block to collapse.
const FAULTS_PER_ROUND_MIN: u64 = (BLOCK_BYTES / PAGE_BYTES) as u64;
/// Maximum number of blocks to visit per tick, about 5 µs each.
const BLOCKS_PER_TICK: usize = 64;
/// A call that takes longer has actually collapsed a block.
const GATHERED_MIN: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_s_own_memory_is_visited() {
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
    fn collapsing_changes_no_contents_and_makes_nothing_resident() {
        let Some(mut pages) = HugePages::later() else {
            return;
        };
        let mut filled = vec![7u8; 4 * BLOCK_BYTES];
        let mut holes = Vec::<u8>::with_capacity(4 * BLOCK_BYTES);
        // All but one page of each block.
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
            // Other tests cause faults too.
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
