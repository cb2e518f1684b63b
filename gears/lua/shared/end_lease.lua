-- @include settle
-- Ends a live lease before its deadline, and brings the resource home.
local function end_lease(name, home, token)
  call('ZREM', leased, name)
  settle(name, home, token)
  call('DEL', tracking .. name)
  call('HDEL', root, 't:' .. token, 'r:' .. name)
end
