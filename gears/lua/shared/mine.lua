-- @include grant_many
-- @include lease
-- What a request was granted and still holds, as grant texts; nil if nothing. A resend is answered with it.
-- An error if the record of such a lease is gone: nobody knows its fence.
local function mine(token, count)
  local texts = {}
  for i = 1, count do
    local held = call('HGET', root, 't:' .. token_of(token, i))
    if held then
      local _, name, deadline = find(held)
      if live(deadline) then
        local fence = string.match(call('HGET', root, 'r:' .. name) or '', '^%S+ (%S+)')
        if not fence then
          return redis.error_reply('RELETDAMAGED ' .. root .. ' lacks r:' .. name)
        end
        texts[#texts + 1] = grant_text(fence, deadline, deadline - now, name, true)
      end
    end
  end
  return #texts > 0 and table.concat(texts, '\n\n') or nil
end

-- Takes back what a request held and let lapse.
local function take_back_mine(token, count)
  local names = {}
  for i = 1, count do
    local held = call('HGET', root, 't:' .. token_of(token, i))
    local _, name, deadline = find(held or '- ')
    if deadline and not live(deadline) then
      names[#names + 1] = name
    end
  end
  if #names > 0 then
    take_back(names)
  end
end
