-- Mend what a deleted or damaged key broke, without doubling a grant: what somebody may still hold is leased while
-- there is a deadline to go by, and goes to quarantine where there is none; never to `free`. A second run does nothing.
--
-- Atomic because what is judged here may be acquired or released in the same moment.
--
-- The caller goes through "pool", then the parts that examine.lua has, again until nothing is mended, then "end".
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  part, as for examine.lua; "pool": the root's own fields; "end": its counts, and whoever waits
--      3  cursor: "0" at first, then what the last page answered
--      4  about how many a page (1 to 250)
--      5  order of a pool whose hash is gone; "" to guess it
--      6  seed: 32 random hexadecimal digits
-- ->   the next cursor ("0": done), then for each thing mended the resource or token, and what became of it
--      -2 there is no such pool
-- The root's field `doubt` is there from a "pool" that had to make the hash anew until the "end": meanwhile a resource
-- that is in no set may have had records of a lease, and is not free.
-- @include pool
-- @include facts
-- @include settle
-- @include fence
-- @include log
-- @include waiters

local part, seed = ARGV[2], ARGV[6]
local answer = { '0' }
local function mended(name, what)
  answer[#answer + 1] = name
  answer[#answer + 1] = what
end

local function highest(key)
  return tonumber(call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] or 0)
end

local function set_if_wrong(field, value, text)
  if call('HGET', root, field) ~= value then
    call('HSET', root, field, value)
    mended('', text or (field .. ' is ' .. value .. ' now'))
  end
end

-- By the scores of what is free; a pool of which nothing is free handed out by rank, for all that is known.
local function guess_order()
  local some = call('ZRANGE', free, 0, 249, 'WITHSCORES')
  local by_rank, by_time = true, #some > 0
  for i = 1, #some, 2 do
    local place, rank = tonumber(some[i + 1]), tonumber(call('ZSCORE', resources, some[i]) or some[i + 1])
    by_rank = by_rank and place == rank and place < 2 ^ 33
    by_time = by_time and place > 2 ^ 33
  end
  return by_time and 'lru' or by_rank and 'rank' or 'random'
end

local function mend_root()
  local order = call('HGET', root, 'order')
  if order ~= 'rank' and order ~= 'lru' and order ~= 'random' then
    local some = call('EXISTS', resources, free, leased, quarantined, leaving, held_back, root .. ':attributes', root .. ':log')
    if some == 0 and not order then
      return -2
    end
    order = ARGV[5] ~= '' and ARGV[5] or guess_order()
    call('HSET', root, 'order', order, 'doubt', '1', 'born', micros,
      'about', 'A pool of leases, format 1. Its keys and fields are described in gears/README.md of relet. (Mended.)')
    mended('', 'its hash was made anew, with the order ' .. order .. ', and no policies: set them again if it had any')
  end
  if string.find(call('HGET', root, 'fence') or '0', '%D') then
    call('HDEL', root, 'fence')
    mended('', 'the fence goes on from the clock')
  end
  local seq = tonumber(call('HGET', root, 'seq') or '') or 0
  local top = math.max(seq, highest(resources), order == 'rank' and highest(free) < 2 ^ 53 and highest(free) or 0)
  set_if_wrong('seq', string.format('%d', top))
  return answer
end

local function finish()
  local granted, lapsed = call('HGET', root, 'granted'), call('HGET', root, 'lapsed')
  local least = (tonumber(lapsed or '') or 0) + call('ZCARD', leased)
  if (tonumber(granted or '') or 0) < least then
    set_if_wrong('granted', string.format('%d', least))
  end
  local had, has = call('HGET', root, 'total') or '0', string.format('%d', call('ZCARD', resources))
  set_if_wrong('total', has, tonumber(had) and tonumber(had) > tonumber(has) and
    tonumber(had) - has .. ' resources are in no key any more: add them again' or 'the total is ' .. has .. ' now')
  if (call('HGET', root, 'waiting') or '0') ~= tostring(call('ZCARD', waiters)) then
    set_if_wrong('waiting', string.format('%d', call('ZCARD', waiters)))
  end
  if highest(waiters) > (tonumber(call('HGET', root, 'arrivals') or '') or 0) then
    set_if_wrong('arrivals', string.format('%d', highest(waiters)))
  end
  local has_attributes = call('EXISTS', root .. ':attributes') == 1
  if has_attributes then
    set_if_wrong('attributes', '1')
  elseif call('HDEL', root, 'attributes') == 1 then
    mended('', 'the mark that there are attributes is gone, as they are')
  end
  call('HDEL', root, 'doubt')
  if call('EXISTS', root .. ':log') == 0 and call('ZCARD', resources) > 0 then
    mended('', 'the log begins anew')
  end
  if #answer > 1 and has == '0' then
    mended('', 'no resource is left in any key: add them again')
  end
  if #answer > 1 then
    log('repair', 'count', (#answer - 1) / 2, 'reason', 'the pool was damaged')
  end
  -- @include hand_off
  hand_off(100)
  return answer
end

local function seed_of(name)
  return string.sub(redis.sha1hex(seed .. name), 1, 32)
end

-- Into the list of all resources, with a rank that no other has.
local function list_it(it)
  if it.rank then
    return
  end
  local rank = it.order == 'rank' and tonumber(it.free) or tonumber(it.home)
  if not rank or rank < 1 or rank > 2 ^ 53 or call('ZCOUNT', resources, rank, rank) > 0 then
    rank = math.max(tonumber(call('HGET', root, 'seq') or '') or 0, highest(resources)) + 1
  end
  if rank > (tonumber(call('HGET', root, 'seq') or '') or 0) then
    call('HSET', root, 'seq', string.format('%d', rank))
  end
  it.rank = string.format('%d', rank)
  call('ZADD', resources, it.rank, it.name)
end

-- The records and copies of a lease, by what is left of them.
local function complete_lease(it)
  local name, token, home, star = it.name, it.token, it.home, it.star
  if not home then
    home, star = home_by(it.tracked, name)
    token = home and it.tracked or token or it.tracked or seed_of(name)
  end
  local goes_aside = home == 'held' or home == 'dirty' or it.held or it.has_kept or it.aside
  if it.leaving or home == 'gone' then
    home = 'gone'
  elseif goes_aside then
    home = home == 'dirty' and 'dirty' or 'held'
  else
    home = home or plain_home(name)
  end
  if token ~= it.token then
    if it.token and home_by(it.token, name) then
      call('HDEL', root, 't:' .. it.token)
    end
    -- Leased at 0: the holder knows a fence that is lost here, and renews with it all the same (renew.lua).
    local fence = next_fence(call('HGET', root, 'fence'))
    call('HSET', root, 'fence', fence, 'r:' .. name, token .. ' ' .. fence .. ' 0 (its record was lost)')
  end
  call('HSET', root, 't:' .. token, home .. (star or '') .. ' ' .. name)
  if tonumber(it.deadline) > now then
    call('SET', tracking .. name, token, 'PXAT', it.deadline)
  end
  if home == 'gone' then
    call('ZADD', leaving, it.deadline, name)
  else
    call('ZREM', leaving, name)
  end
  if home == 'held' or home == 'dirty' then
    call('ZADD', held_back, it.deadline, name)
    if not it.kept then
      call('HSET', root, 'q:' .. name, 'quarantine 0 (the reason was lost)')
    end
  else
    call('ZREM', held_back, name)
  end
end

-- What is left of a lease that is over, or never was.
local function clear_lease(it)
  if it.token and it.home then
    call('HDEL', root, 't:' .. it.token)
  end
  if it.has_record then
    call('HDEL', root, 'r:' .. it.name)
    call('HINCRBY', root, 'lapsed', 1)
  end
  call('ZREM', leaving, it.name)
  call('ZREM', held_back, it.name)
  call('DEL', tracking .. it.name)
end

local function to_quarantine(it, reason)
  call('ZREM', free, it.name)
  local kind, since, why = string.match(it.kept or '', '^(%S+) (%d+) (.*)$')
  clear_lease(it)
  if kind and since ~= '0' then
    call('ZADD', quarantined, kind == 'drain' and '+inf' or since, it.name)
  elseif it.aside and not kind and not reason then
    local is_drained = tonumber(it.aside) == math.huge
    call('HSET', root, 'q:' .. it.name, (is_drained and 'drain 0' or 'quarantine ' .. it.aside) .. ' (the reason was lost)')
  else
    set_aside(it.name, kind or 'quarantine', why or reason or '(the reason was lost)')
  end
  mended(it.name, 'is quarantined' .. (reason and ': ' .. reason or ''))
end

-- The moment at which the tracking key expires, rather later than earlier.
local function end_of_tracking(name)
  local left = call('PTTL', tracking .. name)
  local at = call('TIME')
  return string.format('%d', at[1] * 1000 + math.floor(at[2] / 1000) + 1 + math.max(left, 0))
end

local function mend(name)
  local it = facts(name)
  if #faults(it) == 0 then
    return
  end
  local is_placed = it.free or it.aside
  local is_known = it.left > 0 and (it.token == it.tracked or home_by(it.tracked, name))
  if not it.deadline and (is_known or it.left > 0 and not is_placed) then
    it.deadline = end_of_tracking(name)
  elseif not it.deadline and not is_placed and (it.leaving or it.held) then
    it.deadline = it.leaving or it.held
  end
  local is_anywhere = it.deadline or is_placed or it.rank or it.has_record or it.has_kept
  if not is_anywhere then -- something names it in `leaving` or `held` or the like, and nothing else knows it
    clear_lease(it)
    mended(name, 'is not of this pool: what was left of it is gone')
    return
  end
  list_it(it)
  if it.deadline then
    call('ZADD', leased, it.deadline, name)
    call('ZREM', free, name)
    call('ZREM', quarantined, name)
    complete_lease(it)
    mended(name, 'is leased')
  elseif it.has_record then
    to_quarantine(it, 'the deadline of its lease was lost; held by ' .. (it.owner or '?'))
  elseif it.left > SLACK_MS then
    to_quarantine(it, 'it was not leased, but had a tracking key')
  elseif it.aside or it.has_kept then
    to_quarantine(it)
  elseif it.free or not call('HGET', root, 'doubt') then
    clear_lease(it)
    if not it.free or not fits(it) then
      settle(name, plain_home(name), seed_of(name))
    end
    mended(name, 'is free')
  else
    to_quarantine(it, 'whether somebody holds it is not known: its records were lost')
  end
end

-- A field of the root that speaks of a lease or a waiter.
local function mend_field(field)
  local kind, rest = string.sub(field, 1, 2), string.sub(field, 3)
  if kind == 'w:' and not call('ZSCORE', waiters, rest) then
    call('HDEL', root, field)
    mended(rest, 'does not wait')
  elseif kind == 't:' then
    local of = string.match(call('HGET', root, field) or '', '^%S+ (.*)$') or ''
    if holder(of) ~= rest then
      mend(of) -- it may be all that is left of a lease
      if holder(of) ~= rest then
        call('HDEL', root, field)
        mended(of, 'has no record any more of a lease that nobody has')
      end
    end
  elseif kind == 'r:' or kind == 'q:' then
    mend(rest)
  end
end

if part == 'pool' then
  return mend_root()
elseif not call('HGET', root, 'order') then
  return -2
elseif part == 'end' then
  return finish()
end
local cursor, names = page_of(part, ARGV[3], ARGV[4])
answer[1] = cursor
for i = 1, #names do
  local name = names[i]
  if part == '' then
    mend_field(name)
  elseif part == ':waiters' then
    if not waiter(call('HGET', root, 'w:' .. name)) then
      call('HDEL', root, 'w:' .. name)
      call('ZREM', waiters, name)
      mended(name, 'does not wait: it asks again')
    end
  elseif part == ':attributes' then
    if not call('ZSCORE', resources, name) then
      local it = facts(name)
      list_it(it)
      to_quarantine(it, 'nothing was left of it but its attributes')
    end
  else
    mend(name)
  end
end
return answer
