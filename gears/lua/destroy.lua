-- Delete the pool, its leases included. The caller repeats this until it is done.
--
-- Atomic because no lease may be granted from what is half gone: the first call takes the pool away as a whole, by
-- giving its keys other names. What they hold is deleted bit by bit, and not by one UNLINK: while a server's thread in
-- the background frees 100,000 things, the commands beside it wait for memory, up to 80 ms.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  how many names to take out of each set at most (1 to 1,000)
--      3  "first" on the first call, else ""
-- ->   how many are left in the fullest; 0: nothing of the pool is left
-- @include pool
-- @include waiters

local gone = root .. ':destroyed'
local sets = { ':leased', ':free', ':resources', ':leaving', ':ended', ':waiters', ':quarantined', ':held' }
if ARGV[3] == 'first' then
  local waited = call('EXISTS', waiters) == 1
  for _, part in ipairs({ '', ':attributes', ':log', unpack(sets) }) do
    if call('EXISTS', root .. part) == 1 then
      call('UNLINK', gone .. part) -- what an earlier pool of this name left, whose destroyer did not come to its end
      call('RENAME', root .. part, gone .. part)
    end
  end
  if waited then
    tell_all('0')
  end
end

local fields, left = {}, 0
for _, part in ipairs(sets) do
  local taken = call('ZPOPMIN', gone .. part, ARGV[2])
  local names = {}
  for i = 1, #taken, 2 do
    names[#names + 1] = taken[i]
  end
  for _, name in ipairs(names) do
    if part == ':leased' then
      local record = call('HGET', gone, 'r:' .. name)
      fields[#fields + 1] = 'r:' .. name
      if record then
        fields[#fields + 1] = 't:' .. string.match(record, '^%S*')
      end
      if not call('ZSCORE', leased, name) then -- else a pool made anew has leased it
        call('DEL', tracking .. name)
      end
    elseif part == ':quarantined' or part == ':held' then
      fields[#fields + 1] = 'q:' .. name
    elseif part == ':waiters' then
      fields[#fields + 1] = 'w:' .. name
    end
  end
  if part == ':resources' and #names > 0 then
    call('HDEL', gone .. ':attributes', unpack(names))
  end
  left = math.max(left, call('ZCARD', gone .. part))
end
if #fields > 0 then
  call('HDEL', gone, unpack(fields))
end
if left == 0 then
  call('UNLINK', gone, gone .. ':attributes', gone .. ':log')
end
return left
