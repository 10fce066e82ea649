//! Scripts and functions as clients see them, with a host that answers a few commands.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use tidewire_resp::{ArgumentList, Arguments, Protocol, Writer};
use tidewire_script::{Engine, Host, Libraries, Purpose, RestorePolicy, Script};

#[derive(Default)]
struct Store {
    values: HashMap<Vec<u8>, Vec<u8>>,
    calls: usize,
    /// Remaining checks before the host ends the script.
    looks: Option<usize>,
    errors: Vec<(String, bool)>,
    /// The calls of `redis.set_repl`: to replicas, to the file.
    replication: Vec<(bool, bool)>,
}

impl Host for Store {
    fn call(
        &mut self,
        arguments: Arguments<'_>,
        protocol: Protocol,
        reply: &mut Vec<u8>,
    ) -> Result<(), Cow<'static, str>> {
        self.calls += 1;
        let mut reply = Writer::new(reply, protocol);
        match &arguments[0] {
            b"set" => {
                let (key, value) = (arguments[1].to_vec(), arguments[2].to_vec());
                self.values.insert(key, value);
                reply.ok();
            }
            b"get" => match self.values.get(&arguments[1]) {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            },
            b"echo" => {
                reply.array(arguments.len() - 1);
                arguments.tail(1).iter().for_each(|word| reply.bulk(word));
            }
            b"raw" => reply.raw(&arguments[1]),
            b"fail" => reply.error("CODE it went wrong"),
            _ => return Err("ERR Unknown Redis command called from script".into()),
        }
        Ok(())
    }

    fn may_run(&mut self, arguments: Arguments<'_>) -> Option<bool> {
        (&arguments[0] != b"nosuch").then(|| &arguments[0] == b"get")
    }

    fn set_replication(&mut self, to_replicas: bool, to_file: bool) {
        self.replication.push((to_replicas, to_file));
    }

    fn is_killed(&mut self) -> bool {
        let Some(looks) = &mut self.looks else {
            return false;
        };
        *looks = looks.saturating_sub(1);
        *looks == 0
    }

    fn note_error(&mut self, text: &str, is_counted: bool) {
        self.errors.push((text.to_owned(), is_counted));
    }
}

struct Runner {
    engine: Engine,
    store: Store,
    protocol: Protocol,
}

impl Runner {
    fn new() -> Self {
        Runner {
            engine: Engine::new(Purpose::Scripts, false).unwrap(),
            store: Store::default(),
            protocol: Protocol::Resp2,
        }
    }

    /// Returns the reply, or the error with a leading `-`.
    fn eval(&mut self, body: &str, words: &[&str], keys: usize) -> String {
        let script = Arc::new(Script::new(body.as_bytes()).unwrap());
        let words: ArgumentList = words.iter().collect();
        let mut out = Vec::new();
        let mut reply = Writer::new(&mut out, self.protocol);
        let words = words.as_arguments();
        let store = &mut self.store;
        match self.engine.eval(&script, words, keys, store, &mut reply) {
            Ok(()) => String::from_utf8_lossy(&out).replace("\r\n", " "),
            Err(failure) => {
                assert!(out.is_empty(), "a failure has written nothing");
                let text = failure.text.replace(&script.name, "SHA");
                format!("-{text}")
            }
        }
    }

    fn run(&mut self, body: &str) -> String {
        self.eval(body, &[], 0)
    }

    /// Returns the raw reply.
    fn run_raw(&mut self, body: &str) -> Vec<u8> {
        let script = Arc::new(Script::new(body.as_bytes()).unwrap());
        let (words, mut out) = (ArgumentList::new(), Vec::new());
        let mut reply = Writer::new(&mut out, self.protocol);
        let ended = self.engine.eval(
            &script,
            words.as_arguments(),
            0,
            &mut self.store,
            &mut reply,
        );
        ended.unwrap();
        out
    }
}

