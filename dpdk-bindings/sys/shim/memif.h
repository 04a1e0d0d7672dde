#pragma once

#include <stdint.h>

/* Call this when a port of net_memif has started, before it is polled; one port at a time. */
void vernier_memif_started(uint16_t port);

/* Whether a port is a client of net_memif that has no connection. */
int vernier_memif_is_lost(uint16_t port);

/* Closes a port of net_memif. */
void vernier_memif_close(uint16_t port);
