//! The way of a source from site to site: the clusters that its values have come through.

use std::fmt;

use tidewire_feed::wire::ClusterText;

use crate::frame::FrameFlags;

const CLUSTERS_MAX: usize = FrameFlags::RELAYS_MAX as usize;

/// The clusters that the values of a source have come through before the present one, that of the
/// owner first: one for each relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    clusters: [ClusterText; CLUSTERS_MAX],
    length: usize,
}

impl Path {
    /// Returns the path behind one more cluster; `None` if it would be too long.
    #[must_use]
    pub fn with(mut self, cluster: ClusterText) -> Option<Path> {
        *self.clusters.get_mut(self.length)? = cluster;
        self.length += 1;
        Some(self)
    }

    /// Returns the clusters in order.
    pub fn clusters(&self) -> &[ClusterText] {
        &self.clusters[..self.length]
    }

    /// Returns whether the values have come through a cluster.
    pub fn contains(&self, cluster: &str) -> bool {
        let mut clusters = self.clusters().iter();
        clusters.any(|passed| passed.as_str() == cluster)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, cluster) in self.clusters().iter().enumerate() {
            let arrow = if number > 0 { ">" } else { "" };
            write!(formatter, "{arrow}{cluster}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_cluster_for_each_relay() {
        let name = |text: &str| ClusterText::new(text).unwrap();
        let path = Path::default();
        assert_eq!(path.to_string(), "");
        let path = path.with(name("newyork")).unwrap();
        let path = path.with(name("london")).unwrap();
        assert_eq!(path.to_string(), "newyork>london");
        assert!(path.contains("london") && !path.contains("lon") && !path.contains(""));
        let full = (2..CLUSTERS_MAX).fold(path, |path, _| path.with(name("x")).unwrap());
        assert_eq!(full.clusters().len(), CLUSTERS_MAX);
        assert_eq!(full.with(name("y")), None);
    }
}
