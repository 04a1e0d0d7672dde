#pragma once

#include <stdint.h>

/* To be called before a device is probed, one at a time: its sockets are another group than those before. */
void vernier_af_packet_probing(void);

/* To be called when a port of net_af_packet has started, before it is polled; one port at a time. Returns 0, or
 * -ENOTSUP if the driver is another than the one that this is written for. */
int vernier_af_packet_started(uint16_t port, uint16_t queues);

/* Frames that the port refused since its start: the tag that they came with is not known. 0 for other drivers. */
uint64_t vernier_af_packet_refused(uint16_t port);
