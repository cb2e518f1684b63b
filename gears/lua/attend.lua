-- What a process that waits calls at the nearest deadline, and now and then in between: take lapsed leases back, hand
-- them on, and say how its own waiters stand. So a lapse reaches them in time whether or not anything announces it,
-- and a lost message or a lost place is found out.
--
-- Atomic because a resource that comes free must be the first waiter's before anybody else asks.
--
-- KEYS 1   the pool's root hash
-- ARGV 1   prefix of the tracking keys
--      2…  token, how many it waits for; up to 250 such pairs
-- ->   ms until the nearest deadline (0 if it has passed, -1 if there is none), now in ms, then for each token
--      its grant texts; 1: in the queue; 0: neither, it has to ask again
-- @include pool
-- @include sweep
-- @include hand_off
-- @include mine

sweep(100)
hand_off(100)
local answer = { nearest(), millis }
for i = 2, #ARGV, 2 do
  local granted = mine(ARGV[i], tonumber(ARGV[i + 1]))
  if type(granted) == 'table' then
    granted = 0 -- damage: it asks again, and is told
  end
  answer[#answer + 1] = granted or (call('ZSCORE', waiters, ARGV[i]) and 1 or 0)
end
return answer
