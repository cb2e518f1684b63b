-- The server's time in µs as decimal text. Text, because 16 digits do not survive Lua's own conversion.
local function micros()
  return clock[1] .. string.format('%06d', clock[2])
end
