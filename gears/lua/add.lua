-- Put resources into the pool, and make the pool if it is new.
--
-- Atomic because a resource must be in exactly one set however many clients add it at once.
--
-- KEYS 1   the pool's root hash
-- ARGV 1   prefix of the tracking keys
--      2   order asked for: rank, lru, random, or "" for the pool's own (rank if it is new)
--      3   hexadecimal seed for random order
--      4…  resource, attributes as JSON or "" to leave them as they are; up to 500 such pairs
-- ->   how many were added, among them those whose removal was still to come
--      "order <the pool's order>" if it is not the one asked for; nothing is done then
-- @include pool
-- @include micros
-- @include order
-- @include damage

local state = call('HMGET', root, 'order', 'leaving', 'seq')
local order, leaving = state[1], state[2]
if not order then
  local wrong = damage()
  if wrong then
    return wrong
  end
  order = ARGV[2] ~= '' and ARGV[2] or 'rank'
  call('ZMSCORE', free, '') -- known from Redis 6.2 on: no pool comes to be on a server that cannot lease from it
  call(
    'HSET', root, 'order', order, 'born', micros(), 'total', 0, 'leaving', 0, 'seq', 0,
    -- A value of more than 64 bytes keeps this hash out of the compact encoding, whose look-ups are linear.
    'about', 'A pool of leases, format 1. Its keys and fields are described in gears/README.md of relet.'
  )
elseif ARGV[2] ~= '' and ARGV[2] ~= order then
  return 'order ' .. order
end

local seed = tonumber(string.sub(ARGV[3], 1, 8), 16) or 0
local seq, added, returned = tonumber(state[3] or 0), 0, 0
for i = 4, #ARGV, 2 do
  local name, attributes = ARGV[i], ARGV[i + 1]
  if call('ZADD', root .. ':resources', 'NX', seq + 1, name) == 1 then
    seq = seq + 1
    added = added + 1
    seed = (seed * 1103515245 + 12345) % 2147483648
    call('ZADD', free, score(order, seq, string.format('%08x', seed)), name)
  elseif leaving and leaving ~= '0' and call('ZREM', root .. ':leaving', name) == 1 then
    returned = returned + 1
  end
  if attributes ~= '' then
    call('HSET', root .. ':attributes', name, attributes)
  end
end
if added > 0 then
  call('HSET', root, 'seq', seq)
  call('HINCRBY', root, 'total', added)
end
if returned > 0 then
  call('HINCRBY', root, 'leaving', -returned)
end
if call('EXISTS', root .. ':attributes') == 1 then
  call('HSET', root, 'attributes', 1)
end
return added + returned
