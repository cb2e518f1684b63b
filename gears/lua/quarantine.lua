-- Keep resources aside: a free one now, a leased one when it comes back.
--
-- Atomic because a resource that is leased in the same moment must be either aside or leased, not both.
--
-- KEYS 1   the pool's root hash
-- ARGV 1   prefix of the tracking keys
--      2   kind: quarantine (somebody cleans it) or drain (nobody gets it until it is undrained)
--      3   reason, text
--      4…  resources, up to 250
-- ->   for each 1: is aside now, 2: will be when it comes back, 0: was aside already (the kind and the reason are the
--      new ones now), -2: there is no such resource, or it is being removed
-- @include pool
-- @include sweep
-- @include lease
-- @include damage

local kind, reason = ARGV[2], ARGV[3]
local wrong = damage()
if wrong then
  return wrong
end
local answers, done = {}, {}
for i = 4, #ARGV do
  local name, answer = ARGV[i], -2
  local deadline = call('ZSCORE', leased, name)
  if deadline and not live(deadline) then
    take_back({ name })
    deadline = nil
  end
  if deadline then
    if not call('ZSCORE', root .. ':leaving', name) then
      rehome(name, 'held')
      call('HSET', root, 'q:' .. name, kind .. ' 0 ' .. reason)
      call('ZADD', held_back, deadline, name)
      answer = 2
    end
  elseif call('ZREM', free, name) == 1 then
    set_aside(name, kind, reason)
    answer = 1
  elseif call('ZSCORE', quarantined, name) then
    set_aside(name, kind, reason)
    answer = 0
  end
  answers[#answers + 1] = answer
  if answer >= 0 then
    done[#done + 1] = name
  end
end
log_names(kind, done, 'reason', reason)
return answers
