-- @include waiters
-- @include grant_many
-- @include nearest
-- Leases what is free to those who wait, first come, first served: called wherever a resource comes free.
-- Whoever wants several is not passed over for one behind who wants fewer. At most `limit` resources a call;
-- where that is not enough, the waiters are told to call again.
local function hand_off(limit)
  if (call('HGET', root, 'waiting') or '0') == '0' then
    return
  end
  local spare, known, served = call('ZCARD', free), nearest(), 0
  local token, count, ttl, channel, owner
  while spare > 0 do
    token, count, ttl, channel, owner = first_waiter()
    if not token or count > spare or served >= limit then
      break
    end
    forget_waiter(token)
    call('PUBLISH', channel, token .. ' ' .. grant_many(token, count, ttl, owner))
    spare = spare - count
    served = served + count
  end
  if call('ZCARD', waiters) > 0 then
    local left = nearest()
    if spare > 0 and (not token or count <= spare) then
      tell_all(0)
    elseif left >= 0 and (known < 0 or left < known) then
      tell_all(left)
    end
  end
end
