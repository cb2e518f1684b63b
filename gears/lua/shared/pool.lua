-- Names of the pool's keys, and the server's clock: the head of every transition.
--
-- root      hash        fence, counters, order, and a lease's two records:
--                       t:<token> = "<home> <resource>", r:<resource> = "<token> <fence> <leased at, ms> <owner>"
-- free      sorted set  free resources by the pool's order
-- leased    sorted set  leased resources by deadline, in ms: the truth about every lease
-- resources sorted set  every resource by rank (the order in which they were added)
-- tracking  prefix      of the strings whose expiry tells RedisGears that a deadline passed: a signal, no more
--
-- Times and numbers are text where they are stored or compared with stored text: Lua's own conversion of a number is
-- slow, and µs have more digits than it keeps.
local call = redis.call
local root, tracking = KEYS[1], ARGV[1]
local free, leased = root .. ':free', root .. ':leased'
local clock = call('TIME')
local micros = clock[1] .. string.sub('00000' .. clock[2], -6)
local millis = string.sub(micros, 1, -4)
local now = tonumber(millis)
