//! The scripts known to EVALSHA.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::flags::ScriptFlags;
use crate::sha1::Sha1;

/// A known script.
#[derive(Debug)]
pub struct Script {
    /// Its digest, the name for EVALSHA.
    pub sha1: Sha1,
    /// The digest as text.
    pub name: String,
    /// Its text, including the first line.
    pub body: Box<[u8]>,
    /// The flags in its first line.
    pub flags: ScriptFlags,
    /// Start of the code in the body.
    pub code_at: usize,
    /// Whether it came from EVAL, so that it may be evicted; a script of SCRIPT LOAD stays.
    is_from_eval: AtomicBool,
    /// Whether it has not been forgotten.
    is_known: AtomicBool,
    /// When EVAL last used it, as a count of uses.
    used: AtomicU64,
}

/// All known scripts, shared by all threads.
#[derive(Debug, Default)]
pub struct Scripts {
    by_sha1: Mutex<HashMap<Sha1, Arc<Script>, RandomState>>,
    uses: AtomicU64,
    /// Number of evicted scripts of EVAL.
    evicted: AtomicU64,
    /// How often all scripts were removed.
    version: AtomicU64,
}

impl Script {
    /// Creates a script with this text.
    pub fn new(body: &[u8]) -> Result<Script, String> {
        let (flags, code_at) = ScriptFlags::of_script(body)?;
        let sha1 = Sha1::of(body);
        Ok(Script {
            sha1,
            name: sha1.hex(),
            body: body.into(),
            flags,
            code_at,
            is_from_eval: AtomicBool::new(true),
            is_known: AtomicBool::new(true),
            used: AtomicU64::new(0),
        })
    }

    /// Returns whether it has not been forgotten.
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }
}

impl Scripts {
    /// Returns the script with this digest.
    pub fn find(&self, sha1: &Sha1) -> Option<Arc<Script>> {
        self.by_sha1.lock().get(sha1).cloned()
    }

    /// Stores a script, permanently (`to_stay`) or as long as there is room. Returns the known
    /// script if there is one, which stays unchanged.
    pub fn add(&self, script: Script, to_stay: bool) -> Arc<Script> {
        let mut scripts = self.by_sha1.lock();
        if let Some(known) = scripts.get(&script.sha1) {
            return known.clone();
        }
        script.is_from_eval.store(!to_stay, Ordering::Relaxed);
        if !to_stay {
            self.make_room(&mut scripts);
        }
        let script = Arc::new(script);
        self.touch(&script);
        scripts.insert(script.sha1, script.clone());
        script
    }

    /// Records a use of a script.
    pub fn touch(&self, script: &Script) {
        let use_number = self.uses.fetch_add(1, Ordering::Relaxed);
        script.used.store(use_number, Ordering::Relaxed);
    }

    /// Forgets all scripts.
    pub fn flush(&self) {
        let mut scripts = self.by_sha1.lock();
        let known = |script: &Arc<Script>| script.is_known.store(false, Ordering::Release);
        scripts.values().for_each(known);
        scripts.clear();
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Returns how often all scripts were removed.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the number of scripts.
    pub fn count(&self) -> usize {
        self.by_sha1.lock().len()
    }

    /// Returns the memory of the scripts' texts and indexes in bytes.
    pub fn memory_bytes(&self) -> usize {
        let scripts = self.by_sha1.lock();
        let bytes = |script: &Arc<Script>| script.body.len() + size_of::<Script>() + 40;
        let entries = scripts.capacity() * size_of::<(Sha1, Arc<Script>)>();
        scripts.values().map(bytes).sum::<usize>() + entries
    }

    /// Returns the number of evicted scripts.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Resets the number of evicted scripts.
    pub fn reset_evicted(&self) {
        self.evicted.store(0, Ordering::Relaxed);
    }

    fn make_room(&self, scripts: &mut HashMap<Sha1, Arc<Script>, RandomState>) {
        let is_from_eval = |script: &&Arc<Script>| script.is_from_eval.load(Ordering::Relaxed);
        while scripts.len() >= EVAL_SCRIPTS_MAX {
            let passing = scripts.values().filter(is_from_eval);
            if passing.clone().count() < EVAL_SCRIPTS_MAX {
                return;
            }
            let oldest = passing.min_by_key(|script| script.used.load(Ordering::Relaxed));
            let Some(oldest) = oldest.map(|script| script.sha1) else {
                return;
            };
            if let Some(script) = scripts.remove(&oldest) {
                script.is_known.store(false, Ordering::Release);
                self.evicted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Maximum number of stored scripts of EVAL.
const EVAL_SCRIPTS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_eval_are_evicted_and_loaded_ones_stay() {
        let scripts = Scripts::default();
        let loaded = scripts.add(Script::new(b"return 'loaded'").unwrap(), true);
        let first = scripts.add(Script::new(b"return 0").unwrap(), false);
        let second = scripts.add(Script::new(b"return 1").unwrap(), false);
        scripts.touch(&first);
        for number in 2..501 {
            let body = format!("return {number}");
            scripts.add(Script::new(body.as_bytes()).unwrap(), false);
        }
        assert_eq!((scripts.count(), scripts.evicted()), (501, 1));
        assert!(loaded.is_known() && first.is_known() && !second.is_known());
        assert!(scripts.find(&second.sha1).is_none());
        scripts.flush();
        assert!(!loaded.is_known() && scripts.count() == 0);
        assert_eq!(scripts.version(), 1);
    }
}
