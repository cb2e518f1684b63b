-- @include come_back
-- Ends a live lease before its deadline, and brings the resource back (come_back.lua has the last three).
local function end_lease(name, home, token, policy, way, reason)
  call('ZREM', leased, name)
  come_back(name, home, token, policy, way, reason)
  call('DEL', tracking .. name)
  call('HDEL', root, 't:' .. token, 'r:' .. name)
end
