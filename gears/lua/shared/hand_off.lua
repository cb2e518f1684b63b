-- @include waiters
-- @include grant_many
-- @include nearest
-- Leases what is free to those who wait, first come, first served: called wherever a resource comes free.
-- Whoever wants several is not passed over for one behind who wants fewer. At most `limit` resources a call;
-- where that is not enough, the waiters are told to call again.
local function hand_off(limit)
  local state = call('HMGET', root, 'waiting', 'order')
  local waiting = state[1] or '0'
  local spare = waiting ~= '0' and state[2] and call('ZCARD', free) or 0
  if spare == 0 then
    return
  end
  local known, served = waiting ~= '1' and nearest(), 0
  local more = false
  while spare > 0 do
    local token, count, ttl, channel, owner, place = call_first()
    more = not token or served >= limit
    if not token then
      break
    elseif not more and count > spare and count > call('ZCARD', root .. ':resources') then
      call('HDEL', root, 'w:' .. token) -- resources were removed: it asks again, and is told that there are not so many
    elseif more or count > spare then
      call('ZADD', waiters, place, token)
      break
    else
      call('HDEL', root, 'w:' .. token)
      call('PUBLISH', channel, token .. ' ' .. grant_many(token, count, ttl, owner))
      spare = spare - count
      served = served + count
    end
  end
  if count_waiting() > 0 then
    local left = more and 0 or nearest()
    if more or (served > 0 and known and (known < 0 or left < known)) then
      tell_all(left)
    end
  end
end
