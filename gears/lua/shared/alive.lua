-- @include waiters
-- How many wait: the dead among the first 250 in line do not count. They stay in it until a resource comes to them,
-- as a look at the pool must not cost a waiter its place whose connection is just being made anew.
local function alive()
  local tokens = call('ZRANGE', waiters, 0, 249)
  local dead = 0
  for i = 1, #tokens do
    local channel = string.match(call('HGET', root, 'w:' .. tokens[i]) or '', '^%S+ %S+ (%S+)')
    if not channel or call('PUBSUB', 'NUMSUB', channel)[2] == 0 then
      dead = dead + 1
    end
  end
  return call('ZCARD', waiters) - dead
end
