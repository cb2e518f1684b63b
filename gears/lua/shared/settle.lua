-- @include score
-- Brings a resource whose lease is over, and which has left `leased`, to its home. The home is "gone" for one that
-- was removed while it was leased.
local function settle(name, home, seed, idle_since)
  if home ~= 'gone' then
    call('ZADD', free, score(home, seed, idle_since), name)
    return
  end
  call('ZREM', root .. ':leaving', name)
  call('ZREM', root .. ':resources', name)
  call('HDEL', root .. ':attributes', name)
  call('HINCRBY', root, 'total', -1)
end
