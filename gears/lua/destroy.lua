-- Delete the pool, its leases included. The caller repeats this until it is done.
--
-- Atomic because no lease may be granted from what is half gone: the first call takes the pool away as a whole,
-- and what is left to do, the tracking keys of its leases, waits in `destroyed`.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  how many leases to clear at most (1 to 1,000)
--      3  "first" on the first call, else ""
-- ->   how many are left to clear; 0: nothing of the pool is left
-- @include pool
-- @include waiters

local destroyed = root .. ':destroyed'
if ARGV[3] == 'first' then
  if call('EXISTS', leased) == 1 then
    call('RENAME', leased, destroyed)
  end
  call('UNLINK', root, free, root .. ':resources', root .. ':attributes', root .. ':leaving', root .. ':ended')
  if call('UNLINK', waiters) == 1 then
    tell_all(0)
  end
end
local ended = call('ZPOPMIN', destroyed, ARGV[2])
for i = 1, #ended, 2 do
  if not call('ZSCORE', leased, ended[i]) then
    call('DEL', tracking .. ended[i])
  end
end
return call('ZCARD', destroyed)
