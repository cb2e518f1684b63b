-- Change the order in which a pool hands out its resources. The caller repeats this from rank to rank until it is done.
--
-- Atomic because a resource must not be put into `free` that was leased in the same moment.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  the new order: rank, lru, random
--      3  hexadecimal seed for random order
--      4  rank after which to go on (0 at first)
--      5  how many resources at most (1 to 1,000)
-- ->   the last rank done, or 0: there are no more; -2: there is no such pool
-- @include pool
-- @include score
-- @include damage
-- @include lease

local order = ARGV[2]
if not call('HGET', root, 'order') then
  return damage() or -2
end
call('HSET', root, 'order', order)
local page = call('ZRANGEBYSCORE', root .. ':resources', '(' .. ARGV[4], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[5])
local seed = tonumber(string.sub(ARGV[3], 1, 8), 16) or 0
for i = 1, #page, 2 do
  local name, home = page[i], home_of(order, page[i + 1])
  if call('ZSCORE', free, name) then
    seed = (seed * 48271 + 1) % 2147483647
    call('ZADD', free, score(home, string.format('%08x', seed)), name)
  elseif not call('ZSCORE', root .. ':leaving', name) and not call('HGET', root, 'q:' .. name) then
    rehome(name, home)
  end
end
return tonumber(page[#page] or 0)
