-- Give resources back, each by its token.
--
-- Atomic because the resource must be free in the same instant in which the lease is over, and the next holder's lease
-- must not be touched by a release that comes late.
--
-- KEYS 1   the pool's root hash
-- ARGV 1   prefix of the tracking keys
--      2   token
--      3   deadline in ms that the caller knows of, and
--      4   its fence; both are "" for who kept only the token
--      5…  up to 249 more such triples
-- ->   for one lease a number, for several a list:
--      1  released
--      2  was released before: this is a resend
--      -1 lost: it lapsed, or an operator took it
-- A resend is told by the caller's own deadline: who lost the lease before it was robbed by force, which is remembered,
-- or by the loss of the pool, which the fence shows. Who has the token alone, or may not know of an earlier deadline,
-- is remembered instead.
-- @include pool

local waiting, freed = '0', 0

local function release(token, known_deadline, known_fence)
  local state = call('HMGET', root, 'waiting', 'policy', 't:' .. token)
  local held = state[3]
  if held then
    local home, shortened, name = string.match(held, '^([^%s*]+)(%*?) (.*)$')
    local deadline = call('ZSCORE', leased, name)
    if deadline and tonumber(deadline) > now then
      call('ZREM', leased, name)
      if tonumber(home) and not state[2] then
        call('ZADD', free, home, name)
      else
        -- @include come_back
        come_back(name, home, token, state[2], 'release', 'released: ')
      end
      call('DEL', tracking .. name)
      call('HDEL', root, 't:' .. token, 'r:' .. name)
      waiting, freed = state[1] or '0', freed + 1
      if known_deadline == '' or shortened == '*' then
        -- @include ended
        remember('d:', token, now + RESENDS_MS)
      end
      return 1
    end
    -- @include damage
    return not deadline and damage() or -1
  end

  -- @include ended damage
  if remembered('d:', token) then
    return 2
  end
  if known_deadline ~= '' and now < tonumber(known_deadline) and not remembered('f:', token) then
    local born = call('HGET', root, 'born')
    if born and (#born < #known_fence or (#born == #known_fence and born < known_fence)) then
      return 2
    end
  end
  return damage() or -1
end

local answer
if #ARGV == 4 then
  answer = release(ARGV[2], ARGV[3], ARGV[4])
else
  answer = {}
  for i = 2, #ARGV, 3 do
    local one = release(ARGV[i], ARGV[i + 1], ARGV[i + 2])
    if type(one) == 'table' then
      answer = one -- damage
      break
    end
    answer[#answer + 1] = one
  end
end
if waiting ~= '0' then
  -- @include hand_off
  hand_off(math.max(32, freed))
end
return answer
