-- The functions of the library that may take long, so that a script can be ended in them. What runs
-- here may be ended at each line, as a script may, unlike `sandbox.lua`.
local strings = ...

local type, error, select, tonumber, pcall = type, error, select, tonumber, pcall
local string, table, coroutine = string, table, coroutine
local sub, concat, sort, maxn = string.sub, table.concat, table.sort, table.maxn
local gsub, collectgarbage = string.gsub, collectgarbage
local patterns, scan, replace, fail = strings.patterns, strings.scan, strings.gsub, strings.fail
local spend = strings.spend

-- Elements that the library handles in about a millisecond.
local MANY = 20000

local library = { string = {}, table = {}, coroutine = {} }

-- Called before what may take long without anything that shows it.
local calls = 0
local function tick()
  calls = calls + 1
  if calls >= 10 then
    calls = 0
    spend(500000)
  end
end
library.tick, library.spend, library.MANY = tick, spend, MANY

-- The library's own functions are the quicker ones, and match where it is sure that they are soon
-- done: how long a subject may be for that is kept by the pattern.
local quick, quick_count = {}, 0
local function is_quick(subject, pattern)
  local most = quick[pattern]
  if not most then
    if type(pattern) ~= 'string' or #pattern > 1000 then
      return false
    elseif quick_count >= 1000 then
      quick, quick_count = {}, 0
    end
    most = strings.quick_length(pattern)
    quick[pattern], quick_count = most, quick_count + 1
  end
  return type(subject) == 'string' and #subject <= most
end

local find, match, gmatch = string.find, string.match, string.gmatch

function library.string.find(...)
  local subject, pattern, from = ...
  if pattern ~= nil and is_quick(subject, pattern) and (from == nil or type(from) == 'number') then
    return find(...)
  end
  return strings.find(...)
end

function library.string.match(...)
  local subject, pattern, from = ...
  if pattern ~= nil and is_quick(subject, pattern) and (from == nil or type(from) == 'number') then
    return match(...)
  end
  return strings.match(...)
end

function library.string.gmatch(...)
  local subject, pattern = ...
  if pattern ~= nil and is_quick(subject, pattern) then
    return gmatch(...)
  end
  subject, pattern = patterns(false, ...)
  local at = 0
  local function found(first, last, ...)
    if first then
      at = last > first and last or last + 1
      return ...
    end
  end
  return function()
    return found(scan(subject, pattern, at, false, false))
  end
end

local function gsub_by(replacement, subject, pattern, limit, is_anchored)
  local is_function = type(replacement) == 'function'
  local parts, length, count, at = {}, 0, 0, 0
  local function take(first, last, ...)
    if not first then
      return false
    end
    count = count + 1
    if first > at then
      length = length + 1
      parts[length] = sub(subject, at + 1, first)
    end
    local value
    if is_function then
      value = replacement(...)
    else
      value = replacement[(...)]
    end
    if not value then
      value = sub(subject, first + 1, last)
    elseif type(value) ~= 'string' and type(value) ~= 'number' then
      fail('invalid replacement value (a ' .. type(value) .. ')')
    end
    length = length + 1
    parts[length] = value
    at = last
    if last == first then
      if first == #subject then
        return false
      end
      at = first + 1
      length = length + 1
      parts[length] = sub(subject, at, at)
    end
    return not is_anchored
  end
  while count < limit and take(scan(subject, pattern, at, is_anchored, not is_function)) do
  end
  parts[length + 1] = sub(subject, at + 1)
  return library.table.concat(parts), count
end

function library.string.gsub(...)
  local subject, pattern, replacement, limit = ...
  local kind = type(replacement)
  if pattern ~= nil and is_quick(subject, pattern) and (limit == nil or type(limit) == 'number') then
    local is_short = kind == 'string' and #subject * #replacement <= 300000
    if is_short or kind == 'function' or kind == 'table' then
      return gsub(...)
    end
  end
  if kind == 'function' or kind == 'table' then
    return gsub_by(replacement, patterns(true, ...))
  end
  return replace(...)
end

local rep = string.rep
function library.string.rep(...)
  local part, count = ...
  if type(part) == 'string' and type(count) == 'number' and #part > 0 and #part * count <= MANY then
    return rep(...)
  end
  return strings.rep(...)
end

-- What a function of the library has returned, or its error at the script's line.
local function relay(ok, ...)
  if ok then
    return ...
  end
  local problem = ...
  if type(problem) == 'string' then
    problem = gsub(problem, '^redis%-library:%d+: ', '')
    fail(problem)
  end
  error(problem, 0)
end

local function join(list, between, from, to)
  local parts = {}
  for at = from, to, MANY do
    parts[#parts + 1] = concat(list, between, at, at + MANY <= to and at + MANY - 1 or to)
    spend(MANY * 50)
  end
  return concat(parts, between)
end

function library.table.concat(...)
  local list, between, from, to = ...
  if type(list) ~= 'table' or #list <= MANY and to == nil then
    return concat(...)
  end
  from, to = tonumber(from or 1), tonumber(to or #list)
  local is_text = between == nil or type(between) == 'string' or type(between) == 'number'
  if not from or not to or not is_text or to - from <= MANY or to > 2147483647 then
    return concat(...)
  end
  return relay(pcall(join, list, between or '', from, to))
end

local function is_less(one, other)
  return one < other
end

function library.table.sort(...)
  local list, order = ...
  if type(list) ~= 'table' or order ~= nil or #list <= 1000 then
    return sort(...)
  end
  return relay(pcall(sort, list, is_less))
end

function library.table.maxn(...)
  tick()
  return maxn(...)
end

function library.collectgarbage(...)
  tick()
  return collectgarbage(...)
end

-- Each coroutine counts its instructions anew.
local create, wrap = coroutine.create, coroutine.wrap
function library.coroutine.create(...)
  tick()
  return create(...)
end

function library.coroutine.wrap(...)
  tick()
  return wrap(...)
end

return library
