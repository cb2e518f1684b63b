-- max(stored + 1, server time in µs), as text. Compared as text and counted up by the server, so that it stays exact
-- up to 2^63 - 1, where a double would begin to repeat fences at 2^53.
local function next_fence(stored)
  if not stored or #stored < #micros or (#stored == #micros and stored < micros) then
    return micros
  end
  call('HINCRBY', root, 'fence', '1')
  return call('HGET', root, 'fence')
end
