//! Function libraries, by name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::flags::{ScriptFlags, split_words};

/// A function library.
#[derive(Debug)]
pub struct Library {
    /// Name for FUNCTION DELETE.
    pub name: String,
    /// Its text, including the first line.
    pub code: Box<[u8]>,
    /// Start of the Lua code.
    pub(crate) body_at: usize,
    /// Its functions, by name.
    pub functions: Vec<FunctionInfo>,
    /// A unique number; a later library with the same name gets another one.
    pub(crate) number: u64,
}

/// A function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Name for FCALL, in any case.
    pub name: String,
    /// Description by its library.
    pub description: Option<String>,
    /// Declared flags.
    pub flags: ScriptFlags,
}

/// All libraries at one moment.
#[derive(Clone, Debug, Default)]
pub struct LibrarySet {
    libraries: BTreeMap<String, Arc<Library>>,
    /// The library and the index of each function, by the function's name in lower case.
    functions: HashMap<String, (Arc<Library>, usize), RandomState>,
}

/// The current libraries, shared by all threads.
#[derive(Debug, Default)]
pub struct Libraries {
    current: Mutex<Arc<LibrarySet>>,
    numbers: AtomicU64,
    /// How often all libraries were removed.
    flushes: AtomicU64,
}

/// How FUNCTION RESTORE treats existing libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// Fails if a library with the same name exists.
    Append,
    /// Replaces libraries with the same names.
    Replace,
    /// Removes all libraries first.
    Flush,
}

impl LibrarySet {
    /// Returns the libraries, by name.
    pub fn libraries(&self) -> impl ExactSizeIterator<Item = &Arc<Library>> {
        self.libraries.values()
    }

    /// Returns the libraries' texts, by name.
    pub fn texts(&self) -> Vec<Vec<u8>> {
        let texts = self.libraries().map(|library| library.code.to_vec());
        texts.collect()
    }

    /// Returns the number of functions.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// Returns a function's library and its record there.
    pub(crate) fn function(&self, name: &str) -> Option<(&Arc<Library>, &FunctionInfo)> {
        let (library, place) = self.functions.get(&name.to_ascii_lowercase())?;
        Some((library, &library.functions[*place]))
    }

    /// Returns the library with this name.
    pub fn library(&self, name: &str) -> Option<&Arc<Library>> {
        self.libraries.get(name)
    }

    fn remove(&mut self, name: &str) -> Option<Arc<Library>> {
        let library = self.libraries.remove(name)?;
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        Some(library)
    }

    /// Refuses a library if another one has a function with the same name; `replaced` accepts the
    /// names of libraries that will be removed.
    fn check(&self, library: &Library, replaced: impl Fn(&str) -> bool) -> Result<(), String> {
        let mut functions = library.functions.iter();
        let is_taken = |function: &&FunctionInfo| {
            let owner = self.function(&function.name).map(|(owner, _)| &owner.name);
            owner.is_some_and(|owner| !replaced(owner))
        };
        match functions.find(is_taken) {
            Some(taken) => Err(format!("ERR Function {} already exists", taken.name)),
            None => Ok(()),
        }
    }

    /// Each function of a library is in the index, and the index names no other libraries.
    fn assert_invariants(&self) {
        let is_here = |owner: &Arc<Library>| {
            let library = self.libraries.get(&owner.name);
            library.is_some_and(|library| Arc::ptr_eq(library, owner))
        };
        debug_assert!(
            self.functions.values().all(|(owner, _)| is_here(owner)),
            "a function belongs to a library of the set"
        );
        let mut functions = self.libraries().flat_map(|library| &library.functions);
        debug_assert!(
            functions.all(|function| self.function(&function.name).is_some()),
            "each function is found by its name"
        );
    }

    /// Adds a library; replaces one with the same name.
    fn put(&mut self, library: Arc<Library>) {
        self.remove(&library.name);
        for (place, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase();
            self.functions.insert(name, (library.clone(), place));
        }
        let is_found = |function: &FunctionInfo| {
            let found = self.function(&function.name);
            found.is_some_and(|(owner, _)| Arc::ptr_eq(owner, &library))
        };
        // Of this library alone: to look at all after each is quadratic.
        debug_assert!(
            library.functions.iter().all(is_found),
            "each function of a new library is found by its name"
        );
        self.libraries.insert(library.name.clone(), library);
    }
}

impl Libraries {
    /// Returns the current libraries.
    pub fn current(&self) -> Arc<LibrarySet> {
        self.current.lock().clone()
    }

    /// Returns how often all libraries were removed.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// Returns a function's flags; `None` if there is no such function.
    pub fn flags(&self, name: &[u8]) -> Option<ScriptFlags> {
        let name = std::str::from_utf8(name).ok()?;
        let current = self.current.lock();
        current.function(name).map(|(_, function)| function.flags)
    }

    /// Loads a library from its text. Returns its name.
    pub fn load(&self, engine: &mut Engine, code: &[u8], replace: bool) -> Result<String, String> {
        let library = self.make(engine, code, |name| {
            match self.current.lock().library(name).is_some() && !replace {
                true => Err(format!("ERR Library '{name}' already exists")),
                false => Ok(()),
            }
        })?;
        let mut current = self.current.lock();
        let name = library.name.clone();
        if let Err(text) = current.check(&library, |owner| owner == name) {
            engine.forget(library.number);
            return Err(text);
        }
        if let Some(replaced) = current.library(&name) {
            engine.forget(replaced.number);
        }
        Arc::make_mut(&mut current).put(library);
        Ok(name)
    }

