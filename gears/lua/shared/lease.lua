-- The lease that a record t:<token> speaks of: home, resource, and deadline in ms as `leased` has it (or false).
-- The home has a "*" behind it where the deadline was moved to an earlier one.
local function find(held)
  local home, name = string.match(held, '^([^%s*]+)%*? (.*)$')
  return home, name, call('ZSCORE', leased, name)
end

local function live(deadline)
  return deadline and tonumber(deadline) > now
end

-- The token that holds a resource, as its record r:<resource> has it.
local function holder(name)
  local record = call('HGET', root, 'r:' .. name)
  return record and string.match(record, '^%S+')
end

-- Writes down another home for a leased resource.
local function rehome(name, home)
  local token_field = 't:' .. (holder(name) or '')
  local held = call('HGET', root, token_field)
  if held then
    call('HSET', root, token_field, home .. string.match(held, '^[^%s*]+(%*?)') .. ' ' .. name)
  end
end
