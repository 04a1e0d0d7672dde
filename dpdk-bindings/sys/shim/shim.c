#define _GNU_SOURCE
/* For rte_dev_event_callback_register, which has this name since 22.11. */
#define ALLOW_EXPERIMENTAL_API
#include "af_packet.h"
#include "interrupt.h"
#include "memif.h"
#include "shim.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mempool.h>

/* The fields that Rust reads in place (struct rte_mbuf in src/lib.rs), asserted on both sides: if a
 * release moves one of them, compiling must fail. */
_Static_assert(sizeof(struct rte_mbuf) == 128, "rte_mbuf has two cache lines");
_Static_assert(_Alignof(struct rte_mbuf) == 64, "rte_mbuf is aligned to a cache line");
_Static_assert(offsetof(struct rte_mbuf, buf_addr) == 0, "rte_mbuf.buf_addr has moved");
_Static_assert(offsetof(struct rte_mbuf, data_off) == 16, "rte_mbuf.data_off has moved");
_Static_assert(offsetof(struct rte_mbuf, refcnt) == 18, "rte_mbuf.refcnt has moved");
_Static_assert(offsetof(struct rte_mbuf, nb_segs) == 20, "rte_mbuf.nb_segs has moved");
_Static_assert(offsetof(struct rte_mbuf, port) == 22, "rte_mbuf.port has moved");
_Static_assert(offsetof(struct rte_mbuf, ol_flags) == 24, "rte_mbuf.ol_flags has moved");
_Static_assert(offsetof(struct rte_mbuf, pkt_len) == 36, "rte_mbuf.pkt_len has moved");
_Static_assert(offsetof(struct rte_mbuf, data_len) == 40, "rte_mbuf.data_len has moved");
_Static_assert(offsetof(struct rte_mbuf, pool) == 56, "rte_mbuf.pool has moved");
_Static_assert(RTE_MBUF_F_INDIRECT == 1ull << 62 && RTE_MBUF_F_EXTERNAL == 1ull << 61,
	       "flags of rte_mbuf have moved (src/mbuf.rs)");
_Static_assert(sizeof(((struct rte_mbuf *)0)->pkt_len) == 4 &&
		       sizeof(((struct rte_mbuf *)0)->data_len) == 2 &&
		       sizeof(((struct rte_mbuf *)0)->ol_flags) == 8,
	       "a field of rte_mbuf has another width");
_Static_assert(RTE_ETH_NAME_MAX_LEN <= VERNIER_NAME_BYTES,
	       "DPDK's names outgrew VERNIER_NAME_BYTES");

/* DPDK's "-1 and rte_errno" as a negative errno. */
static int from_rte_errno(void)
{
	return rte_errno > 0 ? -rte_errno : -EINVAL;
}

/* Some drivers return just -1 for "failed", which would mean EPERM; the reason is in the log. */
static int from_driver(int rc)
{
	return rc == -1 ? -EIO : rc;
}

/* ---- log ---- */

static __thread struct {
	int active;
	size_t len;
	char text[2048];
} captured;

/* Number of messages that could not be written to standard error. */
static uint64_t log_lost;

/* No thread may wait for the reader of standard error, because drivers also log in workers'
 * threads. A writable pipe accepts 4096 bytes at once (PIPE_BUF). */
static void log_say(const char *text, size_t len)
{
	struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};

	if (len > 0 && (poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT) ||
			write(STDERR_FILENO, text, len) < 0)) {
		__atomic_fetch_add(&log_lost, 1, __ATOMIC_RELAXED);
		errno = 0;
	}
}

static void log_keep(const char *text, size_t len)
{
	size_t room = sizeof(captured.text) - captured.len;
	size_t kept = len < room ? len : room;

	memcpy(captured.text + captured.len, text, kept);
	captured.len += kept;
}

static ssize_t log_write(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	if (captured.active) {
		int level = rte_log_cur_msg_loglevel();

		log_keep(text, len);
		/* A critical message may be the last thing before abort(). An alert is EAL's reason not to
		 * start (DPDK 24.11), which the caller gets. */
		if (level > (int)RTE_LOG_CRIT || level == (int)RTE_LOG_ALERT)
			return (ssize_t)len;
	}
	log_say(text, len);
	return (ssize_t)len;
}

