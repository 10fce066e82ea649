//! Proofs of concept of known attacks on Lua 5.1 and its libraries. None may end the process, read
//! memory outside of the script, or affect other scripts.
//!
//! Tests run on threads with stacks as small as a lane's.

use std::borrow::Cow;
use std::sync::Arc;

use tidewire_resp::{ArgumentList, Arguments, Protocol, Writer};
use tidewire_script::{Engine, Host, Purpose, Script};

struct Nobody;

impl Host for Nobody {
    fn call(
        &mut self,
        _: Arguments<'_>,
        _: Protocol,
        _: &mut Vec<u8>,
    ) -> Result<(), Cow<'static, str>> {
        Err("ERR there are no commands here".into())
    }

    fn may_run(&mut self, _: Arguments<'_>) -> Option<bool> {
        None
    }

    fn set_replication(&mut self, _: bool, _: bool) {}

    fn is_killed(&mut self) -> bool {
        false
    }

    fn note_error(&mut self, _: &str, _: bool) {}
}

struct Lua(Engine);

impl Lua {
    fn new() -> Self {
        Lua(Engine::new(Purpose::Scripts, false).unwrap())
    }

    fn with_deprecated() -> Self {
        Lua(Engine::new(Purpose::Scripts, true).unwrap())
    }

    fn run(&mut self, body: &str) -> String {
        let script = Arc::new(Script::new(body.as_bytes()).unwrap());
        let (words, mut out) = (ArgumentList::new(), Vec::new());
        let mut reply = Writer::new(&mut out, Protocol::Resp2);
        let words = words.as_arguments();
        match self.0.eval(&script, words, 0, &mut Nobody, &mut reply) {
            Ok(()) => String::from_utf8_lossy(&out).replace("\r\n", " "),
            Err(failure) => format!("-{}", failure.text),
        }
    }

    /// Asserts that the script returns `true`, which becomes the integer 1.
    fn holds(&mut self, body: &str) {
        assert_eq!(self.run(body), ":1 ", "{body}");
    }
}

#[test]
fn cve_2025_49844_the_name_of_a_chunk_lives_as_long_as_its_parser() {
    let mut lua = Lua::new();
    lua.holds(
        "collectgarbage('setpause', 1) collectgarbage('setstepmul', 100000)
         for i = 1, 40 do
           local code = string.rep('local a = {x = \"y\" .. 1} ', 150) .. 'nonsense here'
           local _, problem = loadstring(code, '=' .. string.rep('n', 40) .. i)
           if not string.find(problem, '^' .. string.rep('n', 40) .. i .. ':1:') then
             return problem
           end
           local _, other = load(function() collectgarbage() return nil end, '=' .. i)
         end
         return true",
    );
    // Without a name, the text itself is the name, and nothing else keeps it alive.
    lua.holds(
        "for i = 1, 40 do
           local _, problem = loadstring(string.rep('local a = {} ', 100 + i) .. 'x x')
           collectgarbage()
           if not string.find(problem, 'local a = {}', 1, true) then return problem end
         end
         return true",
    );
}

#[test]
fn cve_2025_46817_unpack_does_not_overflow_its_count() {
    let mut lua = Lua::new();
    for range in [
        "0, 2147483647",
        "-2147483648, 2147483647",
        "1, 4294967296",
        "-2147483648, -2147483648 + 8000",
        "1, 1e300",
        "2147483640, 2147483647 + 8000",
    ] {
        let body = format!("local ok, text = pcall(unpack, {{}}, {range}) return not ok or #text");
        lua.holds(&body);
    }
    lua.holds("return select('#', unpack({}, 2147483640, 2147483647)) == 8");
    lua.holds("return select('#', unpack({}, 1, 7000)) == 7000");
}

#[test]
fn cve_2025_46818_metatables_of_basic_types_are_out_of_reach() {
    let mut lua = Lua::new();
    for attempt in [
        "getmetatable('').__index = function() return 'stolen' end",
        "getmetatable('').__add = function() return 'stolen' end",
        "rawset(getmetatable(''), '__add', function() return 'stolen' end)",
        "setmetatable('', {__add = function() return 'stolen' end})",
        "string.find = function() return 'stolen' end",
        "rawset(string, 'find', function() return 'stolen' end)",
        "getmetatable(string).__index.find = function() return 'stolen' end",
        "getmetatable(_G).__index.string = {}",
        "table.insert(string, 'stolen')",
        "string.gsub.x = 1",
    ] {
        let caught = lua.run(&format!("return not pcall(function() {attempt} end)"));
        assert_eq!(caught, ":1 ", "{attempt}");
        lua.holds("return ('abc'):find('b') == 2 and not pcall(function() return 'a' + {} end)");
    }
    lua.holds(
        "for _, value in pairs({1, true, function() end, coroutine.create(function() end)}) do
           if getmetatable(value) ~= nil then return false end
         end
         return getmetatable(nil) == nil",
    );
}

