-- Those who wait: in the sorted set `waiters` by their arrival, each with a record w:<token> =
-- "<count> <ttl ms> <channel> <since, ms> <owner>" in the root hash, whose field `waiting` counts them.
local waiters = root .. ':waiters'

-- What a waiter's record says: count, ttl, channel, owner and since when; nil if it makes no sense. A record of older
-- clients says nothing of a time: the digits that their owner may begin with are no ms of this century.
local function waiter(record)
  local count, ttl, channel, rest = string.match(record or '', '^(%d+) (%d+) (%S+) (.*)$')
  local since, owner = string.match(rest or '', '^(%d+) (.*)$')
  if not since or #since < 13 then
    since, owner = nil, rest
  end
  return tonumber(count), ttl, channel, owner, since
end

-- Whether the connection lives over which a waiter is told.
local function is_heard(channel)
  return call('PUBSUB', 'NUMSUB', channel)[2] > 0
end

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
    local count, ttl, channel, owner = waiter(call('HGET', root, 'w:' .. token))
    if count and is_heard(channel) then
      return token, count, ttl, channel, owner, first[2]
    end
    call('HDEL', root, 'w:' .. token)
  end
end

local function count_waiting()
  local left = call('ZCARD', waiters)
  call('HSET', root, 'waiting', left)
  return left
end
