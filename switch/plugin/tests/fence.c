/* Preloaded into a program (LD_PRELOAD), to detect reads of memory that a driver has freed. DPDK's
 * heap does not detect them, and the moment is short. So here
 *  - allocations of net_af_packet are in pages of their own, which are inaccessible after they are freed;
 *  - closing a port takes a long time between the end of its driver and the end of the port;
 *  - calls of the plugin to drivers return late, as if its thread had lost its CPU.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CLOSE_US 300000
#define ANSWER_US 100000
#define BLOCKS 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block {
	void *start;
	size_t len;
} blocks[BLOCKS];

/* The next definition of the calling function: DPDK's own. */
#define REAL(name) ((__typeof__(&name))(uintptr_t)real(#name))

static void *real(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (found == NULL)
		abort();
	return found;
}

static bool is_from(void *caller, const char *object)
{
	Dl_info info;

	return dladdr(caller, &info) != 0 && info.dli_fname != NULL &&
	       strstr(info.dli_fname, object) != NULL;
}

/* Allocates separate pages, or returns NULL if the caller is not the driver. */
static void *fenced(void *caller, size_t len)
{
	void *start = NULL;

	if (len == 0 || !is_from(caller, "net_af_packet"))
		return NULL;
	pthread_mutex_lock(&lock);
	for (struct block *block = blocks; block < blocks + BLOCKS; block++) {
		if (block->start != NULL)
			continue;
		start = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (start == MAP_FAILED)
			abort();
		*block = (struct block){.start = start, .len = len};
		break;
	}
	pthread_mutex_unlock(&lock);
	return start;
}

void *rte_zmalloc_socket(const char *type, size_t size, unsigned int align, int socket)
{
	void *start = fenced(__builtin_return_address(0), size);

	return start ? start : REAL(rte_zmalloc_socket)(type, size, align, socket);
}

void *rte_malloc_socket(const char *type, size_t size, unsigned int align, int socket)
{
	void *start = fenced(__builtin_return_address(0), size);

	return start ? start : REAL(rte_malloc_socket)(type, size, align, socket);
}

void *rte_calloc_socket(const char *type, size_t num, size_t size, unsigned int align, int socket)
{
	void *start = fenced(__builtin_return_address(0), num * size);

	return start ? start : REAL(rte_calloc_socket)(type, num, size, align, socket);
}

void rte_free(void *start)
{
	bool is_fenced = false;

	pthread_mutex_lock(&lock);
	for (struct block *block = blocks; start != NULL && block < blocks + BLOCKS; block++) {
		if (block->start != start)
			continue;
		is_fenced = true;
		/* Never mapped again, so that no later block hides a read of this one. */
		if (mprotect(start, block->len, PROT_NONE) != 0)
			abort();
	}
	pthread_mutex_unlock(&lock);
	if (!is_fenced)
		REAL(rte_free)(start);
}

int rte_eth_dev_release_port(void *dev)
{
	usleep(CLOSE_US);
	return REAL(rte_eth_dev_release_port)(dev);
}

#define ANSWER_LATE(name)                                           \
	int name(uint16_t port, void *answer)                       \
	{                                                           \
		if (is_from(__builtin_return_address(0), "vernier")) \
			usleep(ANSWER_US);                          \
		return REAL(name)(port, answer);                    \
	}

ANSWER_LATE(rte_eth_stats_get)
ANSWER_LATE(rte_eth_link_get)
ANSWER_LATE(rte_eth_link_get_nowait)
ANSWER_LATE(rte_eth_dev_info_get)
