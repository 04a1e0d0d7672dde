#pragma once

#include <stdint.h>

/* Call this before probing a device, one at a time; it begins a new group of sockets. */
void vernier_af_packet_probing(void);

/* Call this when a port of net_af_packet has started, before it is polled; one port at a time.
 * Returns 0, or -ENOTSUP if the driver is not the supported version. */
int vernier_af_packet_started(uint16_t port, uint16_t queues);

/* Frames that the port has refused since its start because their original tag is unknown. 0 for other drivers. */
uint64_t vernier_af_packet_refused(uint16_t port);
