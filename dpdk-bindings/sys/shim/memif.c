/* Serialises bursts of net_memif with EAL's interrupt thread, on which the driver serves its
 * control sockets. The driver itself does not.
 *
 * When the other end goes away, the driver unmaps the connection's memory in EAL's interrupt thread (memif_disconnect
 * in drivers/net/memif/memif_socket.c), while a worker may be copying packets to or from it, and the program crashes
 * with SIGSEGV. It clears "connected" first, and each burst checks that flag at its beginning; so it is enough that the
 * interrupt thread waits for the bursts that have begun before it unmaps. Other drivers' bursts are not affected.
 *
 * A port is closed on the interrupt thread, because closing it elsewhere frees memory that an interrupt handler may be
 * using. The driver also frees a server's listening socket without unregistering its interrupt source
 * (memif_socket_remove_device): when the next client connects, or sources change, the interrupt thread uses freed
 * memory. So the driver's sources are recorded when they are registered, and those of a socket that no port uses any
 * more are unregistered here. */
#define _GNU_SOURCE
/* For the handles of interrupt sources, which have these names since 22.11. */
#define ALLOW_EXPERIMENTAL_API
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>

#include "interrupt.h"
#include "memif.h"

/* Number of net_memif bursts in progress by core. The last entry is for threads that EAL does not know. */
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

/* The driver's functions with and without copying. */
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

	/* The port was already running. */
	if (ops->rx_pkt_burst == rx_0 || ops->rx_pkt_burst == rx_1)
		return;
	driver[kind].rx = ops->rx_pkt_burst;
	driver[kind].tx = ops->tx_pkt_burst;
	ops->rx_pkt_burst = kind == 0 ? rx_0 : rx_1;
	ops->tx_pkt_burst = kind == 0 ? tx_0 : tx_1;
}

/* Replaces libc's function in the whole program; the driver calls it before it frees anything. */
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

/* Interrupt sources of the driver by file descriptor. Sources that the driver has unregistered stay
 * in the table until their descriptor is used again. */
static struct source {
	int fd;
	rte_intr_callback_fn function;
	void *arg;
	struct source *next;
} *sources;
static pthread_mutex_t sources_lock = PTHREAD_MUTEX_INITIALIZER;

static void note_source(int fd, rte_intr_callback_fn function, void *arg)
{
	struct source *source;

	pthread_mutex_lock(&sources_lock);
	for (source = sources; source != NULL && source->fd != fd; source = source->next)
		;
	if (source == NULL && (source = calloc(1, sizeof(*source))) != NULL) {
		source->next = sources;
		sources = source;
	}
	if (source != NULL) {
		source->fd = fd;
		source->function = function;
		source->arg = arg;
	}
	pthread_mutex_unlock(&sources_lock);
}

/* Replaces EAL's function in the whole program. */
int rte_intr_callback_register(const struct rte_intr_handle *handle, rte_intr_callback_fn function,
			       void *arg)
{
	static int (*eal)(const struct rte_intr_handle *, rte_intr_callback_fn, void *);
	Dl_info of = {0};

	if (eal == NULL)
		*(void **)&eal = dlsym(RTLD_NEXT, "rte_intr_callback_register");
	if (eal == NULL)
		return -ENOTSUP;
	if (dladdr((void *)(uintptr_t)function, &of) != 0 && of.dli_fname != NULL &&
	    strstr(of.dli_fname, "net_memif") != NULL)
		note_source(rte_intr_fd_get(handle), function, arg);
	return eal(handle, function, arg);
}

/* Returns the value of an argument of a net_memif port, and its length; NULL if the port belongs to
 * another driver or has no such argument. */
static const char *argument_of(uint16_t port, const char *key, size_t *len)
{
	struct rte_eth_dev_info info;
	const struct rte_devargs *devargs;
	const char *at;

	if (rte_eth_dev_info_get(port, &info) != 0 || strcmp(info.driver_name, "net_memif") != 0)
		return NULL;
	devargs = rte_dev_devargs(info.device);
	at = devargs == NULL || devargs->args == NULL ? NULL : strstr(devargs->args, key);
	if (at == NULL)
		return NULL;
	at += strlen(key);
	*len = strcspn(at, ",");
	return at;
}

int vernier_memif_is_lost(uint16_t port)
{
	struct rte_eth_dev_info info;
	struct rte_eth_link link;
	size_t len = 0;
	const char *role = argument_of(port, "role=", &len);
	/* Its default (rte_eth_memif.c). */
	const int is_client = role == NULL || strncmp(role, "client", len) == 0 ||
			      strncmp(role, "slave", len) == 0;

	return rte_eth_dev_info_get(port, &info) == 0 && strcmp(info.driver_name, "net_memif") == 0 &&
	       is_client && rte_eth_link_get_nowait(port, &link) == 0 &&
	       link.link_status == RTE_ETH_LINK_DOWN;
}

/* Returns the name of a port's socket, and its length; NULL if it is not a net_memif port. */
static const char *socket_of(uint16_t port, size_t *len)
{
	/* Its default (rte_eth_memif.c). */
	static const char path[] = "/run/memif.sock";
	struct rte_eth_dev_info info;
	const char *given = argument_of(port, "socket=", len);

	if (given != NULL || rte_eth_dev_info_get(port, &info) != 0 ||
	    strcmp(info.driver_name, "net_memif") != 0)
		return given;
	*len = sizeof(path) - 1;
	return path;
}

static int is_used(const char *path, size_t len)
{
	size_t other_len;
	uint16_t other;

	RTE_ETH_FOREACH_DEV(other) {
		const char *other_path = socket_of(other, &other_len);

		if (other_path != NULL && other_len == len && memcmp(other_path, path, len) == 0)
			return 1;
	}
	return 0;
}

/* Whether a descriptor is the listening socket of this name, or was accepted there. */
static int is_at(int fd, const char *path, size_t len)
{
	struct sockaddr_un address = {0};
	socklen_t size = sizeof(address);
	const char *name = address.sun_path;

	if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 || address.sun_family != AF_UNIX)
		return 0;
	/* An abstract name begins with a zero. */
	if (name[0] == '\0')
		name++;
	len = RTE_MIN(len, sizeof(address.sun_path) - 1 - (size_t)(name - address.sun_path));
	return strncmp(name, path, len) == 0 && name[len] == '\0';
}

/* Unregisters the sources of a socket that the driver has freed: that of the listener, and those of
 * connections that have not yet named a port. */
static void take_back(const char *path, size_t len)
{
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	struct source **link = &sources;

	pthread_mutex_lock(&sources_lock);
	while (handle != NULL && *link != NULL) {
		struct source *source = *link;

		if (!is_at(source->fd, path, len)) {
			link = &source->next;
			continue;
		}
		(void)rte_intr_fd_set(handle, source->fd);
		if (rte_intr_callback_unregister(handle, source->function, source->arg) > 0)
			close(source->fd);
		*link = source->next;
		free(source);
	}
	pthread_mutex_unlock(&sources_lock);
	rte_intr_instance_free(handle);
}

static void close_port(void *arg)
{
	const uint16_t port = *(const uint16_t *)arg;
	size_t len = 0;
	const char *socket = socket_of(port, &len);
	char *path = socket == NULL ? NULL : strndup(socket, len);

	(void)rte_eth_dev_stop(port);
	(void)rte_eth_dev_close(port);
	if (path != NULL && !is_used(path, len))
		take_back(path, len);
	free(path);
}

void vernier_memif_close(uint16_t port)
{
	vernier_interrupt_run(close_port, &port);
}
