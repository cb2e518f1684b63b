-- @include score
-- Brings a resource whose lease is over, and which has left `leased`, to its home. The home is "gone" for one that
-- was removed while it was leased.
local function settle(name, home, seed, idle_since)
  if home ~= 'gone' then
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
  call('HINCRBY', root, 'total', -1)
end
