-- Names of the pool's keys, and the server's clock: the head of every transition.
--
-- root      hash        fence, counters, order, and a lease's two records (t:<token>, r:<resource>)
-- free      sorted set  free resources by the pool's order
-- leased    sorted set  leased resources by deadline, in ms: the truth about every lease
-- resources sorted set  every resource by rank (the order in which they were added)
-- tracking  prefix      of the strings whose expiry tells RedisGears that a deadline passed: a signal, no more
local call = redis.call
local root, tracking = KEYS[1], ARGV[1]
local free, leased = root .. ':free', root .. ':leased'
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
