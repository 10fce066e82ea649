//! A disk in memory, with faults from a seed.
//!
//! It has two states: what processes see, and what is on the disk. An fsync writes pages to the
//! disk, and a crash writes some at random. A failed fsync drops the pages: as on Linux, the next
//! fsync succeeds without them, and a reader may find the old content.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// A disk in memory. Every method takes a short lock.
#[derive(Debug)]
pub struct SimulatedDisk {
    model: Mutex<Model>,
}

/// Fault rates, per thousand operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultRates {
    /// A write accepts only part of the bytes.
    pub short_writes: u32,
    /// A write, truncation, creation or rename fails; a failed write may have accepted a part.
    pub io_errors: u32,
    /// An fsync fails.
    pub failed_syncs: u32,
}

/// An open file of a simulated disk.
#[derive(Debug)]
pub(crate) struct OpenFile {
    disk: Arc<SimulatedDisk>,
    node: u64,
}

#[derive(Clone, Debug)]
struct Model {
    random: u64,
    rates: FaultRates,
    bytes_max: u64,
    next_node: u64,
    nodes: BTreeMap<u64, Node>,
    /// The names that processes see.
    names: BTreeMap<PathBuf, u64>,
    /// The names on the disk, and the changes since.
    durable_names: BTreeMap<PathBuf, u64>,
    pending: Vec<(PathBuf, Option<u64>)>,
    /// The number of the next whole file, and the numbers of those being written.
    next_whole: u64,
    wholes: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    data: Vec<u8>,
    durable: Vec<u8>,
    /// Pages that are not yet on the disk.
    dirty: BTreeSet<usize>,
}

