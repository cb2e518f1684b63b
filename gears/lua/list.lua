-- Describe a page of resources, in the order in which they were added; a lapsed lease shows as free.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  rank after which to go on (0 at first)
--      3  how many at most (1 to 1,000)
-- ->   the last rank, or 0 if there are no more; then for each resource five values:
--      name, attributes JSON or "", ms left or -1 (free), fence or "", owner or ""
-- A resource that was removed and whose lease lapsed is gone, and left out.
-- @include pool
-- @include damage

if not call('HGET', root, 'order') then
  return damage() or { 0 }
end
local page = call('ZRANGEBYSCORE', root .. ':resources', '(' .. ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
local answer = { tonumber(page[#page] or 0) }
for i = 1, #page, 2 do
  local name = page[i]
  local deadline = call('ZSCORE', leased, name)
  local is_leased = deadline and tonumber(deadline) > now
  if is_leased or not deadline or not call('ZSCORE', root .. ':leaving', name) then
    local record = is_leased and call('HGET', root, 'r:' .. name)
    local fence, owner = string.match(record or '', '^%S+ (%S+) %S+ (.*)$')
    local size = #answer
    answer[size + 1] = name
    answer[size + 2] = call('HGET', root .. ':attributes', name) or ''
    answer[size + 3] = is_leased and deadline - now or -1
    answer[size + 4] = fence or ''
    answer[size + 5] = owner or ''
  end
end
return answer
