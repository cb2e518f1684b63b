-- Read the log of what people want to know afterwards, oldest first.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
--      2  id of the entry after which to go on; "0" at first, "<ms>" for those from that time on
--      3  how many entries at most (1 to 1,000)
-- ->   for each entry its id, and a list of its fields and values; shared/log.lua and its callers write them
-- @include pool

local from = string.find(ARGV[2], '-', 1, true) and '(' .. ARGV[2] or ARGV[2]
local answer = {}
for _, entry in ipairs(call('XRANGE', root .. ':log', from, '+', 'COUNT', ARGV[3])) do
  answer[#answer + 1] = entry[1]
  answer[#answer + 1] = entry[2]
end
return answer
