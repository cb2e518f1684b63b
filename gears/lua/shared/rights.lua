-- Refuses a script before it does anything, if the user lacks a right that one of relet's scripts needs.
--
-- What a script has done stays done where it fails. A user who may take a resource out of `free`, but may not put it
-- into `leased`, would lose it. So a client puts this part before the scripts that write until one of them has
-- succeeded; that costs no round trip, and later calls nothing. Asking before each write would cost as much as the write.
--
-- The calls have no effect: they are about a key that never exists, or have an argument that the server refuses once it
-- has looked at the rights. A replica shows here as well: its empty or old pool would only seem to have nothing free.
-- Whatever else goes wrong (a full memory) is left to the script itself.
do
  local pool, lease = KEYS[1] .. ':', ARGV[1]
  local wake = string.gsub(pool, ':pool:{', ':wake:{', 1)
  local lacking = {}
  for _, harmless in ipairs({
    { 'TIME' },
    { 'EXISTS', pool },
    { 'HGET', pool, '' },
    { 'HMGET', pool, '' },
    { 'HSET', pool, '', '', 'field without a value' },
    { 'HDEL', pool, '' },
    { 'HINCRBY', pool, '', 'no number' },
    { 'ZADD', pool, 'no number', '' },
    { 'ZREM', pool, '' },
    { 'ZPOPMIN', pool },
    { 'ZCARD', pool },
    { 'ZCOUNT', pool, 0, 0 },
    { 'ZSCORE', pool, '' },
    { 'ZMSCORE', pool, '' },
    { 'ZRANGE', pool, 0, 0 },
    { 'ZRANGEBYSCORE', pool, 0, 0 },
    { 'XADD', pool, 'NOMKSTREAM', '*', '', '' },
    { 'XRANGE', pool, '-', '+', 'COUNT', '1' },
    { 'PEXPIREAT', pool, 0 },
    { 'RENAME', pool, pool },
    { 'UNLINK', pool },
    { 'SET', lease, '', 'XX', 'PXAT', 0 },
    { 'DEL', lease },
    { 'PUBSUB', 'NUMSUB', wake },
    { 'PUBLISH', wake, '' },
  }) do
    local answer = redis.pcall(unpack(harmless))
    local why = type(answer) == 'table' and answer.err or ''
    if string.find(why, 'against a read only replica', 1, true) then
      return redis.error_reply("READONLY You can't write against a read only replica.")
    end
    -- The words of 6.2 and 7.0, and of the later ones.
    if string.find(why, 'user executing the script', 1, true) or string.find(why, 'ACL failure', 1, true) then
      local right = '+' .. string.lower(harmless[1] == 'PUBSUB' and 'PUBSUB|NUMSUB' or harmless[1])
      if string.find(why, 'key', 1, true) then
        right = '~' .. harmless[2]
      elseif string.find(why, 'channel', 1, true) then
        right = '&' .. wake
      end
      if lacking[#lacking] ~= right then
        lacking[#lacking + 1] = right
      end
    end
  end
  if #lacking > 0 then
    return redis.error_reply('NOPERM this user lacks ' .. table.concat(lacking, ' ') ..
      ': nothing was done; gears/README.md of relet lists the rights that it needs')
  end
end
