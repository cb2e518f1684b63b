-- @include waiters
-- Forgets who has died among the first `limit` (at most 1,000) in line.
local function bury(limit)
  local tokens = call('ZRANGE', waiters, 0, limit - 1)
  for i = 1, #tokens do
    local channel = string.match(call('HGET', root, 'w:' .. tokens[i]) or '', '^%S+ %S+ (%S+)')
    if not channel or call('PUBSUB', 'NUMSUB', channel)[2] == 0 then
      call('ZREM', waiters, tokens[i])
      call('HDEL', root, 'w:' .. tokens[i])
    end
  end
end
