-- Those who wait: in the sorted set `waiters` by their arrival, each with a record w:<token> =
-- "<count> <ttl ms> <channel> <owner>" in the root hash, whose field `waiting` counts them.
local waiters = root .. ':waiters'

-- To everybody who waits for this pool: the ms until a deadline that they may not know of.
local function tell_all(left)
  call('PUBLISH', (string.gsub(root, ':pool:{', ':wake:{', 1)), 'next ' .. left)
end

local function forget_waiter(token)
  call('HDEL', root, 'w:' .. token)
  if call('ZREM', waiters, token) == 1 then
    call('HINCRBY', root, 'waiting', -1)
    return true
  end
end

-- The first in line whose connection lives, and what it waits for. The dead ahead of it are forgotten, at most 100.
local function first_waiter()
  for _ = 1, 100 do
    local token = call('ZRANGE', waiters, 0, 0)[1]
    if not token then
      return
    end
    local record = call('HGET', root, 'w:' .. token) or ''
    local count, ttl, channel, owner = string.match(record, '^(%S+) (%S+) (%S+) (.*)$')
    if count and call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
      return token, tonumber(count), ttl, channel, owner
    end
    forget_waiter(token)
  end
end