#[test]
fn large_numbers_are_passed_to_commands_as_in_redis() {
    let table = [
        ("5580324750113222373", "5580324750113223000"),
        ("4611686018427387904", "4611686018427387904"),
        ("9007199254740993", "9007199254740992"),
        ("-0.0", "0"),
        ("0.5", "0.5"),
        ("1e20", "1e+20"),
        ("0/0", "-nan"),
        ("-(0/0)", "nan"),
    ];
    for (number, text) in table {
        let got = Runner::new().run(&format!("return redis.call('echo', {number})"));
        assert_eq!(got, format!("*1 ${} {text} ", text.len()), "{number}");
    }
}

#[test]
fn json_may_be_at_most_a_thousand_tables_deep() {
    let nested = |depth: usize, more: &str| {
        let body = format!(
            "local t = {{x=1}} for i = 2, {depth} do t = {{x=t}} end {more} return #cjson.encode(t)"
        );
        Runner::new().run(&body)
    };
    assert_eq!(nested(1_000, ""), format!(":{} ", 1_000 * 6 + 1));
    let excessive = "Cannot serialise, excessive nesting (1001)";
    assert!(nested(1_001, "").contains(excessive));
    assert!(nested(1, "t.x = t").contains(excessive));
}

#[test]
fn non_utf8_bytes_survive_in_status_and_error_replies() {
    for (body, reply) in [
        ("return {ok='a\\255b'}", &b"+a\xffb\r\n"[..]),
        ("return {err='ERR a\\255b'}", b"-ERR a\xffb\r\n"),
        ("return {big_number='1\\255'}", b"$2\r\n1\xff\r\n"),
    ] {
        assert_eq!(Runner::new().run_raw(body), reply, "{body}");
    }
}

#[test]
fn values_of_lua_become_replies() {
    let table = [
        ("return 'hello'", "$5 hello "),
        ("return 3.99", ":3 "),
        ("return -1e300", ":-9223372036854775808 "),
        ("return true", ":1 "),
        ("return false", "$-1 "),
        ("return", "$-1 "),
        ("return {1,{2,'x'},nil,4}", "*2 :1 *2 :2 $1 x "),
        ("return {ok='fine'}", "+fine "),
        ("return {err='ERR no'}", "-ERR no "),
        ("return {double=1.5}", "$3 1.5 "),
        ("return {map={a=1}}", "*2 $1 a :1 "),
        ("return {set={a=true}}", "*1 $1 a "),
        ("return {big_number='12\\r\\n3'}", "$5 12  3 "),
        (
            "return {verbatim_string={format='txt',string='hi'}}",
            "$2 hi ",
        ),
        (
            "return print == nil",
            "-ERR user_script:1: Script attempted",
        ),
        ("return redis.error_reply('MY no')", "-MY no "),
        ("return redis.status_reply('yes')", "+yes "),
        ("return _G", "*0 "),
        ("local a = {} a[1] = a return a", "*1 *1 *1 "),
    ];
    for (body, reply) in table {
        let got = Runner::new().run(body);
        assert!(got.starts_with(reply), "{body}: {got}");
    }
    let mut runner = Runner::new();
    runner.protocol = Protocol::Resp3;
    let table = [
        ("redis.setresp(3) return true", "#t "),
        ("return true", ":1 "),
        ("return {double=1.5}", ",1.5 "),
        ("return {map={a=1}}", "%1 $1 a :1 "),
        ("return false", "_ "),
    ];
    for (body, reply) in table {
        assert_eq!(runner.run(body), reply, "{body}");
    }
}

