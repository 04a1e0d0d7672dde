-- Throughput at a loss limit, by bisection (RFC 2544 section 26.1), with Pktgen-DPDK.
-- Run from this folder: pktgen ... -- ... -f throughput.lua

package.path = package.path .. ";./?.lua"
local traffic = require("traffic")

local SIZE = tonumber(os.getenv("SIZE") or "64")
local LOSS = tonumber(os.getenv("LOSS") or "0") / 100
local TRIAL_MS = tonumber(os.getenv("TRIAL_MS") or "2000")
-- Percent of the rate to which it is told.
local RESOLUTION = tonumber(os.getenv("RESOLUTION") or "2") / 100

local function main()
  traffic.setup(SIZE)
  traffic.greet()
  pktgen.set_range(traffic.send, "on")
  local low, high, rate = 0, 100, 100
  local found_pps = 0
  for _ = 1, 32 do
    local sent, received, sent_pps = traffic.trial(rate, TRIAL_MS)
    local loss = traffic.loss(sent, received)
    local holds = sent > 0 and loss <= LOSS
    traffic.printf(
      "rate %8.4f %%  sent %d (%.3f Mpps)  received %d  lost %.4f %%  %s\n",
      rate, sent, sent_pps / 1e6, received, loss * 100, holds and "holds" or "fails")
    if holds then
      low, found_pps = rate, sent_pps
    else
      high = rate
    end
    if low >= 100 or high - low <= RESOLUTION * high or high < 0.001 then
      break
    end
    rate = (low + high) / 2
  end
  traffic.printf("throughput %.3f Mpps of %d bytes at %.4f %% loss\n", found_pps / 1e6, SIZE, LOSS * 100)
end

main()
pktgen.quit()
