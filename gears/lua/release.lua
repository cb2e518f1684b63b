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

local token, known_deadline, known_fence = ARGV[2], ARGV[3], ARGV[4]
local token_field = 't:' .. token
local held = call('HGET', root, token_field)

if held then
  local home, name = string.match(held, '^(%S+) (.*)$')
  local deadline = call('ZSCORE', leased, name)
  if deadline and tonumber(deadline) > now then
    -- @include settle
    call('ZREM', leased, name)
    settle(name, home, token)
    call('DEL', tracking .. name)
    call('HDEL', root, token_field, 'r:' .. name)
    if known_deadline == '' then
      -- @include ended
      remember('d:', token, now + RESENDS_MS)
    end
    return 1
  end
  -- @include damage
  return not deadline and damage() or -1
end

-- @include ended
-- @include damage
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