#[test]
fn cve_2025_46819_an_open_long_bracket_does_not_read_past_the_text() {
    let mut lua = Lua::new();
    lua.holds(
        "for length = 0, 40 do
           local level = string.rep('=', length)
           local inside = 'return [' .. level .. '[x]'
           for _, start in ipairs({'return [', '--[', 'return {[', 'a[', inside}) do
             local whole = start .. level
             local ends = {whole, whole .. '[', whole .. '[\\n', whole .. '[]' .. level}
             for _, text in ipairs(ends) do
               loadstring(text)
               load(function() local part = text text = nil return part end)
             end
           end
         end
         return true",
    );
    lua.holds("return select(2, loadstring('return [==[')) ~= nil");
}

#[test]
fn cve_2024_46981_the_collector_runs_no_code_of_a_script() {
    for mut lua in [Lua::new(), Lua::with_deprecated()] {
        lua.holds(
            "local ran = false
             local value = setmetatable({}, {__gc = function() ran = true end, __mode = 'kv'})
             value = nil
             if pcall(function() return newproxy end) then
               local proxy = newproxy(true)
               getmetatable(proxy).__gc = function() ran = true collectgarbage() end
               proxy = nil
             end
             for _ = 1, 5 do collectgarbage() end
             return not ran",
        );
    }
}

#[test]
fn cve_2022_24834_the_encoders_do_not_overflow_their_buffers() {
    let mut lua = Lua::new();
    lua.holds("return #cjson.encode(string.rep('\\1', 1000000)) == 6000002");
    lua.holds("return #cjson.encode({[string.rep('\"', 300000)] = 1}) == 600006");
    lua.holds("return #cmsgpack.pack(string.rep('x', 1000000)) == 1000005");
    lua.holds(
        "local list = {} for i = 1, 100000 do list[i] = 1 / 3 end
         return #cjson.decode(cjson.encode(list)) == 100000",
    );
}

#[test]
fn a_pattern_of_many_repeated_items_is_refused_and_does_not_end_the_process() {
    let mut lua = Lua::new();
    for item in ["a?", "a*", "a-", ".?", "[ab]?", "%a?", "%d*", "a+"] {
        for call in [
            "string.find(text, pattern)",
            "string.match(text, pattern)",
            "string.gsub(text, pattern, '')",
            "string.gmatch(text, pattern)()",
            "text:find(pattern)",
            "text:gsub(pattern, 'x')",
        ] {
            let body = format!(
                "local text = ('a'):rep(50000)
                 local pattern = ('{item}'):rep(50000)
                 local ok, problem = pcall(function() return {call} end)
                 return not ok and problem:find('pattern too complex', 1, true) ~= nil"
            );
            lua.holds(&body);
        }
    }
    lua.holds("return not pcall(string.gfind, 'a', ('a?'):rep(50000))");
    // Up to the limit, it is matched on a lane's stack.
    for item in ["a?", "a-"] {
        let body = format!(
            "local ok = string.find(('a'):rep(4000), '^' .. ('{item}'):rep(4000)) return ok == 1"
        );
        lua.holds(&body);
    }
    lua.holds("return string.find('', ('a*'):rep(4000)) == 1");
    // Long patterns without repeated items have no limit.
    lua.holds("return ('-'):rep(9000):find(('%-'):rep(9000)) == 1");
    lua.holds("return ('x'):rep(9000):find(('x'):rep(9000)) == 1");
    lua.holds("return ('-'):find('[' .. ('a+'):rep(5000) .. '-]') == 1");
    let refusal = lua.run("local at = string.find('a', ('a?'):rep(5000)) return at");
    assert!(
        refusal.starts_with("-ERR user_script:1: pattern too complex"),
        "{refusal}"
    );
}

#[test]
fn functions_of_patterns_name_themselves_in_their_errors() {
    let mut lua = Lua::new();
    for (call, text) in [
        ("string.find('x')", "bad argument #2 to 'find'"),
        ("string.match({}, 'x')", "bad argument #1 to 'match'"),
        ("string.gsub('x', 'x')", "bad argument #3 to 'gsub'"),
        ("string.gmatch('x')", "bad argument #2 to 'gmatch'"),
        ("string.find('x', '[')", "malformed pattern"),
    ] {
        let refusal = lua.run(&format!("local found = {call} return found"));
        assert!(refusal.contains(text), "{call}: {refusal}");
        assert!(refusal.contains("user_script:1"), "{call}: {refusal}");
    }
}

