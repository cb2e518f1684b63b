-- Take resources out of the pool: a free one now, a leased one when it comes back.
--
-- Atomic because a resource that is leased in the same moment must be either gone or leased, not both.
--
-- KEYS 1   the pool's root hash
-- ARGV 1   prefix of the tracking keys
--      2…  resources, up to 500
-- ->   how many were removed or newly marked
-- @include pool
-- @include damage
-- @include sweep
-- @include lease

local wrong = damage()
if wrong or not call('HGET', root, 'order') then
  return wrong or 0
end
local gone, marked, named = 0, 0, {}
for i = 2, #ARGV do
  local name = ARGV[i]
  local deadline = call('ZSCORE', leased, name)
  if deadline and not live(deadline) then
    take_back({ name })
  end
  if call('ZREM', free, name) == 1 or call('ZREM', quarantined, name) == 1 then
    call('ZREM', root .. ':resources', name)
    call('HDEL', root .. ':attributes', name)
    call('HDEL', root, 'q:' .. name)
    gone = gone + 1
    named[#named + 1] = name
  elseif live(deadline) and call('ZADD', root .. ':leaving', 'NX', deadline, name) == 1 then
    rehome(name, 'gone')
    call('ZREM', held_back, name)
    marked = marked + 1
    named[#named + 1] = name
  end
end
if gone > 0 then
  call('HINCRBY', root, 'total', -gone)
end
log_names('remove', named)
return gone + marked
