-- @include grant
-- The token of the i-th lease of a request: the first names the request and ends in 0001, the others count on.
local function token_of(token, i)
  return i == 1 and token or string.sub(token, 1, 28) .. string.format('%04x', i)
end

-- Leases the first `count` free resources, which must be there, to one request.
local function grant_many(token, count, ttl, owner)
  local state = call('HMGET', root, 'fence', 'order', 'attributes')
  local fences = { next_fence(state[1]) }
  for i = 2, count do
    call('HSET', root, 'fence', fences[i - 1])
    call('HINCRBY', root, 'fence', '1')
    fences[i] = call('HGET', root, 'fence')
  end
  local taken = call('ZPOPMIN', free, count)
  local texts = {}
  for i = 1, count do
    local home = state[2] == 'rank' and taken[2 * i] or state[2]
    texts[i] = grant(taken[2 * i - 1], home, token_of(token, i), fences[i], ttl, owner, state[3])
  end
  return table.concat(texts, '\n\n')
end
