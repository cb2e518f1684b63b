-- Count the pool, as it is and not as the last reclaim left it: a lapsed lease counts as free, or as
-- quarantined if it goes there.
--
-- Atomic because the counts must belong to one instant.
--
-- KEYS 1  the pool's root hash
-- ARGV 1  prefix of the tracking keys
-- ->   order, total, free, leased, waiting, quarantined, granted, released, lapsed; the order is "" without a pool
-- @include pool
-- @include damage
-- @include alive

local wrong = damage()
if wrong then
  return wrong
end
local state = call('HMGET', root, 'order', 'granted', 'lapsed', 'policy')
local held = call('ZCARD', leased)
local overdue = call('ZCOUNT', leased, '-inf', millis)
local gone = call('ZCOUNT', root .. ':leaving', '-inf', millis)
local aside = call('ZCOUNT', root .. ':held', '-inf', millis)
if state[4] and string.find(state[4], 'lapse', 1, true) then
  aside = overdue - gone
end
local granted, lapsed = tonumber(state[2] or 0), tonumber(state[3] or 0)
return {
  state[1] or '',
  call('ZCARD', root .. ':resources') - gone,
  call('ZCARD', free) + overdue - gone - aside,
  held - overdue,
  count_alive(),
  call('ZCARD', root .. ':quarantined') + aside,
  granted,
  granted - lapsed - held,
  lapsed + overdue,
}
