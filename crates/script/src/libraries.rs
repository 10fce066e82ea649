//! Libraries of functions, by name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::flags::{ScriptFlags, split_words};

/// A library of functions.
#[derive(Debug)]
pub struct Library {
    /// What FUNCTION DELETE calls it.
    pub name: String,
    /// Its text, the first line included.
    pub code: Box<[u8]>,
    /// Where the Lua code begins.
    pub(crate) body_at: usize,
    /// Its functions, by name.
    pub functions: Vec<FunctionInfo>,
    /// No other has this number, not even a later one of the same name.
    pub(crate) number: u64,
}

/// A function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// What FCALL calls it, in any case.
    pub name: String,
    /// What its library says of it.
    pub description: Option<String>,
    /// What it promises.
    pub flags: ScriptFlags,
}

/// All libraries at one time.
#[derive(Clone, Debug, Default)]
pub struct LibrarySet {
    libraries: BTreeMap<String, Arc<Library>>,
    /// By the function's name in lower case: the library, and the function's place in it.
    functions: HashMap<String, (Arc<Library>, usize), RandomState>,
}

/// The libraries that there are, shared by all threads.
#[derive(Debug, Default)]
pub struct Libraries {
    current: Mutex<Arc<LibrarySet>>,
    numbers: AtomicU64,
    /// Counts the times that all were removed.
    flushes: AtomicU64,
}

/// What FUNCTION RESTORE does about libraries that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// None may have the same name.
    Append,
    /// Those of the same name are replaced.
    Replace,
    /// All are removed first.
    Flush,
}

impl LibrarySet {
    /// The libraries, by name.
    pub fn libraries(&self) -> impl ExactSizeIterator<Item = &Arc<Library>> {
        self.libraries.values()
    }

    /// How many functions there are.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// The library that has a function, and what it says of it.
    pub(crate) fn function(&self, name: &str) -> Option<(&Arc<Library>, &FunctionInfo)> {
        let (library, place) = self.functions.get(&name.to_ascii_lowercase())?;
        Some((library, &library.functions[*place]))
    }

    /// The library of this name.
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

    /// Refuses a library some of whose functions another has; `replaced` are those that go.
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

    /// Adds a library; what has its name goes.
    fn put(&mut self, library: Arc<Library>) {
        self.remove(&library.name);
        for (place, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase();
            self.functions.insert(name, (library.clone(), place));
        }
        self.libraries.insert(library.name.clone(), library);
    }
}

impl Libraries {
    /// The libraries as they are now.
    pub fn current(&self) -> Arc<LibrarySet> {
        self.current.lock().clone()
    }

    /// Counts the times that all were removed.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// What a function promises; nothing if there is none of this name.
    pub fn flags(&self, name: &[u8]) -> Option<ScriptFlags> {
        let name = std::str::from_utf8(name).ok()?;
        let current = self.current.lock();
        current.function(name).map(|(_, function)| function.flags)
    }

    /// Makes a library of its text, and returns its name.
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

    /// Makes libraries of their texts and adds them, all or none.
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
        restored
            .libraries
            .into_values()
            .for_each(|library| set.put(library));
        Ok(())
    }

    /// Removes a library; false if there is none of this name.
    pub fn delete(&self, name: &[u8]) -> bool {
        let mut current = self.current.lock();
        let name = std::str::from_utf8(name).ok();
        let found = name.filter(|name| current.library(name).is_some());
        found.is_some_and(|name| Arc::make_mut(&mut current).remove(name).is_some())
    }

    /// Removes all libraries; returns what there was.
    pub fn flush(&self) -> Arc<LibrarySet> {
        let all = std::mem::take(&mut *self.current.lock());
        self.flushes.fetch_add(1, Ordering::Release);
        all
    }

    /// Bytes of the libraries' texts and of what leads to them.
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

/// The name in a library's first line, and where the rest begins: at the line's end, so that lines
/// keep their numbers.
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
/// A library must have named its functions by then.
const LOAD_TIME_MAX: Duration = Duration::from_millis(500);