    /// Loads libraries from their texts and adds all of them or none.
    pub fn restore(
        &self,
        engine: &mut Engine,
        codes: &[Vec<u8>],
        policy: RestorePolicy,
    ) -> Result<(), String> {
        let restored = self.try_restore(engine, codes, policy);
        engine.forget_others(&self.current());
        restored
    }

    fn try_restore(
        &self,
        engine: &mut Engine,
        codes: &[Vec<u8>],
        policy: RestorePolicy,
    ) -> Result<(), String> {
        let mut restored = LibrarySet::default();
        for code in codes {
            let library = self.make(engine, code, |name| {
                match restored.library(name).is_some() {
                    true => Err(format!("ERR Library '{name}' already exists")),
                    false => Ok(()),
                }
            })?;
            restored.check(&library, |_| false)?;
            restored.put(library);
        }
        let mut current = self.current.lock();
        if policy == RestorePolicy::Flush {
            *current = Arc::new(restored);
            return Ok(());
        }
        let same = |name: &&String| current.library(name).is_some();
        if policy == RestorePolicy::Append
            && let Some(taken) = restored.libraries.keys().find(same)
        {
            return Err(format!("ERR Library {taken} already exists"));
        }
        for library in restored.libraries() {
            current.check(library, |owner| restored.library(owner).is_some())?;
        }
        let set = Arc::make_mut(&mut current);
        // All replaced ones go first: a function may move from one library to another.
        for name in restored.libraries.keys() {
            set.remove(name);
        }
        restored
            .libraries
            .into_values()
            .for_each(|library| set.put(library));
        set.assert_invariants();
        Ok(())
    }

    /// Removes a library; returns false if there is no such library.
    pub fn delete(&self, name: &[u8]) -> bool {
        let mut current = self.current.lock();
        let name = std::str::from_utf8(name).ok();
        let found = name.filter(|name| current.library(name).is_some());
        found.is_some_and(|name| Arc::make_mut(&mut current).remove(name).is_some())
    }

    /// Removes all libraries; returns the removed ones.
    pub fn flush(&self) -> Arc<LibrarySet> {
        let all = std::mem::take(&mut *self.current.lock());
        self.flushes.fetch_add(1, Ordering::Release);
        all
    }

    /// Returns the memory of the libraries' texts and indexes in bytes.
    pub fn memory_bytes(&self) -> usize {
        let set = self.current();
        let bytes = |library: &Arc<Library>| {
            let function = size_of::<FunctionInfo>() + size_of::<(String, Arc<Library>, usize)>();
            library.code.len() + size_of::<Library>() + library.functions.len() * function
        };
        set.libraries().map(bytes).sum()
    }

    fn make(
        &self,
        engine: &mut Engine,
        code: &[u8],
        accepts: impl FnOnce(&str) -> Result<(), String>,
    ) -> Result<Arc<Library>, String> {
        let (name, body_at) = read_first_line(code)?;
        accepts(&name)?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let body = &code[body_at..];
        let loaded = engine.load(number, body, Some(LOAD_TIME_MAX));
        let functions = loaded.map_err(|failure| failure.text)?;
        if functions.is_empty() {
            return Err("ERR No functions registered".into());
        }
        Ok(Arc::new(Library {
            name,
            code: code.into(),
            body_at,
            functions,
            number,
        }))
    }
}

/// Parses a library's first line. Returns the name and the start of the remaining code: the line's
/// end, so that line numbers stay.
fn read_first_line(code: &[u8]) -> Result<(String, usize), String> {
    if !code.starts_with(b"#!") {
        return Err("ERR Missing library metadata".into());
    }
    let invalid = || "ERR Invalid library metadata".to_string();
    let end = code.iter().position(|&byte| byte == b'\n');
    let end = end.ok_or_else(invalid)?;
    let parts = split_words(&code[..end]).filter(|parts| !parts.is_empty());
    let parts = parts.ok_or_else(invalid)?;
    let mut name = None;
    for part in &parts[1..] {
        let text = String::from_utf8_lossy(part);
        let is_name = part
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"name="));
        if !is_name {
            return Err(format!("ERR Invalid metadata value given: {text}"));
        } else if name.is_some() {
            let text = "ERR Invalid metadata value, name argument was given multiple times";
            return Err(text.into());
        }
        name = Some(String::from_utf8_lossy(&part[5..]).into_owned());
    }
    let name = name.ok_or("ERR Library name was not given")?;
    if !is_name(&name) {
        return Err(BAD_NAME.into());
    }
    let engine = String::from_utf8_lossy(&parts[0][2..]);
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(format!("ERR Engine '{engine}' not found"));
    }
    Ok((name, end))
}

pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(allowed)
}

pub(crate) const BAD_NAME: &str = "ERR Library names can only contain letters, numbers, or \
                                   underscores(_) and must be at least one character long";
/// Maximum time for a library to register its functions.
const LOAD_TIME_MAX: Duration = Duration::from_millis(500);
