-- The score in `free` of a resource whose home is its rank, "lru" or "random". `seed` is hexadecimal text that differs
-- from lease to lease; `idle_since` (µs) is now, if it is left out.
local function score(home, seed, idle_since)
  if home == 'lru' then
    return idle_since or micros
  elseif home == 'random' then
    return tonumber(string.sub(seed, 1, 8), 16) or 0
  end
  return home
end

-- Where a resource belongs while it is not leased, by the pool's order.
local function home_of(order, rank)
  return order == 'rank' and rank or order
end
