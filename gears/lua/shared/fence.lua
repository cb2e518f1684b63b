-- max(stored + 1, server time in µs), as decimal text. Compared as text and counted up by the server,
-- so that it stays exact up to 2^63 - 1, where a double would begin to repeat fences at 2^53.
local function next_fence(stored)
  local time = micros()
  if not stored or #stored < #time or (#stored == #time and stored < time) then
    return time
  end
  call('HINCRBY', root, 'fence', 1)
  return call('HGET', root, 'fence')
end