#[test]
fn replies_become_values_of_lua() {
    let table = [
        (":7\r\n", "number 7"),
        ("$2\r\nhi\r\n", "string hi"),
        ("$-1\r\n", "boolean false"),
        ("*-1\r\n", "boolean false"),
        ("_\r\n", "nil nil"),
        ("#t\r\n", "boolean true"),
        ("+OK\r\n", "table OK"),
        ("%1\r\n+a\r\n:1\r\n", "table map"),
        (",2.5\r\n", "table 2.5"),
        ("|1\r\n+a\r\n:1\r\n:9\r\n", "number 9"),
        ("", "nil nil"),
        ("*3\r\n", "table 0"),
    ];
    let body = "local v = redis.call('raw', ARGV[1])
        local shown = v
        if type(v) == 'table' then
          shown = v.ok or v.double or (v.map and 'map') or #v
        end
        return type(v) .. ' ' .. tostring(shown)";
    for (raw, expected) in table {
        let got = Runner::new().eval(body, &[raw], 0);
        let length = expected.len();
        assert_eq!(got, format!("${length} {expected} "), "{raw:?}");
    }
}

#[test]
fn errors_contain_their_location() {
    let table = [
        (
            "error('boo')",
            "-ERR user_script:1: boo script: SHA, on @user_script:1.",
        ),
        (
            "\nreturn redis.call('fail')",
            "-CODE it went wrong script: SHA, on @user_script:2.",
        ),
        (
            "redis.call('nosuch')",
            "-ERR Unknown Redis command called from script script: SHA, on @user_script:1.",
        ),
        (
            "error({err='MY own'})",
            "-MY own script: SHA, on @user_script:1.",
        ),
        (
            "error({})",
            "-ERR unknown error script: SHA, on @user_script:1.",
        ),
        (
            "return redis.call()",
            "-ERR Please specify at least one argument for this redis lib call script: SHA, on \
             @user_script:1.",
        ),
        (
            "redis.call('get', {})",
            "-ERR Lua redis lib command arguments must be strings or integers script: SHA, on \
             @user_script:1.",
        ),
        (
            "local t = unpack({1}, 0, 1e9)",
            "-ERR user_script:1: too many results to unpack script: SHA, on @user_script:1.",
        ),
        (
            "local t = table.insert({}, 1, 2, 3)",
            "-ERR user_script:1: wrong number of arguments to 'insert' script: SHA, on \
             @user_script:1.",
        ),
        ("return redis.pcall('fail')", "-CODE it went wrong "),
        (
            "local ok, e = pcall(redis.call, 'fail') return e",
            "$18 CODE it went wrong ",
        ),
        (
            "local ok, e = pcall(error, {err='MY own'}) return e",
            "$6 MY own ",
        ),
        (
            "return select(2, pcall(cjson.decode, '[1,'))",
            "$45 Expected value but found T_END",
        ),
        (
            "return #",
            "-ERR Error compiling script (new function): user_script:1:",
        ),
        ("return redis.acl_check_cmd('get')", ":1 "),
        ("return redis.acl_check_cmd('set')", "$-1 "),
        (
            "redis.acl_check_cmd('nosuch')",
            "-ERR Invalid command passed to redis.acl_check_cmd()",
        ),
    ];
    for (body, reply) in table {
        let got = Runner::new().run(body);
        assert!(got.starts_with(reply), "{body}: {got}");
    }
    let mut runner = Runner::new();
    runner.run("return {redis.pcall('fail'), {err='MY own'}}");
    let counted = [
        ("CODE it went wrong".into(), true),
        ("MY own".into(), false),
    ];
    assert_eq!(runner.store.errors, counted);
}

