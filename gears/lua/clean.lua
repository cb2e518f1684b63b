-- Lease the resource that has been in quarantine longest, to clean it.
--
-- Atomic because two cleaners may ask at once, and because a resend of the same token must find its lease.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  token
--      3  ttl, ms
--      4  owner, free text for people
-- ->   a grant text (shared/grant.lua has the form), or 0: there is nothing to clean
-- @include pool
-- @include sweep
-- @include mine
-- @include damage

local token, ttl, owner = ARGV[2], ARGV[3], ARGV[4]
if not tonumber(ttl) then
  return redis.error_reply('ERR the ttl is a number')
end
local granted = mine(token, 1)
if granted then
  return granted
end
take_back_mine(token, 1)
sweep(32)
local first = call('ZRANGEBYSCORE', quarantined, '-inf', '(+inf', 'LIMIT', '0', '1')[1]
if not first then
  return damage() or 0
end
local state = call('HMGET', root, 'fence', 'attributes')
call('ZREM', quarantined, first)
call('ZADD', held_back, string.format('%d', now + ttl), first)
return grant(first, 'dirty', token, next_fence(state[1]), ttl, owner, state[2])
