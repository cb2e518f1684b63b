-- @include settle
-- Whether what comes back in a `way` (release, lapse, force) is to be cleaned by the pool's policy. Force is like either
-- of the others: whoever was robbed has cleaned nothing.
local function wants_cleaning(policy, way)
  return policy and (way == 'force' or string.find(policy, way, 1, true))
end

-- Brings a resource back that its holder had. Without a policy and a way it goes to its home, whatever that is.
local function come_back(name, home, token, policy, way, reason)
  if home == 'dirty' and way == 'release' then -- it was cleaned
    call('HDEL', root, 'q:' .. name)
    call('ZREM', held_back, name)
    home = plain_home(name)
  elseif wants_cleaning(policy, way) and (tonumber(home) or home == 'lru' or home == 'random') then
    local owner = string.match(call('HGET', root, 'r:' .. name) or '', '^%S+ %S+ %S+ (.*)$') or ''
    set_aside(name, 'quarantine', reason .. owner)
    return
  end
  settle(name, home, token)
end
