use mlua::{Function, Lua, LuaOptions, StdLib, Table};

use super::library;

/// Compares the Lua library with this implementation for random patterns and subjects.
struct Both {
    lua: Lua,
    judge: Function,
}

impl Both {
    fn new() -> Self {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default()).unwrap();
        let source = include_str!("../../library.lua");
        for (name, is_wrapped) in [("own", true), ("unwrapped", false)] {
            let strings = library(&lua).unwrap();
            if !is_wrapped {
                let never = lua.create_function(|_, ()| Ok(-1)).unwrap();
                strings.raw_set("quick_length", never).unwrap();
            }
            let own: Table = lua.load(source).set_name("=own").call(strings).unwrap();
            lua.globals().set(name, own).unwrap();
        }
        let judge = lua.load(JUDGE).set_name("=judge").eval().unwrap();
        Both { lua, judge }
    }
}

#[test]
fn patterns_match_as_in_the_lua_library() {
    let both = Both::new();
    let mut random = Random(0x5EED_0001);
    for round in 0..150_000_u64 {
        let (subject, pattern) = (random.subject(), random.pattern());
        let replacement = random.of(REPLACEMENTS, 4);
        let from = random.below(14) as i64 - 5;
        let limit = random.below(6) as i64 - 1;
        let lua = &both.lua;
        let text = |bytes: &[u8]| lua.create_string(bytes).unwrap();
        let arguments = (
            text(&subject),
            text(&pattern),
            text(&replacement),
            from,
            limit,
            round % 3 == 0,
        );
        let difference: Option<mlua::LuaString> = both.judge.call(arguments).unwrap();
        let difference = difference.map(|text| text.to_string_lossy());
        assert_eq!(
            difference,
            None,
            "round {round}: subject {:?}, pattern {:?}, replacement {:?}, from {from}, limit {limit}",
            subject.escape_ascii().to_string(),
            pattern.escape_ascii().to_string(),
            replacement.escape_ascii().to_string(),
        );
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn of(&mut self, parts: &[&[u8]], most: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..self.below(most + 1) {
            out.extend_from_slice(parts[self.below(parts.len())]);
        }
        out
    }

    fn subject(&mut self) -> Vec<u8> {
        let bytes: &[u8] = match self.below(3) {
            0 => b"ab",
            1 => b"abA1(). -%\0",
            _ => b"aA1_ \t\n\x0b.,[]()^$%-\0\x7f\x80\xff\xe9",
        };
        let length = self.below(14);
        (0..length)
            .map(|_| bytes[self.below(bytes.len())])
            .collect()
    }

    fn pattern(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => self.of(LITERALS, 4),
            1..6 => self.of(ITEMS, 6),
            // Mostly invalid patterns.
            _ => {
                let bytes = b"ab()[]^$%-*+?.bf1]\0";
                let length = self.below(8);
                (0..length)
                    .map(|_| bytes[self.below(bytes.len())])
                    .collect()
            }
        }
    }
}

const LITERALS: &[&[u8]] = &[b"a", b"b", b"ab", b"1", b"\0", b"A"];
const ITEMS: &[&[u8]] = &[
    b"a",
    b"b",
    b".",
    b"a*",
    b"a+",
    b"a-",
    b"a?",
    b".-",
    b".*",
    b".?",
    b"(",
    b")",
    b"()",
    b"^",
    b"$",
    b"%a",
    b"%A",
    b"%d+",
    b"%s*",
    b"%p-",
    b"%w?",
    b"%x",
    b"%z",
    b"%c",
    b"%u",
    b"%l",
    b"%L",
    b"%%",
    b"%.",
    b"%(",
    b"%1",
    b"%2",
    b"%bab",
    b"%b()",
    b"%f[%a]",
    b"%f[^a]",
    b"%f[%z]",
    b"[ab]",
    b"[^a]*",
    b"[a-z]+",
    b"[%a_]-",
    b"[]]",
    b"[^]a]?",
    b"[a-]",
    b"[%]]",
    b"[%a-z]",
    b"\x80-\xff",
    b"[\x80-\xff]",
    b"(a*)",
    b"(.)",
    b"(.-)b",
    b"(a)(b)",
    b"%0",
    b"\0",
    b"-",
    b"*",
    b"?",
];
const REPLACEMENTS: &[&[u8]] = &[
    b"x", b"%0", b"%1", b"%2", b"%%", b"%", b"%a", b"<%1>", b"\0", b"yy", b"",
];

/// Calls each function in both implementations and reports the first difference.
const JUDGE: &str = r#"
local wrapped = own.string
local function pack(...) return { n = select('#', ...), ... } end
local function same(one, other)
  if one.n ~= other.n then return false end
  for at = 1, one.n do
    local left, right = one[at], other[at]
    if at > 1 and not one[1] then
      -- Errors of Rust functions are values of their own, and begin with a place or do not.
      left, right = tostring(left), tostring(right)
      left = string.gsub(left, '^[^:\n]*:%d+: ', '')
      right = string.gsub(string.match(right, '^[^\n]*'), '^runtime error: ', '')
      right = string.gsub(right, '^[^:\n]*:%d+: ', '')
    end
    if left ~= right then return false end
  end
  return true
end
local function told(list)
  local parts = {}
  for at = 1, list.n do parts[at] = tostring(list[at]) end
  return table.concat(parts, ', ')
end
local function every(gmatch, subject, pattern)
  local all, count = {}, 0
  for one, two in gmatch(subject, pattern) do
    count = count + 1
    all[count] = tostring(one) .. '|' .. tostring(two)
    if count > 50 then break end
  end
  return table.concat(all, ';')
end
return function(subject, pattern, replacement, from, limit, is_wrapped)
  -- Without it nothing is left to the library.
  local own = is_wrapped and wrapped or unwrapped.string
  if limit < 0 then limit = nil end
  local table_of = { a = 'T', b = false, ab = 7, [''] = 'E', [1] = 'P', A = {} }
  local function by(one, two)
    if one == 'b' then return nil end
    return two or 'F'
  end
  local calls = {
    { 'find', subject, pattern },
    { 'find', subject, pattern, from },
    { 'find', subject, pattern, from, true },
    { 'match', subject, pattern },
    { 'match', subject, pattern, from },
    { 'gsub', subject, pattern, replacement },
    { 'gsub', subject, pattern, replacement, limit },
    { 'gsub', subject, pattern, by, limit },
    { 'gsub', subject, pattern, table_of, limit },
  }
  for _, call in ipairs(calls) do
    local theirs = pack(pcall(string[call[1]], unpack(call, 2, 5)))
    local ours = pack(pcall(own[call[1]], unpack(call, 2, 5)))
    if not same(theirs, ours) then
      return call[1] .. ' ' .. tostring(call[4]) .. ': ' .. told(theirs) .. ' / ' .. told(ours)
    end
  end
  local theirs = pack(pcall(every, string.gmatch, subject, pattern))
  local ours = pack(pcall(every, own.gmatch, subject, pattern))
  if not same(theirs, ours) then
    return 'gmatch: ' .. told(theirs) .. ' / ' .. told(ours)
  end
end
"#;
