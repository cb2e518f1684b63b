-- @include settle
-- Brings a resource back that its holder had, in a `way` (release, lapse) after which the pool may want it cleaned.
local function come_back(name, home, token, policy, way, reason)
  if home == 'dirty' and way == 'release' then -- it was cleaned
    call('HDEL', root, 'q:' .. name)
    call('ZREM', held_back, name)
    home = plain_home(name)
  elseif policy and string.find(policy, way, 1, true) and (tonumber(home) or home == 'lru' or home == 'random') then
    local owner = string.match(call('HGET', root, 'r:' .. name) or '', '^%S+ %S+ %S+ (.*)$') or ''
    set_aside(name, 'quarantine', reason .. owner)
    return
  end
  settle(name, home, token)
end
