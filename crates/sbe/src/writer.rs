//! Writers of messages and groups.

use crate::{GroupSize, Header};

/// Appends a header and a root block with the given bytes. Returns where the root block begins.
pub fn begin_message(out: &mut Vec<u8>, header: Header, block: &[u8]) -> usize {
    assert_eq!(
        usize::from(header.block_length),
        block.len(),
        "the header says how long the root block is"
    );
    out.extend_from_slice(&header.to_bytes());
    let start = out.len();
    out.extend_from_slice(block);
    start
}

/// Writes a group at the end of a message: first its size header, then its entries.
#[derive(Debug)]
pub struct GroupWriter<'a> {
    out: &'a mut Vec<u8>,
    header: usize,
    block_length: u16,
    count: usize,
}

impl<'a> GroupWriter<'a> {
    /// Appends the size header of an empty group.
    pub fn begin<S: GroupSize>(out: &'a mut Vec<u8>, block_length: u16) -> Self {
        let header = out.len();
        out.resize(header + S::LENGTH, 0);
        S::write(&mut out[header..], block_length, 0);
        Self {
            out,
            header,
            block_length,
            count: 0,
        }
    }

    /// Appends an entry with the given bytes. Returns it to be filled.
    pub fn add<S: GroupSize>(&mut self, block: &[u8]) -> &mut [u8] {
        assert!(
            self.count < S::ENTRIES_MAX,
            "the group's header counts up to {}",
            S::ENTRIES_MAX
        );
        debug_assert_eq!(usize::from(self.block_length), block.len());
        self.count += 1;
        let start = self.out.len();
        self.out.extend_from_slice(block);
        let header = &mut self.out[self.header..start];
        S::write(header, self.block_length, self.count);
        &mut self.out[start..]
    }
}
