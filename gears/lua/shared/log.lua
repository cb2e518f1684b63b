-- What people want to know afterwards, in the stream `log`, which keeps the last 2,000 entries or a few more: an
-- `event`, and fields that depend on it. Nothing is written on the plain way of acquire and release.
local function log(event, ...)
  call('XADD', root .. ':log', 'MAXLEN', '~', '2000', '*', 'event', event, ...)
end

-- Of many names no more than the first 50, and how many there were.
local function log_names(event, names, ...)
  if #names > 0 then
    log(event, 'count', #names, 'resources', table.concat(names, '\n', 1, math.min(#names, 50)), ...)
  end
end
