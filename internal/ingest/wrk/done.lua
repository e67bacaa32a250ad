-- Prints wrk's whole distribution, in microseconds; see package wrk.
done = function(summary, latency, requests)
  io.write(string.format("windtunnel duration %d\nwindtunnel requests %d\n", summary.duration, summary.requests))
  for i = 1, #latency do
    local value, count = latency(i)
    io.write(string.format("windtunnel-latency %d %d\n", value, count))
  end
end
