-- Take lapsed leases back. This is what runs inside the server when a tracking key expires.
--
-- Atomic because a lease that is renewed in the same moment must be either renewed or lapsed, not both.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  how many at most (1 to 1,000)
-- ->   "<how many> <ms until the next deadline, 0 if one has passed already, -1 if there is none>"
-- @include pool
-- @include sweep
-- @include hand_off

local swept = sweep(ARGV[2])
if swept > 0 then
  hand_off(swept)
end
return swept .. ' ' .. nearest()
