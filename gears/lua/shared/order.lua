-- The score under which a resource waits in `free`. `seed` is hexadecimal text that differs from lease to lease.
local function score(order, rank, seed)
  if order == 'lru' then
    return micros()
  elseif order == 'random' then
    return tonumber(string.sub(seed, 1, 8), 16) or 0
  end
  return rank
end
