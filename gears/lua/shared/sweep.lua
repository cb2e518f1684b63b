-- @include settle
-- @include log
-- Where a lapsed lease goes if that is a place in `free`; nil if it goes elsewhere, or its record makes no sense.
local function place_in_free(held, deadline, token)
  local home = held and string.match(held, '^[^%s*]+')
  local place = home and score(home, token, deadline .. '000')
  return tonumber(place) and place
end

-- Takes lapsed leases back: `names` (1 to 1,000) are in `leased` and past their deadline.
-- Their tracking keys are left to their own expiry, which is due now: deleting one would cost a command and,
-- once the resource is leased again, would hit the next holder's.
local function take_back(names)
  local fields, tokens = {}, {}
  for i = 1, #names do
    fields[i] = 'r:' .. names[i]
  end
  local records = call('HMGET', root, unpack(fields))
  for i = 1, #names do
    tokens[i] = records[i] and string.match(records[i], '^%S+') or ''
    fields[#fields + 1] = 't:' .. tokens[i]
  end
  local held = call('HMGET', root, 'policy', unpack(fields, #names + 1))
  local deadlines = call('ZMSCORE', leased, unpack(names))
  local is_dirty = held[1] and string.find(held[1], 'lapse', 1, true)
  call('ZREM', leased, unpack(names))
  local back, lapses = {}, {}
  for i = 1, #names do
    local name, record = names[i], records[i] or ' 0 0 '
    local place = place_in_free(held[i + 1], deadlines[i], tokens[i])
    if place and is_dirty then
      set_aside(name, 'quarantine', 'lapsed: ' .. (string.match(record, '^%S+ %S+ %S+ (.*)$') or ''))
    elseif place then
      back[#back + 1] = place
      back[#back + 1] = name
    else
      -- A lease without a record (the hash was damaged) goes home by its rank.
      local home = held[i + 1] and string.match(held[i + 1], '^%l+')
      settle(name, home or call('ZSCORE', root .. ':resources', name) or 0)
    end
    lapses[#lapses + 1] = name
    lapses[#lapses + 1] = deadlines[i] .. string.sub(record, #tokens[i] + 1)
    if #lapses == 100 or i == #names then
      log('lapse', unpack(lapses))
      lapses = {}
    end
  end
  if #back > 0 then
    call('ZADD', free, unpack(back))
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
