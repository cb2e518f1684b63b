-- Where a resource goes when its lease is over: back to `free`, or out of the pool if it was removed meanwhile.
-- It has left `leased` already. Where `rank` is not known it is looked up.
local function settle(name, order, leaving, rank, seed)
  if leaving and leaving ~= '0' and call('ZREM', root .. ':leaving', name) == 1 then
    call('ZREM', root .. ':resources', name)
    call('HDEL', root .. ':attributes', name)
    call('HINCRBY', root, 'leaving', -1)
    call('HINCRBY', root, 'total', -1)
    return
  end
  if not rank and order ~= 'lru' and order ~= 'random' then
    rank = call('ZSCORE', root .. ':resources', name)
  end
  call('ZADD', free, score(order, rank or 0, seed), name)
end
