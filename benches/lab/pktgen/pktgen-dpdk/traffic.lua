-- What the scripts beside this file share: traffic, one trial, a little output.
-- For Pktgen-DPDK 23.06, built with Lua.

local M = {}

-- The port that sends and the port behind the switch at which its packets come back.
M.send = "0"
M.receive = "1"

-- UDP flows between these stations: (last - first + 1) source ports each to one destination port.
M.first_port = 10000
M.last_port = 10999

local function range(set, from, step, first, last)
  set(M.send, "start", from)
  set(M.send, "inc", step)
  set(M.send, "min", first)
  set(M.send, "max", last)
end

-- Sets up frames of `size` bytes (frame check sequence counted, as Pktgen does).
function M.setup(size)
  pktgen.screen("off")
  pktgen.reset("all")
  -- A bridge learns where the receiver is from what it says; see greet().
  pktgen.set_mac(M.send, "src", "02:00:00:00:00:0a")
  pktgen.set_mac(M.send, "dst", "02:00:00:00:00:0b")
  pktgen.set_mac(M.receive, "src", "02:00:00:00:00:0b")
  pktgen.set_mac(M.receive, "dst", "02:00:00:00:00:0a")
  for _, port in ipairs({ M.send, M.receive }) do
    pktgen.set_ipaddr(port, "src", port == M.send and "198.18.0.1/24" or "198.19.0.1/24")
    pktgen.set_ipaddr(port, "dst", port == M.send and "198.19.0.1" or "198.18.0.1")
    pktgen.set_proto(port, "udp")
    pktgen.set(port, "size", size)
    pktgen.set(port, "burst", 32)
  end
  pktgen.range.dst_mac(M.send, "start", "02:00:00:00:00:0b")
  pktgen.range.src_mac(M.send, "start", "02:00:00:00:00:0a")
  pktgen.range.ip_proto(M.send, "udp")
  range(pktgen.range.src_ip, "198.18.0.1", "0.0.0.0", "198.18.0.1", "198.18.0.1")
  range(pktgen.range.dst_ip, "198.19.0.1", "0.0.0.0", "198.19.0.1", "198.19.0.1")
  range(pktgen.range.src_port, M.first_port, 1, M.first_port, M.last_port)
  range(pktgen.range.dst_port, 7, 0, 7, 7)
  range(pktgen.range.pkt_size, size, 0, size, size)
end

-- Lets the receiver say a word, so that a bridge need not flood.
function M.greet()
  pktgen.set(M.receive, "rate", 0.1)
  pktgen.set(M.receive, "count", 8)
  pktgen.start(M.receive)
  pktgen.delay(300)
  pktgen.set(M.receive, "count", 0)
end

-- Sends at `rate` percent of what Pktgen takes for the link's speed, for `ms`; returns packets sent
-- and packets that came back, and packets a second of both.
function M.trial(rate, ms)
  pktgen.clr()
  pktgen.set(M.send, "rate", rate)
  pktgen.delay(200)
  local before = pktgen.portStats(M.send .. "," .. M.receive, "port")
  pktgen.start(M.send)
  pktgen.delay(ms)
  pktgen.stop(M.send)
  -- Stragglers: RFC 2544 section 26.1 waits two seconds. Statistics are a second old at most.
  pktgen.delay(2000)
  local after = pktgen.portStats(M.send .. "," .. M.receive, "port")
  local s, r = tonumber(M.send), tonumber(M.receive)
  local sent = after[s].opackets - before[s].opackets
  local received = after[r].ipackets - before[r].ipackets
  return sent, received, sent * 1000 / ms, received * 1000 / ms
end

function M.loss(sent, received)
  if sent == 0 then
    return 1
  end
  return math.max(0, (sent - received) / sent)
end

function M.printf(...)
  io.write(string.format(...))
  io.flush()
end

return M
