-- @include lease
-- @include aside
-- What all keys of the pool say of one resource, and what of it cannot be. For the doctor alone: it costs a dozen calls.
local resources, leaving = root .. ':resources', root .. ':leaving'
-- ms: by so much may an expiry differ, as one script's clock is read several times.
local SLACK_MS = 1000

-- A page of members or fields from a set or hash: the next cursor ("0": done), and the names.
local function page_of(part, cursor, count)
  local is_hash = part == '' or part == ':attributes'
  local page = call(is_hash and 'HSCAN' or 'ZSCAN', root .. part, cursor, 'COUNT', count)
  local names = {}
  for i = 1, #page[2], 2 do
    names[#names + 1] = page[2][i]
  end
  return page[1], names
end

-- The home that t:<token> has for the resource, and its "*"; nil if that record is missing or speaks of another.
local function home_by(token, name)
  local home, star, of = string.match(token and call('HGET', root, 't:' .. token) or '', '^([^%s*]+)(%*?) (.*)$')
  if of == name then
    return home, star
  end
end

local function facts(name)
  local it = { name = name }
  local stored = call('HMGET', root, 'order', 'r:' .. name, 'q:' .. name)
  it.order = stored[1]
  it.token, it.fence, it.owner = string.match(stored[2] or '', '^(%S+) (%d+) %d+ (.*)$')
  it.has_record = stored[2]
  it.record = it.token and stored[2]
  it.kept = stored[3] and string.find(stored[3], '^%S+ %d+ ') and stored[3]
  it.has_kept = stored[3]
  it.rank, it.free = call('ZSCORE', resources, name), call('ZSCORE', free, name)
  it.deadline, it.aside = call('ZSCORE', leased, name), call('ZSCORE', quarantined, name)
  it.leaving, it.held = call('ZSCORE', leaving, name), call('ZSCORE', held_back, name)
  it.tracked = call('EXISTS', tracking .. name) == 1 and call('TYPE', tracking .. name).ok == 'string' and
    call('GET', tracking .. name)
  it.left = it.tracked and call('PTTL', tracking .. name) or 0
  it.home, it.star = home_by(it.token, name)
  return it
end

local function fits(it)
  local place = tonumber(it.free)
  if it.order == 'rank' then
    return place == tonumber(it.rank)
  end
  return (place > 2 ^ 33) == (it.order == 'lru')
end

-- What cannot be: pairs of a level (error, or warn where no answer of the pool is wrong for it) and a sentence.
local function faults(it)
  local found = {}
  local function say(level, text)
    found[#found + 1] = level
    found[#found + 1] = text
  end
  local places = {}
  places[#places + 1] = it.free and 'free' or nil
  places[#places + 1] = it.deadline and 'leased' or nil
  places[#places + 1] = it.aside and 'quarantined' or nil
  if #places > 1 then
    say('error', 'is ' .. table.concat(places, ' and ') .. ' at the same time')
  elseif #places == 0 and it.rank then
    say('error', 'is neither free, leased nor quarantined')
  elseif #places == 0 and (it.has_record or it.has_kept or it.leaving or it.held) then
    say('error', 'has records, but is in none of the sets')
  elseif #places == 1 and not it.rank then
    say('error', 'is ' .. places[1] .. ', but not in the list of all resources')
  end
  if it.deadline then
    if not it.record or not it.home then
      say('error', 'is leased, but ' .. (it.record and 't:' or 'r:') .. ', a record of its lease, is missing or wrong')
    end
    if tonumber(it.deadline) > now + SLACK_MS then
      if it.tracked ~= (it.token or it.tracked) or not it.tracked then
        say('warn', 'is leased, but its tracking key ' .. (it.tracked and 'has another token' or 'is missing'))
      elseif math.abs(now + it.left - it.deadline) > SLACK_MS then
        say('warn', 'is leased, but its tracking key expires at another time than its lease')
      end
    end
    if (it.home == 'gone') ~= (it.leaving and true or false) and (it.home or it.leaving) then
      say('error', 'is leased and ' .. (it.leaving and 'in' or 'missing from') .. ' `leaving`, against its record')
    end
    local goes_aside = it.home == 'held' or it.home == 'dirty'
    if goes_aside ~= (it.held and true or false) and (it.home or it.held) then
      say('error', 'is leased and ' .. (it.held and 'in' or 'missing from') .. ' `held`, against its record')
    elseif goes_aside and not it.kept then
      say('error', 'goes aside when it comes back, but the record why is missing')
    end
    for _, copy in ipairs({ it.leaving or it.deadline, it.held or it.deadline }) do
      if tonumber(copy) ~= tonumber(it.deadline) then
        say('error', 'has another deadline in `leaving` or `held` than in `leased`')
      end
    end
  elseif #places > 0 then
    if it.has_record or it.leaving or it.held then
      say('error', 'is not leased, but has what is left of a lease')
    elseif it.left > SLACK_MS then
      say('warn', 'is not leased, but has a tracking key')
    end
    if it.aside and not it.kept then
      say('error', 'is quarantined, but the record why is missing')
    elseif it.free and it.has_kept then
      say('error', 'is free, but has a record why it is kept aside')
    end
    if it.free and it.order and it.rank and not fits(it) then
      say('warn', 'has a place among the free that does not fit the order of the pool')
    end
  end
  return found
end
