-- Give a resource back into quarantine: its holder says that it wants cleaning or mending.
--
-- Atomic for the reason for which release is.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  token
--      3  reason, text
-- ->   1: done, 2: was done before, this is a resend; -1 lost
-- @include pool
-- @include lease
-- @include end_lease
-- @include damage
-- @include ended
-- @include log

local token, reason = ARGV[2], ARGV[3]
local held = call('HGET', root, 't:' .. token)
if held then
  local home, name, deadline = find(held)
  if not live(deadline) then
    return not deadline and damage() or -1
  end
  if home ~= 'gone' then
    home = 'held'
    local kind = string.match(call('HGET', root, 'q:' .. name) or '', '^%S+') or 'quarantine'
    call('HSET', root, 'q:' .. name, kind .. ' 0 ' .. reason)
  end
  end_lease(name, home, token)
  remember('d:', token, now + RESENDS_MS)
  log_names('quarantine', { name }, 'reason', reason)
  return 1
end
return remembered('d:', token) and 2 or damage() or -1
