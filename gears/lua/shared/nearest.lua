-- ms until the nearest deadline: 0 if one has passed, -1 if nothing is leased.
local function nearest()
  local first = call('ZRANGE', leased, '0', '0', 'WITHSCORES')
  return first[2] and math.max(0, first[2] - now) or -1
end