impl SimulatedDisk {
    /// Creates an empty disk without faults; `seed` decides what fails once fault rates are set.
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            model: Mutex::new(Model {
                random: seed,
                rates: FaultRates::default(),
                bytes_max: u64::MAX,
                next_node: 1,
                nodes: BTreeMap::new(),
                names: BTreeMap::new(),
                durable_names: BTreeMap::new(),
                pending: Vec::new(),
                next_whole: 0,
                wholes: Vec::new(),
            }),
        })
    }

    /// Returns the same disk for the next process. The old process may continue on its own copy
    /// until it ends; it changes nothing here.
    pub fn fork(&self) -> Arc<Self> {
        let mut model = self.model.lock().clone();
        model.wholes.clear();
        Arc::new(Self {
            model: Mutex::new(model),
        })
    }

    /// Returns names and lengths of all files: the same list for the same seed.
    pub fn listing(&self) -> Vec<(PathBuf, u64)> {
        let model = self.model.lock();
        let names = model.names.iter().filter_map(|(path, node)| {
            let node = model.nodes.get(node)?;
            Some((path.clone(), node.data.len() as u64))
        });
        names.collect()
    }

    /// Sets the fault rates from now on.
    pub fn set_rates(&self, rates: FaultRates) {
        self.model.lock().rates = rates;
    }

    /// Sets the disk's size in bytes.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.model.lock().bytes_max = bytes_max;
    }

    /// Returns the total size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.model.lock().bytes()
    }

    /// Simulates a machine that fails and restarts: of the data that was not durable, a random part
    /// survives. Open files become unusable. (A process that only ends loses nothing it has
    /// written, so that case needs no call.)
    pub fn crash(&self) {
        let mut guard = self.model.lock();
        let model = &mut *guard;
        let kept = model.below(model.pending.len() as u64 + 1) as usize;
        for (path, node) in model.pending.drain(..).take(kept) {
            match node {
                Some(node) => model.durable_names.insert(path, node),
                None => model.durable_names.remove(&path),
            };
        }
        model.pending.clear();
        model.names.clone_from(&model.durable_names);
        let numbers: Vec<u64> = model.nodes.keys().copied().collect();
        for number in numbers {
            let Some(mut node) = model.nodes.remove(&number) else {
                continue;
            };
            // The disk may have kept the file's length but not its bytes.
            let (old, new) = (node.durable.len(), node.data.len());
            if model.below(2) == 0 {
                node.durable.resize(new, 0);
            }
            let dirty = std::mem::take(&mut node.dirty);
            let kept = model.below(dirty.len() as u64 + 1) as usize;
            for page in dirty.into_iter().take(kept) {
                node.keep_page(page);
            }
            let longest = node.durable.len();
            if longest > old && model.below(2) == 0 {
                let cut = old + model.below((longest - old) as u64) as usize;
                node.durable.truncate(cut);
            }
            node.data.clone_from(&node.durable);
            model.nodes.insert(number, node);
        }
    }

    /// Registers a file that gets its name when it is complete. Returns its unique number.
    pub(crate) fn begin_whole(&self) -> u64 {
        let mut model = self.model.lock();
        let number = model.next_whole;
        model.next_whole += 1;
        model.wholes.push(number);
        number
    }

    pub(crate) fn end_whole(&self, number: u64) {
        let mut model = self.model.lock();
        model.wholes.retain(|one| *one != number);
    }

    /// Returns whether the process is writing this file.
    pub(crate) fn writes_whole(&self, number: u64) -> bool {
        self.model.lock().wholes.contains(&number)
    }

    pub(crate) fn open(self: &Arc<Self>, path: &Path, creates: bool) -> io::Result<OpenFile> {
        let mut model = self.model.lock();
        let node = match model.names.get(path) {
            Some(&node) => node,
            None if !creates => return Err(io::ErrorKind::NotFound.into()),
            None => {
                model.may_fail()?;
                let node = model.next_node;
                model.next_node += 1;
                model.nodes.insert(node, Node::default());
                model.name(path, Some(node));
                node
            }
        };
        let disk = self.clone();
        Ok(OpenFile { disk, node })
    }

    pub(crate) fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let model = self.model.lock();
        let node = model.names.get(path).and_then(|node| model.nodes.get(node));
        let node = node.ok_or(io::ErrorKind::NotFound)?;
        Ok(node.data.clone())
    }

    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        let mut model = self.model.lock();
        if !model.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        model.may_fail()?;
        model.name(path, None);
        Ok(())
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut model = self.model.lock();
        let node = *model.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        model.may_fail()?;
        // One step of the disk's journal: both happen or neither.
        model.name(to, Some(node));
        model.names.remove(from);
        Ok(())
    }

    pub(crate) fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut guard = self.model.lock();
        let model = &mut *guard;
        if model.happens(model.rates.failed_syncs) {
            return Err(io::Error::other("a simulated fsync of a folder has failed"));
        }
        let is_here = |path: &PathBuf| path.parent() == Some(folder);
        model.durable_names.retain(|path, _| !is_here(path));
        let own = model.names.iter().filter(|(path, _)| is_here(path));
        let own: Vec<_> = own.map(|(path, &node)| (path.clone(), node)).collect();
        model.durable_names.extend(own);
        model.pending.retain(|(path, _)| !is_here(path));
        Ok(())
    }

    pub(crate) fn names(&self, folder: &Path) -> Vec<PathBuf> {
        let model = self.model.lock();
        let own = model.names.keys();
        own.filter(|path| path.parent() == Some(folder))
            .cloned()
            .collect()
    }
}

