-- Lease the first free resource.
--
-- Atomic because between "who is first" and "it is mine" nobody else may take it, and because a resend of the same
-- token must find the lease that the first sending made.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  token (hexadecimal)
--      3  ttl, ms
--      4  owner, free text for people
-- ->   "<fence> <deadline ms> <ms left> <resource>", then "\n<attributes JSON>" if it has any
--      0  none is free
-- A call reclaims at most 32 lapsed leases before it chooses.
-- @include pool
-- @include micros
-- @include fence
-- @include order
-- @include damage
-- @include settle
-- @include sweep
-- @include lease

local token, ttl = ARGV[2], ARGV[3]
local token_field = 't:' .. token
local state = call('HMGET', root, 'fence', 'granted', 'order', 'attributes', token_field)
local order, attributes, held = state[3], state[4], state[5]

local function reply(fence, deadline, left, name)
  local text = fence .. ' ' .. deadline .. ' ' .. left .. ' ' .. name
  local more = attributes and call('HGET', root .. ':attributes', name)
  return more and text .. '\n' .. more or text
end

if held then
  local name, _, deadline = find(held)
  if live(deadline) then
    local fence = string.match(call('HGET', root, 'r:' .. name), '^%S+ (%S+)')
    return reply(fence, deadline, deadline - now, name)
  elseif not deadline then
    return damage()
  end
  take_back({ name })
end

if not order then
  return damage() or 0
end
if call('ZCOUNT', leased, '-inf', now) > 0 then
  sweep(32)
end

local fence = next_fence(state[1])
local first = call('ZPOPMIN', free)
local name = first[1]
if not name then
  return damage() or 0
end
local deadline = now + ttl .. ''
call('ZADD', leased, deadline, name)
call('SET', tracking .. name, token, 'PXAT', deadline)
call(
  'HSET', root, 'fence', fence, 'granted', (state[2] or 0) + 1,
  token_field, (order == 'rank' and first[2] or '-') .. ' ' .. name,
  'r:' .. name, token .. ' ' .. fence .. ' ' .. now .. ' ' .. ARGV[4]
)
return reply(fence, deadline, ttl, name)
