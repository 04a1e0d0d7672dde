/* Keeps net_memif from unmapping rings that a worker is using.
 *
 * When the other end goes away, the driver unmaps the connection's memory in EAL's interrupt thread
 * (memif_disconnect in drivers/net/memif/memif_socket.c), while a worker may be copying packets to or
 * from it: the program ends by SIGSEGV. It clears "connected" first, and each burst asks for that at its
 * begin; so it is enough that the interrupt thread waits, before it unmaps, for the bursts that have
 * begun. Other drivers' bursts are not touched. */
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>

#include "memif.h"

/* How many bursts of net_memif each core is in. The last is of threads that EAL does not know. */
static struct {
	unsigned int bursts;
} __rte_cache_aligned busy[RTE_MAX_LCORE + 1];

static unsigned int *begin(void)
{
	unsigned int *bursts = &busy[RTE_MIN(rte_lcore_id(), (unsigned int)RTE_MAX_LCORE)].bursts;

	__atomic_fetch_add(bursts, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return bursts;
}

static uint16_t end(unsigned int *bursts, uint16_t packets)
{
	__atomic_fetch_sub(bursts, 1, __ATOMIC_RELEASE);
	return packets;
}

/* The driver's functions: those that copy, and those of zero-copy. */
static struct {
	eth_rx_burst_t rx;
	eth_tx_burst_t tx;
} driver[2];

#define BURSTS(kind)                                                                               \
	static uint16_t rx_##kind(void *queue, struct rte_mbuf **mbufs, uint16_t count)            \
	{                                                                                          \
		unsigned int *bursts = begin();                                                    \
		return end(bursts, driver[kind].rx(queue, mbufs, count));                          \
	}                                                                                          \
	static uint16_t tx_##kind(void *queue, struct rte_mbuf **mbufs, uint16_t count)            \
	{                                                                                          \
		unsigned int *bursts = begin();                                                    \
		return end(bursts, driver[kind].tx(queue, mbufs, count));                          \
	}
BURSTS(0)
BURSTS(1)

void vernier_memif_started(uint16_t port)
{
	struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[port];
	const unsigned int kind = driver[0].rx != NULL && driver[0].rx != ops->rx_pkt_burst;

	/* A port that was running already. */
	if (ops->rx_pkt_burst == rx_0 || ops->rx_pkt_burst == rx_1)
		return;
	driver[kind].rx = ops->rx_pkt_burst;
	driver[kind].tx = ops->tx_pkt_burst;
	ops->rx_pkt_burst = kind == 0 ? rx_0 : rx_1;
	ops->tx_pkt_burst = kind == 0 ? tx_0 : tx_1;
}

/* In place of libc's in the whole program: what the driver calls before it frees anything. */
int munmap(void *address, size_t bytes)
{
	if (rte_thread_is_intr()) {
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		for (unsigned int core = 0; core < RTE_DIM(busy); core++)
			while (__atomic_load_n(&busy[core].bursts, __ATOMIC_ACQUIRE) != 0)
				sched_yield();
	}
	return (int)syscall(SYS_munmap, address, bytes);
}
