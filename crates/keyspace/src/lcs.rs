//! The longest common subsequence of two texts, computed for 64 pairs of prefixes at a time.
//!
//! Each prefix of the first text has a row of bits. Bit `j` is set if byte `j` of the second text
//! makes the subsequence longer. The next row results from an addition (Hyyrö 2004). One bit per
//! pair is also enough to reconstruct the subsequence.

/// The lengths for all pairs of prefixes.
#[derive(Debug)]
pub(crate) struct CommonSubsequence<'t> {
    first: &'t [u8],
    second: &'t [u8],
    /// Words per row.
    width: usize,
    rows: Vec<u64>,
}

impl<'t> CommonSubsequence<'t> {
    pub(crate) fn new(first: &'t [u8], second: &'t [u8]) -> Self {
        let width = second.len().div_ceil(64);
        let mut rows = Vec::with_capacity(first.len() * width);
        walk_rows(first, second, |row| rows.extend_from_slice(row));
        debug_assert_eq!(rows.len(), first.len() * width, "a row for each byte");
        CommonSubsequence {
            first,
            second,
            width,
            rows,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self.first.len() {
            0 => 0,
            count => self
                .row(count - 1)
                .iter()
                .map(|word| word.count_ones() as usize)
                .sum(),
        }
    }

    /// Passes the positions of the common bytes in both texts to `show`, last first. If there are
    /// several solutions, it takes the same one as Redis.
    pub(crate) fn walk(&self, mut show: impl FnMut(usize, usize)) {
        let (mut i, mut j) = (self.first.len(), self.second.len());
        while i > 0 && j > 0 {
            if self.first[i - 1] == self.second[j - 1] {
                (i, j) = (i - 1, j - 1);
                show(i, j);
            } else if self.row(i - 1)[(j - 1) / 64] >> ((j - 1) % 64) & 1 == 1 {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }

    fn row(&self, prefix: usize) -> &[u64] {
        &self.rows[prefix * self.width..][..self.width]
    }
}

/// Computes only the length, which needs one row.
pub(crate) fn length(first: &[u8], second: &[u8]) -> usize {
    let mut length = 0;
    let mut left = first.len();
    walk_rows(first, second, |row| {
        left -= 1;
        if left == 0 {
            length = row.iter().map(|word| word.count_ones() as usize).sum();
        }
    });
    length
}

fn walk_rows(first: &[u8], second: &[u8], mut show: impl FnMut(&[u64])) {
    let width = second.len().div_ceil(64);
    // The positions of each byte of the first text in the second one.
    let mut numbers = [None; 256];
    let mut places: Vec<u64> = Vec::new();
    for &byte in first {
        numbers[usize::from(byte)].get_or_insert_with(|| {
            let start = places.len();
            places.resize(start + width, 0);
            start
        });
    }
    for (at, &byte) in second.iter().enumerate() {
        if let Some(start) = numbers[usize::from(byte)] {
            places[start + at / 64] |= 1 << (at % 64);
        }
    }
    let mut row = vec![0u64; width];
    for &byte in first {
        let start = numbers[usize::from(byte)].unwrap_or(0);
        let mut carry = false;
        for (word, place) in row.iter_mut().zip(&places[start..start + width]) {
            // The published form of this algorithm inverts the bits.
            let clear = !*word;
            let (sum, over) = clear.overflowing_add(clear & place);
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            carry = over | over_again;
            *word = !(sum | clear & !place);
        }
        // Clears the bits past the end of the text.
        if let Some(last) = row.last_mut()
            && !second.len().is_multiple_of(64)
        {
            *last &= (1 << (second.len() % 64)) - 1;
        }
        show(&row);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes the classic dynamic-programming table.
    fn lengths(a: &[u8], b: &[u8]) -> Vec<Vec<usize>> {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table[i][j] = if a[i - 1] == b[j - 1] {
                    table[i - 1][j - 1] + 1
                } else {
                    table[i - 1][j].max(table[i][j - 1])
                };
            }
        }
        table
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(b"ACGT".to_vec()), 0..200)
    }

    proptest! {
        #[test]
        fn lengths_and_positions_match_the_classic_table(a in text(), b in text()) {
            let table = lengths(&a, &b);
            let common = CommonSubsequence::new(&a, &b);
            prop_assert_eq!(common.len(), table[a.len()][b.len()]);
            prop_assert_eq!(length(&a, &b), common.len());
            let (mut i, mut j, mut way) = (a.len(), b.len(), Vec::new());
            while i > 0 && j > 0 {
                if a[i - 1] == b[j - 1] {
                    (i, j) = (i - 1, j - 1);
                    way.push((i, j));
                } else if table[i - 1][j] > table[i][j - 1] {
                    i -= 1;
                } else {
                    j -= 1;
                }
            }
            let mut walked = Vec::new();
            common.walk(|i, j| walked.push((i, j)));
            prop_assert_eq!(walked, way);
        }
    }
}