impl OpenFile {
    pub(crate) fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut model = self.disk.model.lock();
        let room = model.bytes_max.saturating_sub(model.bytes()) as usize;
        let mut count = bytes.len().min(room);
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let rates = model.rates;
        let is_broken = model.happens(rates.io_errors);
        if is_broken || model.happens(rates.short_writes) {
            count = model.below(count as u64 + 1) as usize;
        }
        let node = model.node(self.node)?;
        let at = node.data.len();
        node.data.extend_from_slice(&bytes[..count]);
        node.touch(at, at + count);
        match is_broken || count == 0 {
            true => Err(io::Error::other("a simulated write has failed")),
            false => Ok(count),
        }
    }

    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut model = self.disk.model.lock();
        model.may_fail()?;
        let node = model.node(self.node)?;
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        node.data.resize(node.data.len().max(to), 0);
        node.data[from..to].copy_from_slice(bytes);
        node.touch(from, to);
        Ok(())
    }

    pub(crate) fn set_length(&self, length: u64) -> io::Result<()> {
        let mut model = self.disk.model.lock();
        model.may_fail()?;
        let node = model.node(self.node)?;
        let (old, new) = (node.data.len(), length as usize);
        node.data.resize(new, 0);
        node.touch(old.min(new), old.max(new));
        Ok(())
    }

    pub(crate) fn length(&self) -> u64 {
        let mut model = self.disk.model.lock();
        model.node(self.node).map_or(0, |node| node.data.len()) as u64
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut guard = self.disk.model.lock();
        let model = &mut *guard;
        let fails = model.happens(model.rates.failed_syncs);
        let mut node = std::mem::take(model.node(self.node)?);
        // Pages reach the disk in order. The remaining pages are forgotten: no fsync will write
        // them. A reader finds them or the disk's version.
        let dirty = std::mem::take(&mut node.dirty);
        let good = match fails {
            true => model.below(dirty.len() as u64 + 1) as usize,
            false => dirty.len(),
        };
        let is_read_again = fails && model.below(2) == 0;
        for (number, page) in dirty.into_iter().enumerate() {
            match number < good {
                true => node.keep_page(page),
                false if is_read_again => node.lose_page(page),
                false => {}
            }
        }
        if !fails {
            let length = node.data.len();
            node.durable.resize(length, 0);
        }
        *model.node(self.node)? = node;
        match fails {
            true => Err(io::Error::other("a simulated fsync has failed")),
            false => Ok(()),
        }
    }
}

impl Model {
    fn bytes(&self) -> u64 {
        let named = self.names.values().filter_map(|node| self.nodes.get(node));
        named.map(|node| node.data.len() as u64).sum()
    }

    fn node(&mut self, number: u64) -> io::Result<&mut Node> {
        self.nodes
            .get_mut(&number)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn name(&mut self, path: &Path, node: Option<u64>) {
        match node {
            Some(node) => self.names.insert(path.to_path_buf(), node),
            None => self.names.remove(path),
        };
        self.pending.push((path.to_path_buf(), node));
    }

    fn may_fail(&mut self) -> io::Result<()> {
        match self.happens(self.rates.io_errors) {
            true => Err(io::Error::other("a simulated call has failed")),
            false => Ok(()),
        }
    }

    fn happens(&mut self, per_thousand: u32) -> bool {
        per_thousand > 0 && self.below(1_000) < u64::from(per_thousand)
    }

    /// Returns a random number below `limit` (SplitMix64).
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}

impl Node {
    fn touch(&mut self, from: usize, to: usize) {
        if from < to {
            self.dirty.extend(from / PAGE..=(to - 1) / PAGE);
        }
    }

    /// Writes a page to the disk.
    fn keep_page(&mut self, page: usize) {
        let (from, to) = (page * PAGE, self.data.len().min((page + 1) * PAGE));
        if from < to {
            self.durable.resize(self.durable.len().max(to), 0);
            self.durable[from..to].copy_from_slice(&self.data[from..to]);
        }
    }

    /// Drops a page's unwritten content: it is read from the disk again.
    fn lose_page(&mut self, page: usize) {
        let (from, to) = (page * PAGE, self.data.len().min((page + 1) * PAGE));
        for at in from..to {
            self.data[at] = self.durable.get(at).copied().unwrap_or(0);
        }
    }
}

/// Small, so that a test's files have many pages.
const PAGE: usize = 64;
