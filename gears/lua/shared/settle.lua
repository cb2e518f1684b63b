-- @include score
-- @include aside
-- Brings a resource whose lease is over, and which has left `leased`, to its home. The home is "gone" for one that
-- was removed while it was leased, "held" or "dirty" for one that goes aside.
local function settle(name, home, seed, idle_since)
  if home == 'held' or home == 'dirty' then
    bring_aside(name)
    return
  elseif home ~= 'gone' then
    local place = score(home, seed, idle_since)
    if not tonumber(place) then -- a damaged record
      place = call('ZSCORE', root .. ':resources', name) or 0
    end
    call('ZADD', free, place, name)
    return
  end
  call('ZREM', root .. ':leaving', name)
  call('ZREM', root .. ':resources', name)
  call('HDEL', root .. ':attributes', name)
  call('HDEL', root, 'q:' .. name)
  call('HINCRBY', root, 'total', '-1')
end

-- The home by the pool's order of a resource that has none, or another for now.
local function plain_home(name)
  return home_of(call('HGET', root, 'order'), call('ZSCORE', root .. ':resources', name) or 0)
end
