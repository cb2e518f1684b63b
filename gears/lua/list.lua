-- Describe a page of resources, in the order in which they were added; a lapsed lease shows as what it will be.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  rank after which to go on (0 at first)
--      3  how many at most (1 to 1,000)
-- ->   the last rank, or 0 if there are no more; then for each resource eight values:
--      name, attributes JSON or "", ms left or -1, fence or "", owner or "",
--      state: free, leased or quarantined; ms in that state or -1 if it is not known; then "<mark> <reason>" or "":
--      quarantine or drain: is aside for that, or will be; cleaning, leaving: what becomes of a leased one
-- A resource that was removed and whose lease lapsed is gone, and left out.
-- @include pool
-- @include damage
-- @include lease

local policy = call('HMGET', root, 'order', 'policy')
local wrong = (not policy[1] or ARGV[2] == '0') and damage()
if wrong or not policy[1] then
  return wrong or { 0 }
end
local page = call('ZRANGEBYSCORE', root .. ':resources', '(' .. ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
local answer = { tonumber(page[#page] or 0) }

local function describe(name, deadline)
  local is_leased, is_leaving = live(deadline), deadline and call('ZSCORE', root .. ':leaving', name)
  if is_leaving and not is_leased then
    return
  end
  local record = deadline and call('HGET', root, 'r:' .. name) or ''
  local kind, aside_since, reason = string.match(call('HGET', root, 'q:' .. name) or '', '^(%S+) (%S+) (.*)$')
  local fence, since, owner = '', '-1', ''
  local state = kind and 'quarantined' or 'free'
  if is_leased then
    fence, since, owner = string.match(record, '^%S+ (%S+) (%S+) (.*)$')
    state = 'leased'
  elseif deadline then
    since = deadline
    if not kind and policy[2] and string.find(policy[2], 'lapse', 1, true) then
      state, kind, reason = 'quarantined', 'quarantine', 'lapsed: ' .. (string.match(record, '^%S+ %S+ %S+ (.*)$') or '')
    end
  elseif kind then
    since = aside_since
  end
  local mark = is_leaving and 'leaving ' or kind and kind .. ' ' .. reason or ''
  if is_leased and kind and not is_leaving then
    local held = call('HGET', root, 't:' .. (holder(name) or '')) or ''
    mark = string.match(held, '^dirty') and 'cleaning ' .. reason or mark
  end
  local size = #answer
  answer[size + 1] = name
  answer[size + 2] = call('HGET', root .. ':attributes', name) or ''
  answer[size + 3] = is_leased and deadline - now or -1
  answer[size + 4] = fence or ''
  answer[size + 5] = owner or ''
  answer[size + 6] = state
  answer[size + 7] = tonumber(since or -1) > 0 and now - since or -1
  answer[size + 8] = mark
end

for i = 1, #page, 2 do
  describe(page[i], call('ZSCORE', leased, page[i]))
end
return answer