#[test]
fn nothing_that_outlives_a_script_can_be_changed() {
    let readonly = [
        "a = 1",
        "redis = nil",
        "redis.call = nil",
        "_G.x = 1",
        "_G = {}",
        "string.rep = nil",
        "cjson.encode = nil",
        "rawset(_G, 'x', 1)",
        "rawset(string, 'x', 1)",
        "setmetatable(_G, {})",
        "setmetatable(redis, {})",
        "getmetatable(_G).__index = {}",
        "getmetatable('').__index = {}",
        "table.insert(redis, 1)",
        "table.remove(redis)",
        "table.sort(string)",
        "local n, t = pairs(redis) t.call = 1",
        "for k, v in pairs(_G) do _G[k] = 1 end",
        "KEYS = {}",
        "coroutine.wrap(function() os.clock = nil end)()",
        "loadstring('x = 1')()",
    ];
    let mut runner = Runner::new();
    for body in readonly {
        let got = runner.run(body);
        let text = "Attempt to modify a readonly table";
        assert!(got.contains(text), "{body}: {got}");
    }
    let absent = [
        "print",
        "dofile",
        "loadfile",
        "require",
        "package",
        "io",
        "debug",
        "module",
        "newproxy",
        "setfenv",
        "getfenv",
        "os.execute",
        "os.exit",
        "os.getenv",
        "ARGV.x.y",
        "string.x.y",
    ];
    for name in absent {
        let got = runner.run(&format!("{name}()"));
        assert!(got.starts_with("-ERR "), "{name}: {got}");
        assert!(!got.contains("readonly"), "{name}: {got}");
    }
    let bytecode = "return (loadstring(string.dump(function() end)))";
    assert_eq!(runner.run(bytecode), "$-1 ");
    let reader = "local p = {'\\27Lua'} return (load(function() return table.remove(p) end))";
    assert_eq!(runner.run(reader), "$-1 ");
    let all = "local n = {} for k in pairs(redis) do n[#n + 1] = k end return #n > 10";
    assert_eq!(runner.run(all), ":1 ");
    assert_eq!(runner.run("KEYS[1] = 'x' return KEYS[1]"), "$1 x ");
    assert_eq!(runner.run("return #KEYS"), ":0 ");
}

/// Asserts that each script is ended by the third check, and that the next script runs normally.
fn assert_killed(scripts: &[&str]) {
    let mut runner = Runner::new();
    for body in scripts {
        runner.store.looks = Some(3);
        let got = runner.run(body);
        assert!(
            got.contains("Script killed by user with SCRIPT KILL..."),
            "{body}: {got}"
        );
        runner.store.looks = None;
        assert_eq!(runner.run("return 1"), ":1 ");
    }
}

#[test]
fn a_killed_script_ends_in_any_lua_code() {
    let scripts = [
        "while true do end",
        "local f = function() while 1 do redis.call('get', 'x') end end while 1 do pcall(f) end",
        "while true do pcall(function() while true do end end) end",
        "local f = coroutine.wrap(function() while true do end end) while 1 do pcall(f) end",
        "while true do xpcall(function() while true do end end, function(e) return e end) end",
        "local function h() while true do end end
         while true do xpcall(function() error('x') end, h) end",
        "local function h() while true do end end
         while true do xpcall(function() while true do end end, h) end",
        "local function h() while true do end end
         local function g() xpcall(h, h) h() end
         while true do pcall(function() xpcall(function() xpcall(h, g) end, g) end) end",
        "local t = setmetatable({}, {__index = function(t, k) while true do end end})
         while true do xpcall(function() return t.x end, function() return t.y end) end",
        "local function h() while true do end end
         while true do coroutine.wrap(function() xpcall(h, h) h() end)() end",
        "local t = {} for i = 1, 100 do t[i] = i end
         while true do table.sort(t, function(a, b) return a > b end) end",
    ];
    assert_killed(&scripts);
}

