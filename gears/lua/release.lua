-- Give a resource back, by its token.
--
-- Atomic because the resource must be free in the same instant in which the lease is over, and the next holder's lease
-- must not be touched by a release that comes late.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  token
--      3  deadline in ms that the caller knows of, and
--      4  its fence; both are "" for who kept only the token
-- ->   1  released
--      2  was released before: this is a resend
--      -1 lost: it lapsed, or an operator took it
-- A resend is told by the caller's own deadline: who lost the lease before it was robbed by force, which is remembered,
-- or by the loss of the pool, which the fence shows. Who has the token alone is remembered instead.
-- @include pool
-- @include micros
-- @include order
-- @include damage
-- @include settle
-- @include lease
-- @include ended

local token, known_deadline, known_fence = ARGV[2], ARGV[3], ARGV[4]
local state = call('HMGET', root, 'order', 'leaving', 't:' .. token)

if state[3] then
  local name, rank, deadline = find(state[3])
  if live(deadline) then
    call('ZREM', leased, name)
    settle(name, state[1], state[2], rank, token)
    call('DEL', tracking .. name)
    call('HDEL', root, 't:' .. token, 'r:' .. name)
    if known_deadline == '' then
      remember('d:', token, now + RESENDS_MS)
    end
    return 1
  elseif not deadline then
    return damage() or -1
  end
  return -1
end

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
