-- Ends that a resend or a late holder must still be told of, in the sorted set `ended`, scored by the ms at which
-- each may be forgotten: f:<token> a deadline that was cut short (kept until it would have come), d:<token> a release
-- by token alone and o:<id> an operator's request (kept longer than a client library goes on resending).
local RESENDS_MS = 120000

local function remember(kind, id, keep_until)
  local ended = root .. ':ended'
  local old = call('ZRANGEBYSCORE', ended, '-inf', now, 'LIMIT', 0, 32)
  if #old > 0 then
    call('ZREM', ended, unpack(old))
  end
  call('ZADD', ended, keep_until, kind .. id)
  local last = call('ZRANGE', ended, -1, -1, 'WITHSCORES')
  call('PEXPIREAT', ended, last[2])
end

local function remembered(kind, id)
  return call('ZSCORE', root .. ':ended', kind .. id)
end
