-- @include waiters
-- Who waits: the live among the first 250 in line, first come first, as lists of count, ttl, owner and since when; and
-- how many of these 250 are dead. They stay in line until a resource comes to them, as a look at the pool must not cost
-- a waiter its place whose connection is just being made anew.
local function alive()
  local tokens = call('ZRANGE', waiters, 0, 249)
  local found = {}
  for i = 1, #tokens do
    local count, ttl, channel, owner, since = waiter(call('HGET', root, 'w:' .. tokens[i]))
    if count and is_heard(channel) then
      found[#found + 1] = { count, ttl, owner, since }
    end
  end
  return found, #tokens - #found
end

-- How many wait: the dead that alive() found do not count.
local function count_alive()
  local _, dead = alive()
  return call('ZCARD', waiters) - dead
end