#[test]
fn a_killed_script_ends_inside_library_functions() {
    let scripts = [
        "return string.gsub(('a'):rep(200000), 'a*a*a*b', 'x')",
        "return string.find(('a'):rep(200000), '.-.-.-.-b')",
        "return string.match(('a'):rep(200000), '(a*)(a*)(a*)%1%2%3b')",
        "for word in string.gmatch(('a'):rep(200000), 'a+a+a+b') do end",
        "return string.gsub(('a'):rep(200000), 'a*a*a*b', function() end)",
        "return string.gsub(('a'):rep(200000), 'a*a*a*b', {})",
        "return string.find(('('):rep(2000000), '%b()%b()')",
        "return string.find(('a'):rep(2000000), ('a'):rep(1000000) .. 'b', 1, true)",
        "return string.find(('a'):rep(20000), '[' .. ('b'):rep(1000000) .. ']')",
        "while true do pcall(string.find, ('a'):rep(200000), '.-.-.-.-b') end",
        "while true do string.rep('a', 1e8) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.concat(t) end",
        "local t = {} for i = 1, 1e6 do t[i] = i % 7 end while true do table.sort(t) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.insert(t, 1, 0) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.remove(t, 1) end",
        "local t = {} for i = 1, 1e6 do t['k' .. i] = i end while true do table.maxn(t) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do collectgarbage() end",
        "local s = ('x'):rep(1e8) while true do local t = s .. 'a' end",
        "local s = ('x'):rep(1e8) while true do s:upper() s:reverse() s:byte(5) s:sub(2) end",
        "local s = ('x'):rep(1e8) while true do string.format('%s %q', s, 'a') end",
        "local s = '[' .. ('1,'):rep(1e6) .. '1]' while true do cjson.decode(s) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do cjson.encode(t) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do cmsgpack.pack(t) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end
         local s = cmsgpack.pack(t) while true do cmsgpack.unpack(s) end",
        "local s, f = ('x'):rep(1e6), ('b'):rep(1e6) while true do pcall(struct.unpack, f, s) end",
        "local f = ('x'):rep(1e8) while true do struct.pack(f) end",
        "local s = ('x = 1 '):rep(1e6) while true do loadstring(s) end",
        "local s = ('x'):rep(1e8) while true do redis.sha1hex(s) end",
        "local function deep(level)
           for i = 1, 1e9 do coroutine.wrap(level == 0 and function() end or deep)(level - 1) end
         end
         deep(4)",
    ];
    assert_killed(&scripts);
}

#[test]
fn a_text_that_would_be_too_long_is_refused_before_it_is_built() {
    let mut runner = Runner::new();
    for body in [
        "return string.rep('a', 1e9)",
        "return string.rep('ab', 2^31 - 1)",
        "return string.gsub(('a'):rep(1000000), 'a', ('b'):rep(1000))",
    ] {
        let got = runner.run(body);
        assert!(got.contains("resulting string too large"), "{body}: {got}");
    }
    for body in [
        "return string.rep('', 2^31 - 1) == ''",
        "return string.rep('x', -5) == '' and string.rep('x', 2^40) == ''",
        "return #string.rep('ab', 30000) == 60000 and string.rep(12, 2) == '1212'",
        "return string.rep('ab', 2.9) == 'abab'",
    ] {
        assert_eq!(runner.run(body), ":1 ", "{body}");
    }
}

#[test]
fn long_library_calls_return_the_same_as_short_ones() {
    let mut runner = Runner::new();
    for body in [
        "local t = {} for i = 1, 50001 do t[i] = i end
         local s, count = table.concat(t, ','), 0
         for number in s:gmatch('%d+') do
           count = count + 1 if tonumber(number) ~= count then return number end
         end
         return count == 50001 and table.concat(t, ',', 5, 7) == '5,6,7'",
        "local t = {} for i = 1, 50001 do t[i] = (i * 7919) % 50021 end
         table.sort(t)
         for i = 2, #t do if t[i - 1] > t[i] then return i end end return true",
        "local t = {} for i = 1, 50001 do t[i] = i end t[40000] = {}
         local ok, text = pcall(table.concat, t)
         return not ok and text:find('invalid value %(table%) at index 40000') ~= nil",
        "local t = {} for i = 1, 5000 do t[i] = i end t[4000] = {}
         local ok, text = pcall(table.sort, t)
         return not ok and text:find('attempt to compare') ~= nil and not text:find('redis')",
        "return ('abc'):gsub('%w', '%0%0') == 'aabbcc' and ('abc'):gsub('b', {b = 1}) == 'a1c'",
        "return ('hello world'):gsub('o', function() return nil end) == 'hello world'",
        "local ok, text = pcall(string.gsub, 'x', 'x', function() return {} end)
         return not ok and text:find('invalid replacement value %(a table%)') ~= nil",
        "local ok, problem = pcall(string.gsub, 'x', 'x', function() error({err = 'own'}) end)
         return not ok and problem == 'own'",
    ] {
        assert_eq!(runner.run(body), ":1 ", "{body}");
    }
}

