//! What an edge asks NATS for: the snapshot and the log of one source.

use tidewire_cluster::{Edge, EdgeAction, EdgeConfig};
use tidewire_nats::{Answer, Fetching, Link};

use super::config::ClusterName;
use super::requests::{Request, Requests};
use super::subjects::Subjects;

/// Pages that one request asks for.
const PAGES_A_REQUEST: usize = 128;
/// Frames that one request asks for, and their bytes.
const FRAMES_A_REQUEST: usize = 128;
const BYTES_A_REQUEST: usize = 8 << 20;

/// An edge with its subjects.
pub(super) struct Follower {
    subjects: Subjects,
    pub(super) edge: Edge,
    /// Pages of the snapshot that is being read, and that were not asked for yet.
    pages: Vec<u32>,
}

impl Follower {
    /// Creates an edge of a hub of this cluster.
    pub(super) fn new(cluster: &ClusterName, subjects: Subjects, now_ns: u64) -> Self {
        let config = EdgeConfig {
            cluster: cluster.to_text(),
            ..EdgeConfig::default()
        };
        Self {
            subjects,
            edge: Edge::new(config, now_ns),
            pages: Vec::new(),
        }
    }

    /// Performs what the edge asks for.
    pub(super) fn act(
        &mut self,
        name: &str,
        action: EdgeAction,
        (link, requests): (&Link, &mut Requests),
    ) {
        match action {
            EdgeAction::ReadSnapshot { request } => {
                self.pages.clear();
                let tag = requests.open(Request::RemoteHead(name.to_owned(), request));
                let head = vec![self.subjects.head()];
                link.newest_of_each(tag, &self.subjects.snapshot_stream(), head);
            }
            EdgeAction::FetchLog { request, after } => {
                self.fetch(name, request, after, (link, requests));
            }
        }
    }

    fn fetch(
        &self,
        name: &str,
        request: u64,
        after: u64,
        (link, requests): (&Link, &mut Requests),
    ) {
        let tag = requests.open(Request::RemoteLog(name.to_owned(), request));
        let fetching = Fetching {
            stream: self.subjects.log_stream(),
            subject: self.subjects.log(),
            after,
            count_max: FRAMES_A_REQUEST,
            bytes_max: BYTES_A_REQUEST,
        };
        link.fetch(tag, fetching);
    }

    /// Handles the answer to one of its requests.
    pub(super) fn answered(
        &mut self,
        name: &str,
        request: &Request,
        answer: Answer,
        link: (&Link, &mut Requests),
        now_ns: u64,
    ) {
        match (request, answer) {
            (&Request::RemoteHead(_, request), Answer::Entries(entries)) => {
                if let Some(head) = entries.first() {
                    self.edge.snapshot_head(request, &head.payload, now_ns);
                }
                self.pages = self.edge.snapshot_pages();
                self.read_pages(name, request, link, now_ns);
            }
            (&Request::RemotePages(_, request), Answer::Entries(entries)) => {
                for entry in &entries {
                    self.edge.snapshot_page(request, &entry.payload, now_ns);
                }
                self.read_pages(name, request, link, now_ns);
            }
            (&Request::RemoteHead(_, request) | &Request::RemotePages(_, request), _) => {
                self.edge.snapshot_failed(request, now_ns);
            }
            (&Request::RemoteLog(_, request), Answer::Entries(entries)) => {
                for entry in &entries {
                    self.edge
                        .fetched(request, &entry.payload, entry.sequence, now_ns);
                }
                match entries.last() {
                    None => self.ask_for_end(name, request, link),
                    Some(last) if self.edge.is_fetching(request) => {
                        self.fetch(name, request, last.sequence, link);
                    }
                    Some(_) => {}
                }
            }
            (&Request::RemoteLogEnd(_, request), Answer::Newest(newest)) => {
                let last = newest.map_or(0, |entry| entry.sequence);
                self.edge.fetch_end(request, last, now_ns);
            }
            (&Request::RemoteLogEnd(_, request), Answer::NoMessage { last_sequence }) => {
                self.edge.fetch_end(request, last_sequence, now_ns);
            }
            (&Request::RemoteLog(_, request) | &Request::RemoteLogEnd(_, request), _) => {
                self.edge.fetch_failed(request, now_ns);
            }
            _ => {}
        }
    }

    /// Asks the log's leader where the log ends: another copy may be behind.
    fn ask_for_end(&self, name: &str, request: u64, (link, requests): (&Link, &mut Requests)) {
        if self.edge.is_fetching(request) {
            let tag = requests.open(Request::RemoteLogEnd(name.to_owned(), request));
            link.newest(tag, &self.subjects.log_stream(), None);
        }
    }

    /// Asks for the next pages of the snapshot, or ends it.
    fn read_pages(
        &mut self,
        name: &str,
        request: u64,
        (link, requests): (&Link, &mut Requests),
        now_ns: u64,
    ) {
        if !self.edge.is_reading(request) {
            return;
        }
        if self.pages.is_empty() {
            return self.edge.snapshot_end(request, now_ns);
        }
        let left = self.pages.len().saturating_sub(PAGES_A_REQUEST);
        let pages = self.pages.split_off(left);
        let subjects = pages.into_iter().map(|page| self.subjects.page(page));
        let tag = requests.open(Request::RemotePages(name.to_owned(), request));
        link.newest_of_each(tag, &self.subjects.snapshot_stream(), subjects.collect());
    }
}