static int log_install(void)
{
	cookie_io_functions_t functions = {.write = log_write};
	FILE *stream = fopencookie(NULL, "w", functions);

	if (stream == NULL)
		return -ENOMEM;
	return rte_openlog_stream(stream);
}

void vernier_log_begin(void)
{
	captured.active = 1;
	captured.len = 0;
}

size_t vernier_log_end(const char **text)
{
	captured.active = 0;
	*text = captured.text;
	return captured.len;
}

void vernier_log_repeat(void)
{
	log_say(captured.text, captured.len);
}

uint64_t vernier_log_lost(void)
{
	return __atomic_load_n(&log_lost, __ATOMIC_RELAXED);
}

/* ---- environment abstraction layer ---- */

/* EAL creates a folder even without files to put into it, and leaves it behind. */
static void remove_runtime_dir(void)
{
	(void)rmdir(rte_eal_get_runtime_dir());
}

/* A killed process cannot remove its own folder, so remove folders "vernier-ID" of processes that
 * have ended. rmdir removes only empty folders, so no files are at risk. */
static void remove_orphaned_dirs(void)
{
	const char *own = rte_eal_get_runtime_dir();
	const char *slash = strrchr(own, '/');
	char parent[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	if (slash == NULL || slash - own >= (ptrdiff_t)sizeof(parent))
		return;
	memcpy(parent, own, slash - own);
	parent[slash - own] = '\0';
	dir = opendir(parent);
	if (dir == NULL)
		return;
	while ((entry = readdir(dir)) != NULL) {
		int id, end = 0;

		if (sscanf(entry->d_name, "vernier-%9d%n", &id, &end) == 1 && id > 0 &&
		    entry->d_name[end] == '\0' && kill(id, 0) != 0 && errno == ESRCH)
			(void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
	closedir(dir);
}

/* EAL's output for terminals: on stdout its usage, which is of no use here; on stderr messages
 * behind "FATAL", which it also logs, and those of getopt(3), which it does not log. */
static ssize_t print_skip(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	(void)text;
	return (ssize_t)len;
}

static ssize_t print_keep(void *cookie, const char *text, size_t len)
{
	static const char logged_too[] = "EAL: FATAL: ";
	const size_t start = sizeof(logged_too) - 1;

	(void)cookie;
	if (len < start || memcmp(text, logged_too, start) != 0)
		log_keep(text, len);
	return (ssize_t)len;
}

/* Calls rte_eal_init with the C library's streams redirected. Only EAL uses them; Rust and our log
 * write to the file descriptors. */
static int init_without_pages(int argc, char **argv)
{
	cookie_io_functions_t skip = {.write = print_skip}, keep = {.write = print_keep};
	FILE *const out = stdout, *const err = stderr;
	FILE *nowhere = fopencookie(NULL, "w", skip), *kept = fopencookie(NULL, "w", keep);
	int rc = -ENOMEM;

	if (nowhere != NULL && kept != NULL && setvbuf(kept, NULL, _IOLBF, BUFSIZ) == 0) {
		stdout = nowhere;
		stderr = kept;
		rc = rte_eal_init(argc, argv) < 0 ? from_rte_errno() : 0;
		stdout = out;
		stderr = err;
	}
	if (nowhere != NULL)
		fclose(nowhere);
	if (kept != NULL)
		fclose(kept);
	return rc;
}

/* By port: its device should be released. Written by EAL's interrupt thread, which must not remove anything itself. */
static uint8_t pulled[RTE_MAX_ETHPORTS];

/* With vfio-pci the kernel requests a device before it is unplugged, and waits until it is closed
 * here: until then its registers can be read and written. */
static void device_event(const char *device, enum rte_dev_event_type event, void *arg)
{
	const size_t len = strlen(device);
	char name[RTE_ETH_NAME_MAX_LEN];

	(void)arg;
	if (event != RTE_DEV_EVENT_REMOVE)
		return;
	for (uint16_t port = 0; port < RTE_MAX_ETHPORTS; port++)
		/* A device with several ports names them DEVICE_..., too. */
		if (rte_eth_dev_is_valid_port(port) &&
		    rte_eth_dev_get_name_by_port(port, name) == 0 &&
		    strncmp(name, device, len) == 0 && (name[len] == '\0' || name[len] == '_'))
			__atomic_store_n(&pulled[port], 1, __ATOMIC_RELAXED);
}

int vernier_eal_init(int argc, char **argv)
{
	int rc = log_install();

	if (rc == 0) {
		rc = init_without_pages(argc, argv);
		if (rc != 0)
			remove_runtime_dir();
	}
	if (rc == 0) {
		remove_orphaned_dirs();
		/* Without it everything works except unplugging a device. */
		(void)rte_dev_event_callback_register(NULL, device_event, NULL);
	}
	return rc;
}

void vernier_eal_cleanup(void)
{
	vernier_interrupt_park();
	rte_eal_cleanup();
	remove_runtime_dir();
}

const char *vernier_strerror(int errnum)
{
	return rte_strerror(errnum);
}

uint64_t vernier_tsc(void)
{
	return rte_rdtsc();
}

uint64_t vernier_tsc_hz(void)
{
	return rte_get_tsc_hz();
}

/* Read only: modes is 0. */
int vernier_kernel_clock(bool *synchronised, uint64_t *error_us, uint64_t *max_error_us)
{
	struct timex clock = { .modes = 0 };

	if (adjtimex(&clock) < 0)
		return -errno;
	*synchronised = (clock.status & (STA_UNSYNC | STA_CLOCKERR)) == 0;
	*error_us = clock.esterror < 0 ? 0 : (uint64_t)clock.esterror;
	*max_error_us = clock.maxerror < 0 ? 0 : (uint64_t)clock.maxerror;
	return 0;
}

/* ---- threads ---- */

int vernier_thread_register(unsigned int cpu)
{
	cpu_set_t before, set;
	int rc;

	/* A second registration would take a second lcore and lose the first. */
	if (rte_lcore_id() != LCORE_ID_ANY)
		return -EALREADY;
	if (cpu >= CPU_SETSIZE)
		return -EINVAL;
	if (sched_getaffinity(0, sizeof(before), &before) != 0)
		return -errno;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		return -errno;
	/* Pin first, because DPDK records the present affinity. */
	if (rte_thread_register() == 0)
		return 0;
	rc = from_rte_errno();
	sched_setaffinity(0, sizeof(before), &before);
	return rc;
}

void vernier_thread_unregister(void)
{
	rte_thread_unregister();
}

/* ---- memory ---- */

void *vernier_huge_map(size_t len, size_t align)
{
	char *start = mmap(NULL, len + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (start == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)start % align;
	if (before > 0)
		(void)munmap(start, before);
	(void)munmap(start + before + len, align - before);
	start += before;
	/* Advise before the memory is accessible: if a program locks its memory (mlockall, as
	 * testpmd and Open vSwitch do), the kernel populates a mapping as soon as it is accessible.
	 * A kernel without huge pages refuses, which is harmless.
	 */
	(void)madvise(start, len, MADV_HUGEPAGE);
	if (mprotect(start, len, PROT_READ | PROT_WRITE) == 0)
		return start;
	(void)munmap(start, len);
	return NULL;
}

void vernier_huge_unmap(void *start, size_t len)
{
	(void)munmap(start, len);
}

/* ---- mempools ---- */

int vernier_mempool_create(const char *name, uint32_t mbufs, uint32_t cache, uint16_t room,
			   int socket, struct rte_mempool **pool)
{
	const uint16_t size = (uint16_t)(room + RTE_PKTMBUF_HEADROOM);

	*pool = rte_pktmbuf_pool_create(name, mbufs, cache, 0, size, socket);
	if (*pool == NULL && rte_errno == ENOMEM && socket != SOCKET_ID_ANY)
		*pool = rte_pktmbuf_pool_create(name, mbufs, cache, 0, size, SOCKET_ID_ANY);
	return *pool == NULL ? from_rte_errno() : 0;
}

void vernier_mempool_free(struct rte_mempool *pool)
{
	/* A missing mbuf may still belong to a device, so leak the memory rather than give it to
	 * two owners. EAL's cleanup stops the device before it unmaps. */
	if (rte_mempool_full(pool))
		rte_mempool_free(pool);
}

uint32_t vernier_mempool_available(const struct rte_mempool *pool)
{
	return rte_mempool_avail_count(pool);
}

uint32_t vernier_mempool_capacity(const struct rte_mempool *pool)
{
	return pool->size;
}

const char *vernier_mempool_handler(const struct rte_mempool *pool)
{
	return rte_mempool_get_ops(pool->ops_index)->name;
}

/* ---- mbufs ---- */

struct rte_mbuf *vernier_frame_alloc(struct rte_mempool *pool, const uint8_t *head,
				     uint32_t head_len, uint32_t len)
{
	const uint32_t room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
	const uint32_t segments = len == 0 ? 1 : (len - 1) / room + 1;
	struct rte_mbuf *first = NULL, **link = &first;

	/* Do not empty the pool for a frame that is too long for it. */
	if (segments > pool->size || segments > RTE_MBUF_MAX_NB_SEGS)
		return NULL;
	for (uint32_t done = 0, segment = 0; segment < segments; segment++) {
		const uint32_t size = RTE_MIN(len - done, room);
		const uint32_t start = RTE_MIN(done, head_len);
		const uint32_t copied = RTE_MIN(head_len - start, size);
		struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);
		uint8_t *data;

		if (mbuf == NULL) {
			rte_pktmbuf_free(first);
			return NULL;
		}
		data = rte_pktmbuf_mtod(mbuf, uint8_t *);
		memcpy(data, head + start, copied);
		memset(data + copied, 0, size - copied);
		mbuf->data_len = (uint16_t)size;
		done += size;
		*link = mbuf;
		link = &mbuf->next;
	}
	first->pkt_len = len;
	first->nb_segs = (uint16_t)segments;
	return first;
}

struct rte_mbuf *vernier_mbuf_copy(const struct rte_mbuf *mbuf, struct rte_mempool *pool)
{
	return rte_pktmbuf_copy(mbuf, pool, 0, UINT32_MAX);
}

void vernier_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

void vernier_mbuf_free_bulk(struct rte_mbuf **mbufs, uint32_t count)
{
	rte_pktmbuf_free_bulk(mbufs, count);
}

int vernier_dynfield_register(const char *name, size_t size, size_t align)
{
	struct rte_mbuf_dynfield field = {.size = size, .align = align};
	int offset;

	snprintf(field.name, sizeof(field.name), "%s", name);
	offset = rte_mbuf_dynfield_register(&field);
	return offset < 0 ? from_rte_errno() : offset;
}

int vernier_dynflag_register(const char *name)
{
	struct rte_mbuf_dynflag flag = {0};
	int bit;

	snprintf(flag.name, sizeof(flag.name), "%s", name);
	bit = rte_mbuf_dynflag_lookup(name, NULL);
	if (bit < 0)
		bit = rte_mbuf_dynflag_register(&flag);
	return bit < 0 ? from_rte_errno() : bit;
}

/* ---- ports ---- */

int vernier_port_find(const char *device)
{
	struct rte_dev_iterator iterator;
	uint16_t port;

	RTE_ETH_FOREACH_MATCHING_DEV(port, device, &iterator) {
		rte_eth_iterator_cleanup(&iterator);
		return port;
	}
	return -ENODEV;
}

int vernier_port_next(uint16_t from)
{
	uint64_t port = rte_eth_find_next_owned_by(from, RTE_ETH_DEV_NO_OWNER);

	return port < RTE_MAX_ETHPORTS ? (int)port : -ENODEV;
}

int vernier_port_probe(const char *device)
{
	vernier_af_packet_probing();
	return from_driver(rte_dev_probe(device));
}

void vernier_port_detach(uint16_t port)
{
	struct rte_eth_dev_info info = {0};
	uint16_t sibling;

	if (rte_eth_dev_info_get(port, &info) != 0)
		info.device = NULL;
	/* If the device refuses, nothing can be done; it is released anyway. */
	if (info.device != NULL && strcmp(info.driver_name, "net_memif") == 0) {
		vernier_memif_close(port);
	} else {
		(void)rte_eth_dev_stop(port);
		(void)rte_eth_dev_close(port);
	}
	/* The number may belong to another port next. */
	__atomic_store_n(&pulled[port], 0, __ATOMIC_RELAXED);
	if (info.device == NULL)
		return;
	/* A device with several ports stays until the last of them is closed. */
	RTE_ETH_FOREACH_DEV_OF(sibling, info.device)
		return;
	(void)rte_dev_remove(info.device);
}

/* Overhead of a frame over its MTU, as in rte_eth_dev_configure. */
static uint32_t frame_overhead(const struct rte_eth_dev_info *info)
{
	if (info->max_mtu != UINT16_MAX && info->max_rx_pktlen > info->max_mtu)
		return info->max_rx_pktlen - info->max_mtu;
	return RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
}

int vernier_port_info(uint16_t port, struct vernier_port_info *out)
{
	struct rte_eth_dev_info info;
	int rc = rte_eth_dev_info_get(port, &info);

	if (rc != 0)
		return rc;
	memset(out, 0, sizeof(*out));
	snprintf(out->device, sizeof(out->device), "%s", rte_dev_name(info.device));
	snprintf(out->driver, sizeof(out->driver), "%s", info.driver_name);
	out->mtu_min = info.min_mtu;
	out->mtu_max = (uint16_t)RTE_MIN(info.max_mtu, info.max_rx_pktlen - frame_overhead(&info));
	out->rx_queues_max = info.max_rx_queues;
	out->tx_queues_max = info.max_tx_queues;
	out->numa_socket = (int16_t)rte_eth_dev_socket_id(port);
	/* net_pcap without an interface reports UINT_MAX. */
	out->interface = info.if_index == UINT32_MAX ? 0 : info.if_index;
	return 0;
}

/* Whether a driver sends chains of segments. Two do so without declaring it: net_pcap gathers them
 * (rte_pktmbuf_read), and net_null only frees them. */
static int sends_chains(const struct rte_eth_dev_info *info)
{
	return (info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0 ||
	       strcmp(info->driver_name, "net_pcap") == 0 ||
	       strcmp(info->driver_name, "net_null") == 0;
}

/* Frees the packets of a net_af_packet port before it is polled. A packet socket receives from
 * every interface of the host until it is bound, and the driver binds it last, so its ring begins
 * with frames of other interfaces. The loop is bounded, in case traffic does not stop: no ring is
 * longer. */
static void discard_unbound(uint16_t port, uint16_t queues)
{
	struct rte_mbuf *burst[32];

	for (uint16_t queue = 0; queue < queues; queue++) {
		uint16_t received = RTE_DIM(burst);

		for (unsigned int n = 0; received != 0 && n < 1u << 20; n += received) {
			received = rte_eth_rx_burst(port, queue, burst, RTE_DIM(burst));
			rte_pktmbuf_free_bulk(burst, received);
		}
	}
	rte_eth_stats_reset(port);
}

int vernier_port_start(uint16_t port, const struct vernier_port_config *config,
		       struct rte_mempool *const *pools)
{
	unsigned int room = UINT16_MAX;
	uint16_t rx_descriptors = config->rx_descriptors, tx_descriptors = config->tx_descriptors;
	const int socket = rte_eth_dev_socket_id(port);
	struct rte_eth_conf conf = {.rxmode = {.mtu = config->mtu}};
	struct rte_eth_dev_info info;
	struct rte_eth_rxconf rx;
	struct rte_eth_txconf tx;
	int rc = rte_eth_dev_info_get(port, &info);
	int chains;

	if (rc != 0)
		return rc;
	for (uint16_t queue = 0; queue < config->rx_queues; queue++)
		room = RTE_MIN(room, rte_pktmbuf_data_room_size(pools[queue]) -
					     (unsigned int)RTE_PKTMBUF_HEADROOM);
	/* No offload may change a frame. These two only allow chains of mbufs for long frames, and
	 * are otherwise off, so that drivers use faster paths. */
	chains = config->mtu + frame_overhead(&info) > room;
	if (chains) {
		conf.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
		conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	}
	if (config->rss && config->rx_queues > 1) {
		conf.rx_adv_conf.rss_conf.rss_hf =
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP) &
			info.flow_type_rss_offloads;
		if (conf.rx_adv_conf.rss_conf.rss_hf != 0)
			conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	}
	rc = rte_eth_dev_configure(port, config->rx_queues, config->tx_queues, &conf);
	if (rc == 0)
		rc = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx_descriptors, &tx_descriptors);
	rx = info.default_rxconf;
	rx.offloads = conf.rxmode.offloads;
	for (uint16_t queue = 0; rc == 0 && queue < config->rx_queues; queue++)
		rc = rte_eth_rx_queue_setup(port, queue, rx_descriptors, (unsigned int)socket, &rx,
					    pools[queue]);
	tx = info.default_txconf;
	tx.offloads = conf.txmode.offloads;
	for (uint16_t queue = 0; rc == 0 && queue < config->tx_queues; queue++)
		rc = rte_eth_tx_queue_setup(port, queue, tx_descriptors, (unsigned int)socket, &tx);
	if (rc == 0)
		rc = rte_eth_dev_start(port);
	if (rc != 0)
		return from_driver(rc);
	rc = config->promiscuous ? rte_eth_promiscuous_enable(port) :
				   rte_eth_promiscuous_disable(port);
	/* A device that does not support this has no address filter and receives everything. */
	if (rc != 0 && rc != -ENOTSUP)
		return from_driver(rc);
	if (strcmp(info.driver_name, "net_af_packet") == 0) {
		rc = vernier_af_packet_started(port, config->rx_queues);
		if (rc != 0)
			return rc;
		discard_unbound(port, config->rx_queues);
	}
	if (strcmp(info.driver_name, "net_memif") == 0)
		vernier_memif_started(port);
	return chains && sends_chains(&info);
}

int vernier_port_stats(uint16_t port, struct vernier_port_stats *out)
{
	struct rte_eth_stats stats;
	int rc = rte_eth_stats_get(port, &stats);

	if (rc != 0)
		return rc;
	*out = (struct vernier_port_stats){
		.rx_packets = stats.ipackets,
		.tx_packets = stats.opackets,
		.rx_bytes = stats.ibytes,
		.tx_bytes = stats.obytes,
		.rx_missed = stats.imissed,
		.rx_errors = stats.ierrors + vernier_af_packet_refused(port),
		.tx_errors = stats.oerrors,
		.rx_no_mbuf = stats.rx_nombuf,
	};
	return 0;
}

int vernier_port_link(uint16_t port)
{
	struct rte_eth_link link;
	int rc = rte_eth_link_get_nowait(port, &link);

	return rc != 0 ? rc : link.link_status == RTE_ETH_LINK_UP;
}

int vernier_port_set_link(uint16_t port, int up)
{
	return from_driver(up ? rte_eth_dev_set_link_up(port) : rte_eth_dev_set_link_down(port));
}

int vernier_port_is_pulled(uint16_t port)
{
	return port < RTE_MAX_ETHPORTS && __atomic_load_n(&pulled[port], __ATOMIC_RELAXED);
}

/* A driver's socket stays bound to its interface, even after that was deleted; a client of
 * net_memif connects only once, when it starts (memif_dev_start). */
int vernier_port_is_lost(uint16_t port)
{
	struct rte_eth_dev_info info;
	char name[IF_NAMESIZE];

	if (rte_eth_dev_info_get(port, &info) != 0)
		return 0;
	if (info.if_index != 0 && info.if_index != UINT32_MAX)
		return if_indextoname(info.if_index, name) == NULL && errno == ENXIO;
	return vernier_memif_is_lost(port);
}

uint32_t vernier_interface_index(const char *name)
{
	return if_nametoindex(name);
}

/* Reads an interface's flags from the kernel (netdevice(7)), and optionally sets them. */
static int interface_flags(uint32_t index, int set, int up)
{
	struct ifreq request = {0};
	int rc, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	rc = if_indextoname(index, request.ifr_name) != NULL &&
			     ioctl(fd, SIOCGIFFLAGS, &request) == 0 ?
		     0 :
		     -errno;
	if (rc == 0 && set) {
		request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP :
						 request.ifr_flags & ~IFF_UP);
		rc = ioctl(fd, SIOCSIFFLAGS, &request) == 0 ? 0 : -errno;
	}
	close(fd);
	return rc != 0 ? rc : (request.ifr_flags & IFF_RUNNING) != 0;
}

int vernier_interface_link(uint32_t index)
{
	return interface_flags(index, 0, 0);
}

int vernier_interface_set_link(uint32_t index, int up)
{
	int rc = interface_flags(index, 1, up);

	return rc < 0 ? rc : 0;
}

/* ---- bursts ---- */

uint16_t vernier_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_rx_burst(port, queue, mbufs, count);
}