#[test]
fn random_numbers_depend_only_on_the_seed() {
    let body = "math.randomseed(ARGV[1])
        local t = {} for i = 1, 5 do t[i] = math.random(1, 100) end return table.concat(t, ' ')";
    let mut runner = Runner::new();
    let one = runner.eval(body, &["10"], 0);
    assert_eq!(one, runner.eval(body, &["10"], 0));
    assert_ne!(one, runner.eval(body, &["20"], 0));
    assert_ne!(
        runner.run("return tostring(math.random())"),
        runner.run("return tostring(math.random())")
    );
}

#[test]
fn library_encoders_and_decoders_round_trip() {
    let bodies = [
        "return cjson.encode({1, 2, {a = 'b/\\n'}}) == '[1,2,{\"a\":\"b\\\\/\\\\n\"}]'",
        "return cjson.decode('{\"a\": [1, 2.5, null, \"\\\\u00e9\\\\ud83d\\\\ude00\"]}').a[4] == 'é😀'",
        "return cjson.decode('[null]')[1] == cjson.null",
        "return cjson.encode({[1] = 1, [3] = 3}) == '[1,null,3]'",
        "return not pcall(cjson.encode, {[1] = 1, [100] = 1})",
        "return not pcall(cjson.encode, {0/0})",
        "return not pcall(cjson.encode, function() end)",
        "local t = {} t[1] = t return not pcall(cjson.encode, t)",
        "return not pcall(cjson.decode, string.rep('[', 2000))",
        "return cmsgpack.unpack(cmsgpack.pack({a = {1, 2, 'x'}})).a[3] == 'x'",
        "local m = {} for i = 1, 20000 do m['k' .. i] = i end
         return cmsgpack.unpack(cmsgpack.pack(m)).k20000 == 20000",
        "for _, n in ipairs({0, 127, 128, 255, 65535, 65536, -1, -32, -33, -129, 2^40, 0.1, -2^50}) do
           if cmsgpack.unpack(cmsgpack.pack(n)) ~= n then return n end
         end return true",
        "return not pcall(cmsgpack.unpack, '\\221\\255\\255\\255\\255')",
        "return not pcall(cmsgpack.unpack, string.rep('\\145', 5000))",
        "local a, b, p = struct.unpack('>I2h', struct.pack('>I2h', 65535, -2))
         return a == 65535 and b == -2 and p == 5",
        "return struct.unpack('<d', struct.pack('<d', 0.5)) == 0.5",
        "return struct.unpack('s', 'abc\\0def') == 'abc' and struct.size('!8bd') == 16",
        "return select(2, struct.unpack('i4c0', struct.pack('i4c0', 3, 'xyz'))) == nil or true",
        "return not pcall(struct.unpack, 'i4', 'abc') and not pcall(struct.pack, 'i99', 1)",
        "return not pcall(struct.unpack, 'I99999999999999999999', 'x')",
        "return bit.band(0xFF, 0x0F) == 15 and bit.bnot(0) == -1 and bit.lshift(1, 31) == -2^31",
        "return bit.tohex(65535, -2147483648) == '0000FFFF' and bit.rol(1, 33) == 2",
        "return redis.sha1hex('') == 'da39a3ee5e6b4b0d3255bfef95601890afd80709'",
    ];
    for body in bodies {
        assert_eq!(Runner::new().run(body), ":1 ", "{body}");
    }
}

