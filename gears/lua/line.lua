-- Describe who waits, first come first; whose connection is dead does not show, as it does not count in stats.lua.
--
-- Atomic because whoever is served in the same moment must not be missing and the next one not yet be the first.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  how many at most (1 to 250: only the first 250 in line are looked at)
-- ->   for each waiter four values: how many resources it waits for, all or none; the ttl of their leases, ms; ms since
--      it took its place, or -1 if that is not known; its owner. Its token is its own business.
-- @include pool
-- @include alive

local answer = {}
for i, one in ipairs(alive()) do
  if i > tonumber(ARGV[2]) then
    break
  end
  local count, ttl, owner, since = unpack(one, 1, 4)
  local size = #answer
  answer[size + 1] = count
  answer[size + 2] = tonumber(ttl)
  answer[size + 3] = since and math.max(0, now - since) or -1
  answer[size + 4] = owner
end
return answer
