-- Take a resource from whoever holds it (an operator's tool).
--
-- Atomic because the holder must lose the lease in the instant in which the resource can go to somebody else.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  resource
--      3  id of this request: a resend must not rob the next holder
-- ->   1  taken and given back to the pool
--      0  was not leased
--      -2 the pool has no such resource
-- @include pool
-- @include micros
-- @include order
-- @include settle
-- @include sweep
-- @include lease
-- @include ended

local name, request = ARGV[2], ARGV[3]
if remembered('o:', request) then
  return 1
end
local deadline = call('ZSCORE', leased, name)
if not deadline then
  return call('ZSCORE', root .. ':resources', name) and 0 or -2
end
if not live(deadline) then
  take_back({ name })
  return 0
end
local state = call('HMGET', root, 'order', 'leaving', 'r:' .. name)
local token = state[3] and string.match(state[3], '^%S+')
call('ZREM', leased, name)
settle(name, state[1], state[2], nil, token or request)
call('DEL', tracking .. name)
call('HDEL', root, 'r:' .. name, 't:' .. (token or ''))
if token then
  remember('f:', token, tonumber(deadline))
end
remember('o:', request, now + RESENDS_MS)
return 1
