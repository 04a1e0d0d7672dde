/* All functions of DPDK that Vernier calls, under a prefix of their own.
 *
 * The interface consists of scalars, opaque pointers and the small structs below, which src/lib.rs declares again. DPDK
 * has two ways to report an error (a negative errno, or -1 or NULL and rte_errno); here there is one: functions that
 * return int return a negative errno and never -1 for "see elsewhere".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;

#define VERNIER_NAME_BYTES 64 /* RTE_ETH_NAME_MAX_LEN */

struct vernier_port_info {
	char device[VERNIER_NAME_BYTES]; /* net_pcap0, 0000:03:00.0 */
	char driver[VERNIER_NAME_BYTES]; /* net_pcap, net_ixgbe */
	uint16_t mtu_min;
	uint16_t mtu_max;
	uint16_t rx_queues_max;
	uint16_t tx_queues_max;
	int16_t numa_socket; /* -1: none */
	uint32_t interface;  /* the kernel's index of the interface behind it; 0: none */
};

struct vernier_port_config {
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t rx_descriptors;
	uint16_t tx_descriptors;
	uint16_t mtu;
	uint8_t promiscuous;
	uint8_t rss;
};

struct vernier_port_stats {
	uint64_t rx_packets;
	uint64_t tx_packets;
	uint64_t rx_bytes;
	uint64_t tx_bytes;
	uint64_t rx_missed;
	uint64_t rx_errors;
	uint64_t tx_errors;
	uint64_t rx_no_mbuf;
};

struct vernier_host_device {
	char driver[VERNIER_NAME_BYTES];
	uint32_t interface; /* the kernel's index of the interface behind it; 0: none */
};

/* Log: between begin and end, messages of DPDK in the calling thread are kept instead of printed. */
void vernier_log_begin(void);
size_t vernier_log_end(const char **text);
/* Prints the messages kept last. */
void vernier_log_repeat(void);
/* Number of messages that could not be written to standard error because it failed or is not read. */
uint64_t vernier_log_lost(void);

/* Environment abstraction layer. */
int vernier_eal_init(int argc, char **argv);
void vernier_eal_cleanup(void);
const char *vernier_strerror(int errnum);
uint64_t vernier_tsc(void);
uint64_t vernier_tsc_hz(void);
int vernier_kernel_clock(bool *synchronised, uint64_t *error_us, uint64_t *max_error_us);

/* Threads. */
int vernier_thread_register(unsigned int cpu);
void vernier_thread_unregister(void);

/* Memory. */
void *vernier_huge_map(size_t len, size_t align);
void vernier_huge_unmap(void *start, size_t len);

/* Mempools. */
int vernier_mempool_create(const char *name, uint32_t mbufs, uint32_t cache, uint16_t room,
			   int socket, struct rte_mempool **pool);
void vernier_mempool_free(struct rte_mempool *pool);
uint32_t vernier_mempool_available(const struct rte_mempool *pool);
uint32_t vernier_mempool_capacity(const struct rte_mempool *pool);
const char *vernier_mempool_handler(const struct rte_mempool *pool);

/* Mbufs. */
struct rte_mbuf *vernier_frame_alloc(struct rte_mempool *pool, const uint8_t *head,
				     uint32_t head_len, uint32_t len);
struct rte_mbuf *vernier_mbuf_copy(const struct rte_mbuf *mbuf, struct rte_mempool *pool);
void vernier_mbuf_free(struct rte_mbuf *mbuf);
void vernier_mbuf_free_bulk(struct rte_mbuf **mbufs, uint32_t count);
int vernier_dynfield_register(const char *name, size_t size, size_t align);
int vernier_dynflag_register(const char *name);

/* Ports. */
int vernier_port_find(const char *device);
int vernier_port_next(uint16_t from);
int vernier_port_probe(const char *device);
void vernier_port_detach(uint16_t port);
int vernier_port_info(uint16_t port, struct vernier_port_info *info);
int vernier_port_start(uint16_t port, const struct vernier_port_config *config,
		       struct rte_mempool *const *pools);
int vernier_port_stats(uint16_t port, struct vernier_port_stats *stats);
int vernier_port_link(uint16_t port);
int vernier_port_is_pulled(uint16_t port);
int vernier_port_is_lost(uint16_t port);
int vernier_port_set_link(uint16_t port, int up);
uint32_t vernier_interface_index(const char *name);
int vernier_interface_link(uint32_t index);
int vernier_interface_set_link(uint32_t index, int up);

/* Bursts. */
uint16_t vernier_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
uint16_t vernier_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);

/* A plugin in a host program. */
typedef uint16_t (*vernier_rx_tap)(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs,
				   uint16_t count, uint16_t room, void *param);
typedef uint16_t (*vernier_tx_tap)(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs,
				   uint16_t count, void *param);

/* Changes of a port. */
enum vernier_host_change {
	VERNIER_HOST_COMES,
	VERNIER_HOST_GOES,
	VERNIER_HOST_LINK_UP,
	VERNIER_HOST_LINK_DOWN,
};

typedef void (*vernier_host_watcher)(uint16_t port, int change);

int vernier_host_thread(void (*run)(void));
int vernier_host_at_fork(void (*in_child)(void));
int vernier_host_is_secondary(void);
void *vernier_host_symbol(const char *name);
int vernier_host_other(const char *mark, const void *own, char *path, size_t size);
void vernier_host_log(uint32_t level, const char *text, size_t len);
size_t vernier_host_cpus(uint16_t *cpus, size_t capacity);
int vernier_host_is_valid(uint16_t port);
int vernier_host_is_started(uint16_t port);
int vernier_host_name(uint16_t port, char *name);
int vernier_host_queues(uint16_t port, uint16_t *rx_queues, uint16_t *tx_queues);
int vernier_host_device(uint16_t port, struct vernier_host_device *out);
int vernier_host_watch(vernier_host_watcher changed);
int vernier_host_tap_rx(uint16_t port, uint16_t queue, vernier_rx_tap tap, void *param);
int vernier_host_tap_tx(uint16_t port, uint16_t queue, vernier_tx_tap tap, void *param);