#[test]
fn recursion_of_any_kind_ends_with_an_error() {
    let mut lua = Lua::new();
    for body in [
        "local t = {} for i = 1, 5000 do t = {t} end return t",
        "local t = {} for i = 1, 5000 do t = {t} end return cjson.encode(t)",
        "local t = {} for i = 1, 5000 do t = {t} end return #cmsgpack.pack(t)",
        "return cjson.decode(('['):rep(1000000))",
        "return cmsgpack.unpack(('\\145'):rep(1000000))",
        "return loadstring('return ' .. ('('):rep(100000))",
        "return loadstring('return ' .. ('{'):rep(100000))",
        "return loadstring(('do '):rep(100000))",
        "return loadstring('return ' .. ('not '):rep(100000) .. '1')",
        "return loadstring('return ' .. ('- '):rep(100000) .. '1')",
        "return loadstring('return ' .. ('1 ^ '):rep(100000) .. '1')",
        "return loadstring('return ' .. ('1 .. '):rep(100000) .. '1')",
        "return loadstring(('return function() '):rep(100000))",
        "return loadstring('x = ' .. ('a{'):rep(100000))",
        "return loadstring(('if x then '):rep(100000))",
        "return loadstring(('while x do '):rep(100000))",
        "return loadstring('local ' .. ('a, '):rep(100000) .. 'a')",
        "return loadstring(('a, '):rep(100000) .. 'a = 1')",
        "local m = {} m.__tostring = function(x) return tostring(x) end
         return tostring(setmetatable({}, m))",
        "local t = setmetatable({}, {}) getmetatable(t).__concat = function(a, b) return a .. b end
         return t .. t",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(x, k) return x[k] end
         return t.x",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        "local t = setmetatable({}, {}) getmetatable(t).__newindex = t t.x = 1 return t.x",
        "local t = setmetatable({}, {}) getmetatable(t).__call = t return t()",
        "local m = {} m.__eq = function(a, b) return a == b end
         return setmetatable({}, m) == setmetatable({}, m)",
        "local m = {} m.__lt = function(a, b) return a < b end
         return setmetatable({}, m) < setmetatable({}, m)",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local function f() return select(2, coroutine.resume(coroutine.create(f))) end return f()",
        "local function f() return (('x'):gsub('x', f)) end return f()",
        "local function f() table.sort({2, 1}, f) return true end return f()",
        "local function f() local ok = pcall(f) return ok end return f()",
        "local function f() local ok = xpcall(f, f) return ok end return f()",
        "local function f() error({}) end return xpcall(f, f)",
        "local function f() return 1 + f() end return f()",
        "local m = {__index = function(t, k) return t[k + 1] end}
         return table.concat(setmetatable({}, m), '', 1, 2)",
        "local t = {} for i = 1, 100 do t[i] = i end
         table.sort(t, function() return true end) return #t",
        "return string.format('%' .. ('9'):rep(100) .. 'd', 1)",
        "return string.format(('%s'):rep(100000), 1)",
        "return (('%1'):rep(1000)):gsub('(%1)', '%1')",
        "return ('x'):gsub(('('):rep(100), '')",
        "return struct.unpack(('i'):rep(100000), ('x'):rep(400000))",
    ] {
        let _ = lua.run(body);
        lua.holds("return 1 + 1 == 2 and ('x'):rep(2) == 'xx'");
    }
}

#[test]
fn a_negative_length_exceeds_the_available_data() {
    let mut lua = Lua::new();
    lua.holds("return struct.unpack('bc0', '\\3abc') == 'abc'");
    lua.holds("return select(2, struct.unpack('bc0', '\\3abcd')) == 5");
    for call in [
        "struct.unpack('bc0', '\\255abc')",
        "struct.unpack('bc0', '\\128abc')",
        "struct.unpack('bc0', '\\4abc')",
        "struct.unpack('dc0', struct.pack('d', 1e300) .. 'abc')",
        "struct.unpack('dc0', struct.pack('d', 0/0) .. 'abc')",
    ] {
        let body = format!(
            "local ok, text = pcall(function() return {call} end)
             return not ok and text:find('data string too short', 1, true) ~= nil"
        );
        lua.holds(&body);
    }
    for call in [
        "struct.unpack('c0', 'abc')",
        "struct.unpack('sc0', 'x\\0abc')",
    ] {
        lua.holds(&format!(
            "local ok, text = pcall(function() return {call} end)
             return not ok and text:find(\"format 'c0' needs a previous size\", 1, true) ~= nil"
        ));
    }
}