#[test]
fn functions_are_loaded_called_replaced_and_restored() {
    let mut engine = Engine::new(Purpose::Functions, false).unwrap();
    let libraries = Libraries::default();
    let code = |value: i32| {
        format!(
            "#!lua name=lib\nlocal n = {value}
             redis.register_function('first', function(keys, args) return {{n, keys[1], args[1]}} end)
             redis.register_function{{function_name='second', callback=function() end,
               description='no more', flags={{'no-writes'}}}}"
        )
    };
    let call = |engine: &mut Engine, name: &str| {
        let (mut out, mut store) = (Vec::new(), Store::default());
        let words: ArgumentList = ["a", "b"].iter().collect();
        let mut reply = Writer::new(&mut out, Protocol::Resp2);
        let words = words.as_arguments();
        let set = libraries.current();
        match engine.call(&set, name, words, 1, &mut store, &mut reply) {
            Ok(()) => String::from_utf8_lossy(&out).replace("\r\n", " "),
            Err(failure) => failure.text,
        }
    };
    let name = libraries.load(&mut engine, code(1).as_bytes(), false);
    assert_eq!(name.as_deref(), Ok("lib"));
    assert_eq!(call(&mut engine, "FIRST"), "*3 :1 $1 a $1 b ");
    let again = libraries.load(&mut engine, code(2).as_bytes(), false);
    assert_eq!(again, Err("ERR Library 'lib' already exists".into()));
    libraries
        .load(&mut engine, code(2).as_bytes(), true)
        .unwrap();
    assert_eq!(call(&mut engine, "first"), "*3 :2 $1 a $1 b ");
    // Another thread's state loads the library when it is first needed.
    let mut other = Engine::new(Purpose::Functions, false).unwrap();
    assert_eq!(call(&mut other, "first"), "*3 :2 $1 a $1 b ");
    let taken = b"#!lua name=other\nredis.register_function('First', function() end)";
    let refused = libraries.load(&mut engine, taken, false);
    assert_eq!(refused, Err("ERR Function First already exists".into()));
    let codes: Vec<Vec<u8>> = libraries
        .current()
        .libraries()
        .map(|l| l.code.to_vec())
        .collect();
    let append = libraries.restore(&mut engine, &codes, RestorePolicy::Append);
    assert_eq!(append, Err("ERR Library lib already exists".into()));
    assert!(libraries.delete(b"lib") && !libraries.delete(b"lib"));
    assert_eq!(call(&mut engine, "first"), "ERR Function not found");
    libraries
        .restore(&mut engine, &codes, RestorePolicy::Append)
        .unwrap();
    assert_eq!(call(&mut engine, "second"), "$-1 ");
    let refusals: [(&str, &str); 7] = [
        ("return 1", "ERR Missing library metadata"),
        ("#!lua name=x\nreturn 1", "ERR No functions registered"),
        ("#!lua\n", "ERR Library name was not given"),
        ("#!js name=x\n", "ERR Engine 'js' not found"),
        (
            "#!lua name=a-b\n",
            "ERR Library names can only contain letters",
        ),
        (
            "#!lua name=x\nfoo",
            "ERR Error compiling function: user_function:",
        ),
        (
            "#!lua name=x\nredis.call('get')",
            "ERR Error registering functions: ERR user_function:2:",
        ),
    ];
    for (code, text) in refusals {
        let refused = libraries
            .load(&mut engine, code.as_bytes(), false)
            .unwrap_err();
        assert!(refused.starts_with(text), "{code}: {refused}");
    }
    let wrong = b"#!lua name=x\nserver.register_function('a b', function() end)";
    let what = |engine: &mut Engine| {
        let refused = libraries.load(engine, wrong, false).unwrap_err();
        let (_, text) = refused.split_once("functions: ERR ").expect("two errors");
        text.split(' ').next().unwrap_or_default().to_owned()
    };
    assert_eq!(what(&mut engine), "Library");
    let mut of_valkey = Engine::new(Purpose::Functions, false).unwrap();
    of_valkey.follow_valkey(Purpose::Functions);
    assert_eq!(what(&mut of_valkey), "Function");
    let endless = b"#!lua name=x\nwhile true do end";
    let refused = libraries.load(&mut engine, endless, false).unwrap_err();
    assert!(refused.contains("FUNCTION LOAD timeout"), "{refused}");
    assert_eq!(call(&mut engine, "first"), "*3 :2 $1 a $1 b ");
}

