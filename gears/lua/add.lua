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
-- @include sweep
-- @include lease

-- @include damage
local wrong = damage()
if wrong then
  return wrong -- with the list of all resources gone, one that is leased would be taken for new, and free
end
local order = call('HGET', root, 'order')
if not order then
  order = ARGV[2] ~= '' and ARGV[2] or 'rank'
  call('ZMSCORE', free, '') -- known from Redis 6.2 on: no pool comes to be on a server that cannot lease from it
  call(
    'HSET', root, 'order', order, 'born', micros, 'total', '0', 'seq', '0',
    -- A value of more than 64 bytes keeps this hash out of the compact encoding, whose look-ups are linear.
    'about', 'A pool of leases, format 1. Its keys and fields are described in gears/README.md of relet.'
  )
elseif ARGV[2] ~= '' and ARGV[2] ~= order then
  return 'order ' .. order
end

local resources, attributes = root .. ':resources', root .. ':attributes'
local leaving = call('EXISTS', root .. ':leaving') == 1 and root .. ':leaving'
local seed = tonumber(string.sub(ARGV[3], 1, 8), 16) or 0
local seq = tonumber(call('HGET', root, 'seq') or 0)
local added, kept, new = 0, 0, {}
for i = 4, #ARGV, 2 do
  local name = ARGV[i]
  if leaving and tonumber(call('ZSCORE', leaving, name) or now + 1) <= now then
    take_back({ name }) -- it was gone already
  end
  if call('ZADD', resources, 'NX', seq + 1, name) == 1 then
    seq = seq + 1
    added = added + 1
    new[#new + 1] = name
    seed = (seed * 48271 + 1) % 2147483647
    settle(name, home_of(order, seq), string.format('%08x', seed))
  elseif leaving and call('ZREM', leaving, name) == 1 then
    kept = kept + 1
    local is_held = call('HGET', root, 'q:' .. name)
    rehome(name, is_held and 'held' or home_of(order, call('ZSCORE', resources, name)))
    if is_held then
      call('ZADD', held_back, call('ZSCORE', leased, name), name)
    end
    new[#new + 1] = name
  end
  if ARGV[i + 1] ~= '' then
    call('HSET', attributes, name, ARGV[i + 1])
  end
end
if added > 0 then
  call('HSET', root, 'seq', seq)
  call('HINCRBY', root, 'total', added)
end
if call('EXISTS', attributes) == 1 then
  call('HSET', root, 'attributes', 1)
end
log_names('add', new)
if added > 0 then
  -- @include hand_off
  hand_off(added)
end
return added + kept
