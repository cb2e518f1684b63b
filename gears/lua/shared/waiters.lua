-- Those who wait: in the sorted set `waiters` by their arrival, each with a record w:<token> =
-- "<count> <ttl ms> <channel> <owner>" in the root hash, whose field `waiting` counts them.
local waiters = root .. ':waiters'

-- To everybody who waits for this pool: the ms until a deadline that they may not know of.
local function tell_all(left)
  call('PUBLISH', (string.gsub(root, ':pool:{', ':wake:{', 1)), 'next ' .. left)
end

-- Takes the first in line whose connection lives out of the line: token, count, ttl, channel, owner, and its place.
-- The dead ahead of it are forgotten, at most 100. The caller counts `waiting` anew.
local function call_first()
  for _ = 1, 100 do
    local first = call('ZPOPMIN', waiters)
    local token = first[1]
    if not token then
      return
    end
    local record = call('HGET', root, 'w:' .. token) or ''
    local count, ttl, channel, owner = string.match(record, '^(%S+) (%S+) (%S+) (.*)$')
    if count and call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
      return token, tonumber(count), ttl, channel, owner, first[2]
    end
    call('HDEL', root, 'w:' .. token)
  end
end

local function count_waiting()
  local left = call('ZCARD', waiters)
  call('HSET', root, 'waiting', left)
  return left
end
