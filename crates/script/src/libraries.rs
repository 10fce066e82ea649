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

    fn remove(&mut self, name: &str) -> Option<Arc<Library>> {
        let library = self.libraries.remove(name)?;
        self.functions
            .retain(|_, (other, _)| !Arc::ptr_eq(other, &library));
        Some(library)
    }

    /// Adds a library whose name is free; refuses functions that others have.
    fn add(&mut self, library: Arc<Library>) -> Result<(), String> {
        let mut functions = library.functions.iter();
        if let Some(taken) = functions.find(|function| self.function(&function.name).is_some()) {
            return Err(format!("ERR Function {} already exists", taken.name));
        }
        for (place, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase();
            self.functions.insert(name, (library.clone(), place));
        }
        self.libraries.insert(library.name.clone(), library);
        Ok(())
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
            let taken = self.current.lock().libraries.contains_key(name);
            match taken && !replace {
                true => Err(format!("ERR Library '{name}' already exists")),
                false => Ok(()),
            }
        })?;
        let name = library.name.clone();
        let changed = self.change(|set| {
            set.remove(&name);
            set.add(library)
        });
        engine.forget_others(&self.current());
        changed.map(|()| name)
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
                match restored.libraries.contains_key(name) {
                    true => Err(format!("ERR Library '{name}' already exists")),
                    false => Ok(()),
                }
            })?;
            restored.add(library)?;
        }
        self.change(|set| {
            if policy == RestorePolicy::Flush {
                *set = LibrarySet::default();
            }
            for library in restored.libraries.values() {
                let taken = set.libraries.contains_key(&library.name);
                if taken && policy == RestorePolicy::Append {
                    return Err(format!("ERR Library {} already exists", library.name));
                }
                set.remove(&library.name);
            }
            restored
                .libraries
                .into_values()
                .try_for_each(|library| set.add(library))
        })
    }

    /// Removes a library; false if there is none of this name.
    pub fn delete(&self, name: &[u8]) -> bool {
        let Ok(name) = std::str::from_utf8(name) else {
            return false;
        };
        let removed = self.change(|set| set.remove(name).map(drop).ok_or_else(String::new));
        removed.is_ok()
    }

    /// Removes all libraries.
    pub fn flush(&self) {
        let _ = self.change(|set| {
            *set = LibrarySet::default();
            Ok(())
        });
        self.flushes.fetch_add(1, Ordering::Release);
    }

    /// A changed copy takes the place of what is there, unless the change fails.
    fn change(
        &self,
        change: impl FnOnce(&mut LibrarySet) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut current = self.current.lock();
        let mut changed = LibrarySet::clone(&current);
        change(&mut changed)?;
        *current = Arc::new(changed);
        Ok(())
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
