-- Bring resources back that are kept aside, or that would be when they come back.
--
-- Atomic because it may be leased in the same moment, and whoever waits gets what comes free.
--
-- KEYS 1   the pool's root hash
-- ARGV 1   prefix of the tracking keys
--      2   kind: quarantine or drain; what is kept aside for the other reason stays there
--      3   hexadecimal seed for random order
--      4…  resources, up to 250
-- ->   for each 1: done, 0: was not aside for that, -2: there is no such resource
-- @include pool
-- @include sweep
-- @include lease
-- @include damage

local kind, seed = ARGV[2], tonumber(string.sub(ARGV[3], 1, 8), 16) or 0
local wrong = damage()
if wrong then
  return wrong
end
local answers, done, freed = {}, {}, 0
for i = 4, #ARGV do
  local name = ARGV[i]
  local deadline = call('ZSCORE', leased, name)
  if deadline and not live(deadline) then
    take_back({ name })
  end
  local record = call('HGET', root, 'q:' .. name)
  local answer = call('ZSCORE', root .. ':resources', name) and 0 or -2
  if answer == 0 and record and string.match(record, '^%S+') == kind then
    call('HDEL', root, 'q:' .. name)
    seed = (seed * 48271 + 1) % 2147483647
    if call('ZREM', quarantined, name) == 1 then
      settle(name, plain_home(name), string.format('%08x', seed))
      freed = freed + 1
    elseif call('ZREM', held_back, name) == 1 then
      rehome(name, plain_home(name))
    end
    answer = 1
    done[#done + 1] = name
  end
  answers[#answers + 1] = answer
end
log_names(kind == 'drain' and 'undrain' or 'restore', done)
if freed > 0 then
  -- @include hand_off
  hand_off(math.max(32, freed))
end
return answers
