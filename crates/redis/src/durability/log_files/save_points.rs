//! After how much change, and how soon, a snapshot is taken by itself: the parameter `save`.

/// Pairs of seconds and changes: either is enough if both are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavePoints(Vec<(u64, u64)>);

impl SavePoints {
    /// Reads `seconds changes seconds changes …`; none if it is anything else.
    pub(crate) fn parse(text: &str) -> Self {
        let numbers: Option<Vec<u64>> = text.split_whitespace().map(|w| w.parse().ok()).collect();
        let numbers = numbers.unwrap_or_default();
        let (pairs, []) = numbers.as_chunks::<2>() else {
            return SavePoints::default();
        };
        SavePoints(
            pairs
                .iter()
                .map(|&[seconds, changes]| (seconds, changes))
                .collect(),
        )
    }

    /// Whether nothing is saved by itself.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a snapshot is due `seconds` after the last one, with `changes` changes since.
    pub(crate) fn is_due(&self, seconds: u64, changes: u64) -> bool {
        let mut points = self.0.iter();
        points.any(|&(after, least)| changes >= least && seconds > after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_point_that_is_reached_is_enough() {
        let points = SavePoints::parse("3600 1 300 100");
        assert!(!points.is_due(300, 100));
        assert!(points.is_due(301, 100));
        assert!(!points.is_due(3_000, 99));
        assert!(points.is_due(3_601, 1));
        assert!(!points.is_due(1_000_000, 0));
        assert!(SavePoints::parse("").is_empty());
        assert!(SavePoints::parse("5").is_empty());
    }
}
