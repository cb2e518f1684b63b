-- What is wrong with a pool that lacks a key, or nil. Asked where the answer would otherwise be "none is free" or
-- "lost": with a key gone, that would be a lie. A pool with no key at all is in order: nobody has made it yet.
-- O(1): it holds the counts of the sets against each other, not their members.
local function damage()
  local stored = call('HMGET', root, 'order', 'total')
  local total = call('ZCARD', root .. ':resources')
  local placed = call('ZCARD', free) + call('ZCARD', leased) + call('ZCARD', root .. ':quarantined')
  local what
  if not stored[1] then
    local others = call('EXISTS', root .. ':log', root .. ':attributes', root .. ':leaving', root .. ':held')
    what = total + placed + others > 0 and 'its hash ' .. root .. ' is missing'
  elseif total ~= tonumber(stored[2]) then
    what = root .. ':resources holds ' .. total .. ' of ' .. (stored[2] or '?') .. ' resources'
  elseif placed ~= total then
    what = free .. ', ' .. leased .. ' and ' .. root .. ':quarantined together hold ' .. placed .. ' of ' .. total .. ' resources'
  end
  return what and redis.error_reply('RELETDAMAGED ' .. what) or nil
end
