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
-- A call reclaims at most 32 lapsed leases before it chooses. What is rarely needed is included where it is needed.
-- @include pool

local token, ttl = ARGV[2], ARGV[3]
local token_field = 't:' .. token
local state = call('HMGET', root, 'fence', 'order', 'attributes', token_field)
local order, held = state[2], state[4]

if held then
  -- @include lease
  -- @include damage
  local _, name, deadline = find(held)
  if live(deadline) then
    local fence = string.match(call('HGET', root, 'r:' .. name), '^%S+ (%S+)')
    local text = fence .. ' ' .. deadline .. ' ' .. deadline - now .. ' ' .. name
    local more = call('HGET', root .. ':attributes', name)
    return more and text .. '\n' .. more or text
  elseif not deadline then
    return damage() or redis.error_reply('RELETDAMAGED ' .. leased .. ' lacks ' .. name)
  end
end

if not order then
  -- @include damage
  return damage() or 0
end
if held or call('ZCOUNT', leased, '-inf', millis) > 0 then
  -- @include sweep
  if held then
    take_back({ string.match(held, ' (.*)$') })
  end
  sweep(32)
end

-- @include fence
local fence = next_fence(state[1])
local first = call('ZPOPMIN', free)
local name = first[1]
if not name then
  -- @include damage
  return damage() or 0
end
local deadline = now + ttl .. ''
call('ZADD', leased, deadline, name)
call('SET', tracking .. name, token, 'PXAT', deadline)
local home = order == 'rank' and first[2] or order
local record = token .. ' ' .. fence .. ' ' .. millis .. ' ' .. ARGV[4]
call('HSET', root, 'fence', fence, token_field, home .. ' ' .. name, 'r:' .. name, record)
call('HINCRBY', root, 'granted', 1)
local text = fence .. ' ' .. deadline .. ' ' .. ttl .. ' ' .. name
local more = state[3] and call('HGET', root .. ':attributes', name)
return more and text .. '\n' .. more or text
