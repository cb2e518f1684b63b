-- Look for what cannot be in a pool that something other than relet has changed. Changes nothing.
--
-- Atomic because a resource that is leased in the same moment must not look as if it were in no set.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  what to go through: "" the root's fields, ":resources", ":free", ":leased", ":quarantined", ":leaving", ":held",
--         ":attributes" or ":waiters"; "pool": the keys as such
--      3  cursor: "0" at first, then what the last page answered
--      4  about how many a page (1 to 250)
-- ->   the next cursor ("0": done), then for each fault three values: the resource or token, the level (error or
--      warn), what is wrong; a resource may come up more than once
--      for "pool": a key's name behind the root's, its type and its size, nine times; then order, total, waiting, seq,
--      the highest rank, granted, lapsed, attributes, fence, `doubt` (repair.lua says what that is), each "" if missing
-- @include pool
-- @include facts
-- @include waiters

local part = ARGV[2]
if part == 'pool' then
  local answer = {}
  local sizes = { zset = 'ZCARD', hash = 'HLEN' }
  for _, key in ipairs({
    '', ':resources', ':free', ':leased', ':quarantined', ':leaving', ':held', ':attributes', ':waiters', ':ended', ':log',
  }) do
    local kind = call('TYPE', root .. key).ok
    answer[#answer + 1] = key
    answer[#answer + 1] = kind
    answer[#answer + 1] = sizes[kind] and call(sizes[kind], root .. key) or 0
  end
  if answer[2] ~= 'hash' and answer[2] ~= 'none' then
    return answer
  end
  local stored = call('HMGET', root, 'order', 'total', 'waiting', 'seq', 'granted', 'lapsed', 'attributes', 'fence', 'doubt')
  for i = 1, 9 do
    answer[#answer + 1] = stored[i] or ''
    if i == 4 then
      answer[#answer + 1] = answer[5] == 'zset' and call('ZRANGE', resources, -1, -1, 'WITHSCORES')[2] or ''
    end
  end
  return answer
end

local cursor, names = page_of(part, ARGV[3], ARGV[4])
local answer = { cursor }
local function add(name, found)
  for i = 1, #found, 2 do
    answer[#answer + 1] = name
    answer[#answer + 1] = found[i]
    answer[#answer + 1] = found[i + 1]
  end
end

for i = 1, #names do
  local name = names[i]
  if part == ':waiters' then
    if not waiter(call('HGET', root, 'w:' .. name)) then
      add(name, { 'error', 'waits, but the record for what is missing or wrong' })
    end
  elseif part == ':attributes' then
    if not call('ZSCORE', resources, name) then
      add(name, { 'error', 'has attributes, but is not in the list of all resources' })
    end
  elseif part ~= '' then
    add(name, faults(facts(name)))
  else
    local kind, rest = string.sub(name, 1, 2), string.sub(name, 3)
    if kind == 'w:' and not call('ZSCORE', waiters, rest) then
      add(rest, { 'error', 'has the record of a waiter, but is not in the line' })
    elseif kind == 't:' then
      local of = string.match(call('HGET', root, name), '^%S+ (.*)$') or ''
      if holder(of) ~= rest then
        add(of, { 'error', 'has a record t: of a lease that nobody has' })
      end
    elseif (kind == 'r:' or kind == 'q:') and not call('ZSCORE', resources, rest) then
      add(rest, faults(facts(rest)))
    end
  end
end
return answer
