-- Latency against load with Pktgen-DPDK's latency packets.
-- Run from this folder: RATES=1,2,5,10 pktgen ... -- ... -f latency.lua

package.path = package.path .. ";./?.lua"
local traffic = require("traffic")

local SIZE = tonumber(os.getenv("SIZE") or "64")
local TRIAL_MS = tonumber(os.getenv("TRIAL_MS") or "3000")
-- Percent of what Pktgen takes for the link's speed: see throughput.lua.
local RATES = os.getenv("RATES") or "1,2,5,10"

local function main()
  traffic.setup(SIZE)
  traffic.greet()
  -- One latency packet a millisecond. They are sent beside single packets, not in range mode.
  pktgen.latency("all", "rate", 1000)
  pktgen.latency("all", "on")
  traffic.printf("%8s %12s %9s %12s %10s %10s %10s\n",
    "rate %", "sent/s", "lost %", "probes", "min us", "mean us", "max us")
  for rate in RATES:gmatch("[^,]+") do
    local sent, received, sent_pps = traffic.trial(tonumber(rate), TRIAL_MS)
    local port = tonumber(traffic.receive)
    local latency = pktgen.pktStats(traffic.receive)[port].latency
    traffic.printf("%8s %12.0f %9.4f %12d %10.2f %10.2f %10.2f\n",
      rate, sent_pps, traffic.loss(sent, received) * 100,
      latency.num_pkts, latency.min_us, latency.avg_us, latency.max_us)
  end
  pktgen.latency("all", "off")
end

main()
pktgen.quit()
