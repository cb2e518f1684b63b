-- Resources that are kept aside for whoever cleans or mends them: in the sorted set `quarantined` by the ms since when,
-- each with a record q:<resource> = "<kind> <since, ms> <reason>". The kind is quarantine, or drain: that is offered
-- to no cleaner, and scored +inf.
--
-- A resource that is leased has such a record too if it will go there: its home is "held", and `held` has it by its
-- deadline. The home is "dirty" while it is leased for cleaning: it goes home once it is released, and back to
-- quarantine however else the lease ends.
local quarantined, held_back = root .. ':quarantined', root .. ':held'

local function set_aside(name, kind, reason)
  call('HSET', root, 'q:' .. name, kind .. ' ' .. millis .. ' ' .. reason)
  call('ZADD', quarantined, kind == 'drain' and '+inf' or millis, name)
end

-- Brings a resource there whose record was written while it was leased.
local function bring_aside(name)
  local record = call('HGET', root, 'q:' .. name) or 'quarantine 0 '
  local kind, reason = string.match(record, '^(%S+) %S+ (.*)$')
  call('ZREM', held_back, name)
  set_aside(name, kind, reason)
end
