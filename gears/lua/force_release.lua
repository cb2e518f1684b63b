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
-- @include sweep
-- @include end_lease
-- @include log
-- @include hand_off
-- @include lease
-- @include ended
-- @include damage

local name, request = ARGV[2], ARGV[3]
if remembered('o:', request) then
  return 1
end
local deadline = call('ZSCORE', leased, name)
if not deadline or not call('HGET', root, 'order') then
  local wrong = damage()
  if wrong then
    return wrong
  elseif not deadline then
    return call('ZSCORE', root .. ':resources', name) and 0 or -2
  end
end
if not live(deadline) then
  take_back({ name })
  hand_off(32)
  return 0
end
local token = holder(name) or ''
local held = call('HGET', root, 't:' .. token)
local home = held and string.match(held, '^[^%s*]+') or call('ZSCORE', root .. ':resources', name) or 0
local record = call('HGET', root, 'r:' .. name) or ''
end_lease(name, home, token, call('HGET', root, 'policy'), 'force', 'taken by force: ')
log('force', name, millis .. ' ' .. (string.match(record, '^%S+ (.*)$') or '0 0 '))
hand_off(32)
remember('f:', token, tonumber(deadline))
remember('o:', request, now + RESENDS_MS)
return 1
