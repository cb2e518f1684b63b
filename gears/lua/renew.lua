-- Move the deadlines of leases to now + ttl, each only while it is held and has not lapsed.
--
-- Atomic because a lease that is past its deadline, or another's by now, must not be touched. A token does not tell them
-- apart: if it was sent again and came late, after its first lease had lapsed, it has been granted another one.
--
-- KEYS 1   the pool's root hash
-- ARGV 1   prefix of the tracking keys
--      2…  token, ttl in ms, fence that the caller knows of ("" for who kept only the token); up to 500 such triples
-- ->   for each triple the new deadline in ms as text, or -1: lost
-- @include pool
-- @include lease
-- @include damage
-- @include waiters
-- @include ended

-- A server without memory refuses what may need some, unless a script has written already: whoever lives keeps its lease.
call('HDEL', root, '')
local answers = {}
for i = 2, #ARGV, 3 do
  local token, known_fence = ARGV[i], ARGV[i + 2]
  local held = call('HGET', root, 't:' .. token)
  local answer = -1
  if held then
    local home, name, deadline = find(held)
    -- Leased at 0: its record was lost, with the fence that the holder knows, and was made anew (repair.lua).
    local fence, since = string.match(call('HGET', root, 'r:' .. name) or '', '^%S+ (%S+) (%S+)')
    local is_it = known_fence == '' or fence == known_fence or since == '0'
    if live(deadline) and is_it then
      answer = now + ARGV[i + 1] .. ''
      call('ZADD', leased, answer, name)
      call('SET', tracking .. name, token, 'PXAT', answer)
      if home == 'gone' then
        call('ZADD', root .. ':leaving', answer, name)
      elseif home == 'held' or home == 'dirty' then
        call('ZADD', root .. ':held', answer, name)
      end
      if tonumber(answer) < tonumber(deadline) then
        remember('f:', token, tonumber(deadline)) -- the deadline that the holder may still believe in
        call('HSET', root, 't:' .. token, home .. '* ' .. name)
        if (call('HGET', root, 'waiting') or '0') ~= '0' then
          tell_all(answer - now)
        end
      end
    elseif not deadline then
      return damage() or redis.error_reply('RELETDAMAGED ' .. leased .. ' lacks ' .. name)
    end
  elseif not call('HGET', root, 'total') then -- its record may have gone with the hash, and be still to be mended
    local wrong = damage()
    if wrong then
      return wrong
    end
  end
  answers[#answers + 1] = answer
end
return answers
