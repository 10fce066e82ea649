//! What the web port serves besides the hub's own pages, and to which web pages.

use std::sync::Arc;

use tidewire_web::websocket::Origins;

use crate::log_lines::LogLines;

/// A file that is served as it is.
#[derive(Clone, Copy, Debug)]
pub struct WebAsset {
    /// The path of the request.
    pub path: &'static str,
    /// The type of the content.
    pub content_type: &'static str,
    /// The content.
    pub body: &'static [u8],
    /// The content in gzip, where that is shorter.
    pub packed: Option<&'static [u8]>,
}

/// Settings of the web port.
#[derive(Clone, Debug, Default)]
pub struct WebConfig {
    /// The files of the console.
    pub assets: Vec<WebAsset>,
    /// The tags of the assets' contents, in the same order; see [`WebConfig::new`].
    tags: Vec<String>,
    /// Web pages of other hosts whose scripts may connect.
    pub origins: Arc<Origins>,
    /// The program's newest log lines.
    pub log_lines: Arc<LogLines>,
}

impl WebConfig {
    /// Serves these files.
    pub fn new(assets: Vec<WebAsset>, origins: Arc<Origins>) -> Self {
        let tags = assets.iter().map(|asset| tag_of(asset.body)).collect();
        Self {
            assets,
            tags,
            origins,
            log_lines: Arc::default(),
        }
    }

    /// Returns the file of a path, and the tag of its content.
    pub(crate) fn find(&self, path: &str) -> Option<(&WebAsset, &str)> {
        let at = self.assets.iter().position(|asset| asset.path == path)?;
        Some((&self.assets[at], self.tags.get(at)?))
    }
}

/// Returns an ETag: another content has another one (FNV-1a, 64 bits, and the length).
fn tag_of(body: &[u8]) -> String {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let hash = body.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    format!("\"{:x}-{hash:016x}\"", body.len())
}
