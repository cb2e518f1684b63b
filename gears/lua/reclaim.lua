-- Take lapsed leases back. This is what runs inside the server when a tracking key expires.
--
-- Atomic because a lease that is renewed in the same moment must be either renewed or lapsed, not both.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  how many at most (1 to 1,000)
-- ->   "<how many> <ms until the next deadline, 0 if one has passed already, -1 if there is none>"
-- @include pool
-- @include settle
-- @include hand_off

-- shared/sweep.lua once more, for many: a third quicker, since those that have a place of their own go home together,
-- and deadlines are asked for only where the order goes by them.
local function places_of(names, homes, held)
  local places, by_deadline = {}, {}
  for i = 1, #names do
    local home = homes[i] and string.match(homes[i], '^[^%s*]+')
    if home == 'lru' then
      by_deadline[#by_deadline + 1] = i
    elseif home == 'random' then
      home = score(home, string.sub(held[i], 3))
    end
    places[i] = home or call('ZSCORE', root .. ':resources', names[i]) or 0
  end
  for _, i in ipairs(by_deadline) do
    places[i] = call('ZSCORE', leased, names[i]) .. '000'
  end
  return places
end

local names = call('ZRANGEBYSCORE', leased, '-inf', millis, 'LIMIT', 0, ARGV[2])
local count = #names
if count > 0 then
  local fields, held, back = {}, {}, {}
  for i = 1, count do
    fields[i] = 'r:' .. names[i]
  end
  local records = call('HMGET', root, unpack(fields))
  for i = 1, count do
    held[i] = 't:' .. (records[i] and string.match(records[i], '^%S+') or '')
    fields[count + i] = held[i]
  end
  local places = places_of(names, call('HMGET', root, unpack(held)), held)
  call('ZREM', leased, unpack(names))
  for i = 1, count do
    if tonumber(places[i]) then
      back[#back + 1] = places[i]
      back[#back + 1] = names[i]
    else
      settle(names[i], places[i]) -- it is to go, or its record is damaged
    end
  end
  if #back > 0 then
    call('ZADD', free, unpack(back))
  end
  call('HDEL', root, unpack(fields))
  call('HINCRBY', root, 'lapsed', count)
  hand_off(count)
end
return count .. ' ' .. nearest()