#[test]
fn set_repl_selects_where_changes_are_propagated() {
    let mut runner = Runner::new();
    let body = "redis.set_repl(redis.REPL_NONE); redis.set_repl(redis.REPL_AOF)
                redis.set_repl(redis.REPL_ALL)";
    assert_eq!(runner.run(body), "$-1 ");
    let told = [(false, false), (false, true), (true, true)];
    assert_eq!(runner.store.replication, told);
    let refusal = runner.run("redis.set_repl(9)");
    assert!(
        refusal.starts_with("-ERR Invalid replication flags."),
        "{refusal}"
    );
    assert_eq!(runner.store.replication, told);
}

#[test]
fn deprecated_lua_functions_are_available_on_request() {
    let mut runner = Runner::new();
    for name in ["setfenv", "getfenv", "newproxy"] {
        let refusal = runner.run(&format!("return {name} == nil"));
        assert!(refusal.contains("nonexistent global variable"), "{refusal}");
    }
    runner.engine = Engine::new(Purpose::Scripts, true).unwrap();
    let table = [
        (
            "local f = function() return x end; setfenv(f, {x = 5}); return f()",
            ":5 ",
        ),
        ("return getfenv(function() end) == _G and 1 or 0", ":1 "),
        ("return getfenv() == _G and 1 or 0", ":1 "),
        ("setfenv(1, {x = 6}); return x", ":6 "),
        (
            "getmetatable(newproxy(true)).__gc = function() end return 7",
            ":7 ",
        ),
        (
            "local p = newproxy(true) getmetatable(p).__index = {x = 8} return p.x",
            ":8 ",
        ),
        ("return KEYS and redis and 9", ":9 "),
    ];
    for (body, reply) in table {
        assert_eq!(runner.run(body), reply, "{body}");
    }
    for body in [
        "setfenv(0, {})",
        "setfenv(redis.pcall, {})",
        "setfenv(string.len, {})",
    ] {
        assert!(
            runner.run(body).contains("cannot change environment"),
            "{body}"
        );
    }
}

#[test]
fn a_library_may_have_more_functions_than_lua_has_handles() {
    let libraries = Libraries::default();
    let mut engine = Engine::new(Purpose::Functions, false).expect("a Lua state");
    let code = "#!lua name=many\nlocal function f() return 7 end\n\
                for number = 1, 20000 do redis.register_function('f' .. number, f) end";
    let name = libraries.load(&mut engine, code.as_bytes(), false);
    assert_eq!(name.as_deref(), Ok("many"));
    assert_eq!(libraries.current().function_count(), 20_000);
    let again = code.replace("20000", "2 do for n = 1, 2") + " end";
    let refused = libraries.load(&mut engine, again.as_bytes(), true);
    assert!(
        refused
            .unwrap_err()
            .ends_with("already exists in the library")
    );
}

#[test]
fn a_function_that_moves_to_another_restored_library_is_found_there() {
    let libraries = Libraries::default();
    let mut engine = Engine::new(Purpose::Functions, false).expect("a Lua state");
    let code = |library: &str, functions: &[&str]| {
        let register = |name: &&str| format!("redis.register_function('{name}', print)\n");
        let functions: String = functions.iter().map(register).collect();
        let head = format!("#!lua name={library}\nlocal print = function() end\n");
        (head + &functions).into_bytes()
    };
    let (first, second) = (code("l1", &["f1"]), code("l2", &["f2"]));
    let both = code("l2", &["f1", "f2"]);
    libraries
        .load(&mut engine, &both, false)
        .expect("a library");
    let restored = libraries.restore(&mut engine, &[first, second], RestorePolicy::Replace);
    assert_eq!(restored, Ok(()));
    assert_eq!(libraries.current().function_count(), 2);
    let taken = libraries.load(&mut engine, &code("l9", &["f1"]), false);
    assert_eq!(taken, Err("ERR Function f1 already exists".into()));
}
