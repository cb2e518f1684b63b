-- Takes lapsed leases back: `names` (1 to 1,000) are in `leased` and past their deadline.
-- Their tracking keys are left to their own expiry, which is due now: deleting one would cost a command and,
-- once the resource is leased again, would hit the next holder's.
local function take_back(names)
  local fields = {}
  for i = 1, #names do
    fields[i] = 'r:' .. names[i]
  end
  local records = call('HMGET', root, unpack(fields))
  local ranks = call('ZMSCORE', root .. ':resources', unpack(names))
  local state = call('HMGET', root, 'order', 'leaving')
  call('ZREM', leased, unpack(names))
  for i = 1, #names do
    local token = records[i] and string.match(records[i], '^%S+')
    if token then
      fields[#fields + 1] = 't:' .. token
    end
    settle(names[i], state[1], state[2], ranks[i], token or clock[2])
  end
  call('HDEL', root, unpack(fields))
  call('HINCRBY', root, 'lapsed', #names)
end

-- Reclaims at most `limit` lapsed leases, the longest overdue first; returns how many.
local function sweep(limit)
  local names = call('ZRANGEBYSCORE', leased, '-inf', now, 'LIMIT', 0, limit)
  if #names > 0 then
    take_back(names)
  end
  return #names
end
