-- Say, or change, where resources go that come back: free, or to quarantine.
--
-- Atomic because both ways are changed together.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  on a lapse: free, quarantine, or "" to leave it as it is
--      3  on a release: the same
-- ->   "<on a lapse> <on a release>", or -2: there is no such pool
-- A forced release is like either: whoever was robbed has cleaned nothing.
-- @include pool
-- @include damage
-- @include log

local state = call('HMGET', root, 'order', 'policy')
if not state[1] then
  return damage() or -2
end
local function wanted(asked, way)
  if asked ~= '' then
    return asked
  end
  return state[2] and string.find(state[2], way, 1, true) and 'quarantine' or 'free'
end
local on_lapse, on_release = wanted(ARGV[2], 'lapse'), wanted(ARGV[3], 'release')
local policy = (on_lapse == 'free' and '' or 'lapse ') .. (on_release == 'free' and '' or 'release ')
if policy ~= (state[2] or '') then
  if policy == '' then
    call('HDEL', root, 'policy')
  else
    call('HSET', root, 'policy', policy)
  end
  log('policy', 'on_lapse', on_lapse, 'on_release', on_release)
end
return on_lapse .. ' ' .. on_release
