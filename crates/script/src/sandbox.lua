-- Builds what scripts see, once for each Lua state: tables that cannot be changed, globals that
-- must exist, and functions that heed both.
--
-- A table that is protected is empty and stands for the real one, which its metatable leads to;
-- the functions of the library that would look past the metatable are replaced.
local native = ...

local READONLY = 'Attempt to modify a readonly table'

local type, error, select, tostring = type, error, select, tostring
local getmetatable, setmetatable = getmetatable, setmetatable
local rawget, rawset, next, pairs = rawget, rawset, next, pairs
local pcall, xpcall, loadstring = pcall, xpcall, loadstring
local string, table, coroutine = string, table, coroutine
local byte, concat, match = string.byte, table.concat, string.match
local gsub = string.gsub
local tonumber, unpack = tonumber, unpack
local library = native.library
local tick, spend, MANY = library.tick, library.spend, library.MANY

-- The real table of each protected one, and the metatable that scripts see of it.
local real, shown = native.protected, {}

local function refuse()
  error(READONLY, 2)
end

local function protect(contents, metatable)
  local stand_in = {}
  real[stand_in] = contents
  shown[stand_in] = metatable
  return setmetatable(stand_in, { __index = contents, __newindex = refuse })
end

-- The text of a bad argument, as the library words it.
local function check_table(name, number, count, value)
  if type(value) ~= 'table' then
    local got = count < number and 'no value' or type(value)
    local text = "bad argument #%d to '%s' (table expected, got %s)"
    error(string.format(text, number, name, got), 3)
  end
end

local function plain(problem)
  if type(problem) == 'string' then
    -- The line is ours, not the script's.
    return (gsub(problem, '^redis%-library:%d+: ', ''))
  end
  if type(problem) == 'userdata' then
    problem = native.as_value(problem)
  end
  if type(problem) == 'table' then
    local text = problem.err
    if type(text) == 'string' or type(text) == 'number' then
      return text
    end
  end
  return problem
end

local function settle(ok, ...)
  if ok then
    return true, ...
  end
  return false, plain((...))
end

local seen = {
  _VERSION = _VERSION,
  assert = assert,
  collectgarbage = library.collectgarbage,
  error = error,
  gcinfo = gcinfo,
  ipairs = ipairs,
  rawequal = rawequal,
  select = select,
  tonumber = tonumber,
  tostring = tostring,
  type = type,
}

function seen.setmetatable(...)
  local count, value, metatable = select('#', ...), ...
  check_table('setmetatable', 1, count, value)
  if type(metatable) ~= 'table' and (metatable ~= nil or count < 2) then
    error("bad argument #2 to 'setmetatable' (nil or table expected)", 2)
  elseif real[value] then
    error(READONLY, 0)
  end
  local own = getmetatable(value)
  if type(own) == 'table' and rawget(own, '__metatable') ~= nil then
    error('cannot change a protected metatable', 2)
  end
  return setmetatable(value, metatable)
end

function seen.rawget(...)
  local value, key = ...
  check_table('rawget', 1, select('#', ...), value)
  return rawget(real[value] or value, key)
end

function seen.rawset(...)
  local value, key, new = ...
  check_table('rawset', 1, select('#', ...), value)
  if real[value] then
    error(READONLY, 0)
  end
  return rawset(value, key, new)
end

function seen.next(...)
  local value, key = ...
  check_table('next', 1, select('#', ...), value)
  if key == nil then
    tick()
  end
  return next(real[value] or value, key)
end

local visible_next = seen.next

function seen.pairs(...)
  local value = ...
  check_table('pairs', 1, select('#', ...), value)
  tick()
  if real[value] then
    return visible_next, value, nil
  end
  return next, value, nil
end

function seen.pcall(...)
  return settle(pcall(...))
end

function seen.xpcall(action, handler)
  local function translate(problem)
    -- What ends the script does so within the hook: no other hook would end its handler.
    if native.is_killed() then
      return problem
    end
    if type(problem) == 'userdata' then
      problem = native.as_value(problem)
    end
    return handler(problem)
  end
  return xpcall(action, translate)
end

-- The library counts what it unpacks in an `int`, which may overflow.
function seen.unpack(...)
  local list, first, last = ...
  check_table('unpack', 1, select('#', ...), list)
  local from, to = first, last
  if from == nil then
    from = 1
  end
  if to == nil then
    to = #list
  end
  from, to = tonumber(from), tonumber(to)
  if from and to and not (to - from < 8000) then
    error('too many results to unpack', 2)
  end
  return unpack(...)
end

-- More bytes would keep the compiler, which nothing ends, busy for longer than half a second. The
-- level of a long bracket in it fits the integer that the compiler counts it in.
local TEXT_MAX = 16 * 1024 * 1024