uint16_t vernier_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, mbufs, count);
}

/* ---- a plugin in a host program ---- */

static void *host_thread(void *run)
{
	pthread_setname_np(pthread_self(), "vernier-plugin");
	((void (*)(void))(uintptr_t)run)();
	return NULL;
}

/* Signals are for the program's own threads: this thread, and all threads that it starts, block them. */
int vernier_host_thread(void (*run)(void))
{
	sigset_t all, before;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	rc = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (rc == 0) {
		rc = pthread_create(&thread, NULL, host_thread, (void *)(uintptr_t)run);
		if (rc == 0)
			pthread_detach(thread);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	return -rc;
}

int vernier_host_at_fork(void (*in_child)(void))
{
	return -pthread_atfork(NULL, NULL, in_child);
}

int vernier_host_is_secondary(void)
{
	return rte_eal_process_type() == RTE_PROC_SECONDARY;
}

/* Finds functions of the program, of the libraries it is linked with, and of preloaded objects; not
 * those of drivers and other plugins. */
void *vernier_host_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/* Finds another object of this process that defines `mark`, by its file's path. Call this from a
 * constructor: the loader's lock protects the list. */
int vernier_host_other(const char *mark, const void *own, char *path, size_t size)
{
	void *program = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
	struct link_map *object = NULL;
	int found = 0;

	if (program == NULL || dlinfo(program, RTLD_DI_LINKMAP, &object) != 0)
		object = NULL;
	for (; object != NULL && !found; object = object->l_next) {
		void *handle = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
		void *other = handle != NULL ? dlsym(handle, mark) : NULL;

		found = other != NULL && other != own;
		if (found)
			snprintf(path, size, "%s", object->l_name);
		if (handle != NULL)
			dlclose(handle);
	}
	if (program != NULL)
		dlclose(program);
	return found;
}

/* Registered when this object is loaded, on EAL's own thread, because registering moves a table
 * that other threads read when they log. Messages below a notice are shown only with
 * --log-level=vernier:info. */
RTE_LOG_REGISTER_IMPL(host_log, "vernier", NOTICE);

void vernier_host_log(uint32_t level, const char *text, size_t len)
{
	if (host_log >= 0)
		rte_log(level, (uint32_t)host_log, "VERNIER: %.*s\n", (int)RTE_MIN(len, 4096u),
			text);
}

size_t vernier_host_cpus(uint16_t *cpus, size_t capacity)
{
	size_t count = 0;
	unsigned int lcore;
	cpu_set_t all;

	CPU_ZERO(&all);
	RTE_LCORE_FOREACH(lcore) {
		rte_cpuset_t own = rte_lcore_cpuset(lcore);

		CPU_OR(&all, &all, &own);
	}
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE && count < capacity; cpu++)
		if (CPU_ISSET(cpu, &all))
			cpus[count++] = (uint16_t)cpu;
	return count;
}

