-- Lease the first free resource, or the first few; or queue up for them.
--
-- Atomic because between "who is first" and "it is mine" nobody else may take it, and because a resend of the same
-- token must find the lease that the first sending made, or the place in the queue.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  token (32 hexadecimal digits; the last four are 0001 where more than one resource is asked for)
--      3  ttl, ms
--      4  owner, free text for people
--      5  how many, all or none (1 to 500; left out: 1)
--      6  channel to be told on, for who waits (left out: who does not)
-- ->   a grant text for each (shared/grant.lua has the form)
--      "wait <ms until the nearest deadline, 0 if it has passed, -1 if there is none> <now, ms>": queued up, now or before
--      0  none is free, or not enough, or others wait
--      -3 the pool does not have so many
-- A call reclaims at most 32 lapsed leases before it chooses. What is rarely needed is included where it is needed.
-- @include pool

local token, ttl, owner = ARGV[2], ARGV[3], ARGV[4]
local count, channel = tonumber(ARGV[5] or 1), ARGV[6]
if not (tonumber(ttl) and count) then
  return redis.error_reply('ERR the ttl and the count are numbers') -- while nothing has been done yet
end
local state = call('HMGET', root, 'fence', 'order', 'attributes', 'waiting', 't:' .. token)
local order, waiting, held = state[2], state[4], state[5]

if held then
  -- @include damage sweep mine
  local granted = mine(token, count) or damage()
  if granted then
    return granted
  end
  take_back_mine(token, count)
end
if held or order and call('ZCOUNT', leased, '-inf', millis) > 0 then
  -- @include sweep
  sweep(32)
end

if waiting and waiting ~= '0' then
  -- @include hand_off mine
  hand_off(32)
  local granted = mine(token, count)
  if granted then
    return granted
  end
  state[1], waiting = call('HGET', root, 'fence'), call('HGET', root, 'waiting')
end

if order and (not waiting or waiting == '0') then
  if count == 1 then
    -- @include grant
    local fence = next_fence(state[1])
    local first = call('ZPOPMIN', free)
    if first[1] then
      return grant(first[1], order == 'rank' and first[2] or order, token, fence, ttl, owner, state[3])
    end
  elseif call('ZCARD', free) >= count then
    -- @include grant_many
    return grant_many(token, count, ttl, owner)
  end
end

-- @include damage
-- @include nearest
local wrong = damage()
if wrong then
  return wrong
elseif order and count > 1 and count > call('ZCARD', root .. ':resources') then
  return -3 -- who waits for it would keep everybody else waiting
elseif not channel then
  return 0
end
-- @include waiters
local since
if call('ZSCORE', waiters, token) then -- it asks again, over another channel, and keeps its place and its time
  since = select(5, waiter(call('HGET', root, 'w:' .. token)))
else
  call('ZADD', waiters, call('HINCRBY', root, 'arrivals', '1'), token)
  call('HINCRBY', root, 'waiting', '1')
end
call('HSET', root, 'w:' .. token, table.concat({ count, ttl, channel, since or millis, owner }, ' '))
return 'wait ' .. nearest() .. ' ' .. millis