-- Only text is compiled: there is no way to say which bytes are sound code. The name is kept in
-- sight until the compiler is done, which keeps it in a place that the collector does not look at.
local function compile(text, name)
  if byte(text) == 27 then
    return nil, 'precompiled code is not accepted'
  elseif #text > TEXT_MAX then
    return nil, 'the text is too long'
  end
  spend(#text * 20)
  local anchor = match(name or text, '^[^%z]*')
  local compiled, problem = loadstring(text, anchor)
  return compiled, problem, anchor
end

function seen.loadstring(text, name)
  if type(text) == 'number' then
    text = tostring(text)
  elseif type(text) ~= 'string' then
    local got = text == nil and 'no value' or type(text)
    error("bad argument #1 to 'loadstring' (string expected, got " .. got .. ')', 2)
  end
  local compiled, problem = compile(text, name)
  if compiled then
    return compiled
  end
  return nil, problem
end

function seen.load(reader, name)
  if type(reader) ~= 'function' then
    local got = reader == nil and 'no value' or type(reader)
    error("bad argument #1 to 'load' (function expected, got " .. got .. ')', 2)
  end
  local parts = {}
  while true do
    local part = reader()
    if part == nil or part == '' then
      break
    elseif type(part) ~= 'string' then
      return nil, 'reader function must return a string'
    end
    parts[#parts + 1] = part
  end
  local compiled, problem = compile(concat(parts), name or '=(load)')
  if compiled then
    return compiled
  end
  return nil, problem
end

for name, action in pairs(library.string) do
  string[name] = action
end
string.gfind = string.gmatch

local tables = {}
for name, action in pairs(table) do
  tables[name] = library.table[name] or action
end

-- With so many arguments, elements behind the one that is named are moved.
local moves = { insert = 3, remove = 2 }

for _, name in pairs({ 'insert', 'remove', 'sort', 'setn' }) do
  local action, moved = tables[name], moves[name] or 255
  tables[name] = function(...)
    local value = ...
    local count = select('#', ...)
    check_table(name, 1, count, value)
    if real[value] then
      error(READONLY, 0)
    elseif count >= moved and #value > MANY then
      spend(#value * 5)
    end
    return action(...)
  end
end

local coroutines = {}
for name, action in pairs(coroutine) do
  coroutines[name] = library.coroutine[name] or action
end

local function resumed(ok, ...)
  local problem = ...
  if not ok and type(problem) == 'userdata' then
    return false, native.as_value(problem)
  end
  return ok, ...
end

function coroutines.resume(...)
  return resumed(coroutine.resume(...))
end

seen.table = protect(tables)
seen.coroutine = protect(coroutines)
seen.string = protect(string)
seen.os = protect({ clock = os.clock })

local maths = {}
for name, action in pairs(math) do
  maths[name] = action
end
maths.random, maths.randomseed = native.random, native.randomseed
seen.math = protect(maths)

local string_metatable = protect({ __index = seen.string })
function seen.getmetatable(...)
  local value = ...
  if real[value] then
    return shown[value]
  elseif type(value) == 'string' then
    return string_metatable
  elseif select('#', ...) == 0 then
    error("bad argument #1 to 'getmetatable' (value expected)", 2)
  end
  return getmetatable(value)
end

for name, library in pairs(native.libraries) do
  seen[name] = protect(library)
end

local redis = native.redis

local function caught(ok, ...)
  if ok then
    return ...
  end
  return native.as_table((...))
end

function redis.pcall(...)
  return caught(pcall(redis.call, ...))
end

function redis.acl_check_cmd(...)
  return redis.call(native.acl_check, ...)
end

function redis.set_repl(...)
  redis.call(native.set_replication, native.checked_replication(...))
end

seen.redis = protect(redis)
-- Valkey's name for it.
seen.server = seen.redis

local function missing(_, name)
  if type(name) ~= 'string' and type(name) ~= 'number' then
    error('Second argument to luaProtectedTableError must be a string or number', 2)
  end
  error("Script attempted to access nonexistent global variable '" .. name .. "'", 2)
end

setmetatable(seen, { __index = missing })
local globals = {}
seen._G = globals
real[globals] = seen
local metatable = { __index = seen, __newindex = refuse }
shown[globals] = protect({ __index = missing })
setmetatable(globals, metatable)

-- What `lua-enable-deprecated-api` leaves to scripts: environments of their own functions, and
-- proxies whose metatable has no say in how they are collected.
if native.has_deprecated then
  local getfenv, setfenv, newproxy = getfenv, setfenv, newproxy
  local own = getfenv(1)

  local function outer(place)
    return type(place) == 'number' and place > 0 and place + 1 or place
  end

  function seen.getfenv(place)
    local environment = getfenv(outer(place or 1))
    return environment == own and globals or environment
  end

  function seen.setfenv(place, environment)
    check_table('setfenv', 2, environment == nil and 1 or 2, environment)
    if place == 0 or getfenv(outer(place)) == own then
      error("'setfenv' cannot change environment of given object", 2)
    end
    setfenv(outer(place), environment)
    return place
  end

  function seen.newproxy(with_metatable)
    if with_metatable ~= true then
      return newproxy(false)
    end
    local proxy, handlers = newproxy(true), {}
    local kept = getmetatable(proxy)
    kept.__metatable = handlers
    for _, event in pairs({ '__call', '__len', '__newindex', '__unm', '__concat' }) do
      kept[event] = function(...)
        local handler = handlers[event]
        if handler == nil then
          error('attempt to use a proxy that does not know ' .. event, 2)
        end
        return handler(...)
      end
    end
    function kept.__index(value, name)
      local handler = handlers.__index
      if type(handler) == 'function' then
        return handler(value, name)
      end
      return handler and handler[name]
    end
    return proxy
  end
end

-- What a library sees while it is loaded.
local loading_redis = setmetatable(native.loading_redis, { __index = missing })
local loading = { redis = protect(loading_redis) }
loading.server = loading.redis
setmetatable(loading, { __index = missing })

local function set_loading(on)
  metatable.__index = on and loading or seen
  real[globals] = on and loading or seen
end

local on_error = native.on_error

local function run(script)
  return xpcall(script, on_error)
end

return globals, seen, run, set_loading