/* The placeholder for the callbacks of a port that is not started (ethdev_private.c); when this
 * object is loaded, no port is started. */
static void **callbacks_of_none;

__attribute__((constructor)) static void remember_callbacks_of_none(void)
{
	callbacks_of_none = rte_eth_fp_ops[0].rxq.clbk;
}

int vernier_host_is_valid(uint16_t port)
{
	return rte_eth_dev_is_valid_port(port);
}

int vernier_host_is_started(uint16_t port)
{
	return rte_eth_dev_is_valid_port(port) &&
	       rte_eth_fp_ops[port].rxq.clbk != callbacks_of_none;
}

int vernier_host_name(uint16_t port, char *name)
{
	return rte_eth_dev_get_name_by_port(port, name);
}

/* Counts the queues that are set up. The array belongs to ethdev and has RTE_MAX_QUEUES_PER_PORT
 * entries, whose targets are not read. The program may free the array meanwhile (by configuring the
 * port without queues); the kernel then reports that it cannot be read, while a load would crash
 * the program. */
static int queues_of(void *const *data, uint16_t *queues)
{
	void *some[64];
	struct iovec to = {.iov_base = some, .iov_len = sizeof(some)};

	*queues = 0;
	while (data != NULL && *queues < RTE_MAX_QUEUES_PER_PORT) {
		struct iovec from = {.iov_base = (void *)(uintptr_t)(data + *queues),
				     .iov_len = sizeof(some)};

		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)sizeof(some))
			return -errno;
		for (size_t n = 0; n < RTE_DIM(some); n++, (*queues)++)
			if (some[n] == NULL)
				return 0;
	}
	return 0;
}

