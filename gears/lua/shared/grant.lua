-- @include fence
-- What a holder is told of a lease, as one text; the texts of several leases are put together with "\n\n".
-- "<fence> <deadline ms> <ms left> <resource>", then "\n<attributes JSON>" if it has any
local function grant_text(fence, deadline, left, name, attributes)
  local text = fence .. ' ' .. deadline .. ' ' .. left .. ' ' .. name
  local more = attributes and call('HGET', root .. ':attributes', name)
  return more and text .. '\n' .. more or text
end

-- Leases a resource that was just taken out of `free`.
local function grant(name, home, token, fence, ttl, owner, attributes)
  local deadline = string.format('%d', now + ttl)
  call('ZADD', leased, deadline, name)
  call('SET', tracking .. name, token, 'PXAT', deadline)
  local record = token .. ' ' .. fence .. ' ' .. millis .. ' ' .. owner
  call('HSET', root, 'fence', fence, 't:' .. token, home .. ' ' .. name, 'r:' .. name, record)
  call('HINCRBY', root, 'granted', '1')
  return grant_text(fence, deadline, ttl, name, attributes)
end
