-- Stop waiting: give the place in the queue up, and what was granted meanwhile.
--
-- Atomic because the grant may come in the same moment.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  token
--      3  how many it waits for
--      4  "keep": a grant that came meanwhile is kept and answered; "drop": it is given back
-- ->   a grant text for each, if there was a grant and it is kept; else 0
-- @include pool
-- @include hand_off
-- @include mine
-- @include end_lease

local token, count = ARGV[2], tonumber(ARGV[3])
local granted = mine(token, count)
if granted and ARGV[4] == 'keep' then
  return granted
end
call('HDEL', root, 'w:' .. token)
if call('ZREM', waiters, token) == 1 then
  count_waiting()
end
for i = 1, count do
  local own = token_of(token, i)
  local held = call('HGET', root, 't:' .. own)
  local home, name, deadline = find(held or '- ')
  if live(deadline) then
    end_lease(name, home, own)
  end
end
hand_off(100)
if not call('HGET', root, 'order') and call('ZCARD', waiters) == 0 then
  call('DEL', root) -- there is no such pool, only somebody had waited for it
end
return 0