int vernier_host_queues(uint16_t port, uint16_t *rx_queues, uint16_t *tx_queues)
{
	int rc = queues_of(rte_eth_fp_ops[port].rxq.data, rx_queues);

	return rc != 0 ? rc : queues_of(rte_eth_fp_ops[port].txq.data, tx_queues);
}

int vernier_host_device(uint16_t port, struct vernier_host_device *out)
{
	struct rte_eth_dev_info info;
	int rc = rte_eth_dev_info_get(port, &info);

	if (rc != 0)
		return rc;
	memset(out, 0, sizeof(*out));
	snprintf(out->driver, sizeof(out->driver), "%s", info.driver_name);
	out->interface = info.if_index == UINT32_MAX ? 0 : info.if_index;
	return 0;
}

/* The link is read while its driver reports a change, because then the driver exists. */
static int host_changed(uint16_t port, enum rte_eth_event_type event, void *changed, void *ret)
{
	enum vernier_host_change change = VERNIER_HOST_GOES;

	(void)ret;
	if (event == RTE_ETH_EVENT_NEW) {
		change = VERNIER_HOST_COMES;
	} else if (event == RTE_ETH_EVENT_INTR_LSC) {
		int is_up = vernier_host_is_started(port) ? vernier_port_link(port) : -1;

		if (is_up < 0)
			return 0;
		change = is_up ? VERNIER_HOST_LINK_UP : VERNIER_HOST_LINK_DOWN;
	}
	((vernier_host_watcher)(uintptr_t)changed)(port, change);
	return 0;
}

int vernier_host_watch(vernier_host_watcher changed)
{
	static const enum rte_eth_event_type events[] = {
		RTE_ETH_EVENT_NEW, RTE_ETH_EVENT_DESTROY, RTE_ETH_EVENT_INTR_LSC};
	void *arg = (void *)(uintptr_t)changed;
	int rc = 0;

	for (size_t n = 0; n < RTE_DIM(events) && rc == 0; n++)
		rc = rte_eth_dev_callback_register(RTE_ETH_ALL, events[n], host_changed, arg);
	return rc;
}

int vernier_host_tap_rx(uint16_t port, uint16_t queue, vernier_rx_tap tap, void *param)
{
	return rte_eth_add_rx_callback(port, queue, tap, param) != NULL ? 0 : from_rte_errno();
}

int vernier_host_tap_tx(uint16_t port, uint16_t queue, vernier_tx_tap tap, void *param)
{
	return rte_eth_add_tx_callback(port, queue, tap, param) != NULL ? 0 : from_rte_errno();
}
