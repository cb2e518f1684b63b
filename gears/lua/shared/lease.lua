-- What a token's record t:<token> says: the resource, its home rank (nil where the pool's order has none),
-- and the deadline in ms as `leased` has it (false if it is not there).
local function find(held)
  local rank, name = string.match(held, '^(%S+) (.*)$')
  return name, rank ~= '-' and rank or nil, call('ZSCORE', leased, name)
end

local function live(deadline)
  return deadline and tonumber(deadline) > now
end
