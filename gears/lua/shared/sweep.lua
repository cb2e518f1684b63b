-- @include settle
-- Takes lapsed leases back: `names` (1 to 1,000) are in `leased` and past their deadline.
-- Their tracking keys are left to their own expiry, which is due now: deleting one would cost a command and,
-- once the resource is leased again, would hit the next holder's.
local function take_back(names)
  local fields = {}
  for i = 1, #names do
    fields[i] = 'r:' .. names[i]
  end
  local records = call('HMGET', root, unpack(fields))
  local held = {}
  for i = 1, #names do
    held[i] = 't:' .. (records[i] and string.match(records[i], '^%S+') or '')
    fields[#fields + 1] = held[i]
  end
  local homes = call('HMGET', root, unpack(held))
  local deadlines = call('ZMSCORE', leased, unpack(names))
  call('ZREM', leased, unpack(names))
  for i = 1, #names do
    -- A lease without a record (the hash was damaged) goes home by its rank.
    local home = homes[i] and string.match(homes[i], '^[^%s*]+') or call('ZSCORE', root .. ':resources', names[i]) or 0
    settle(names[i], home, string.sub(held[i], 3), deadlines[i] .. '000')
  end
  call('HDEL', root, unpack(fields))
  call('HINCRBY', root, 'lapsed', #names)
end

-- Reclaims at most `limit` lapsed leases, the longest overdue first; returns how many.
local function sweep(limit)
  local names = call('ZRANGEBYSCORE', leased, '-inf', millis, 'LIMIT', 0, limit)
  if #names > 0 then
    take_back(names)
  end
  return #names
end
