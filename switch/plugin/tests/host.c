/* A program that moves packets between a port's queues. With `fork`, a child does the same; with
 * `full`, there is no room left in its mbufs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf_dyn.h>

static unsigned long forward(unsigned int seconds)
{
	struct rte_mbuf *burst[32];
	const uint64_t end = rte_rdtsc() + seconds * rte_get_tsc_hz();
	unsigned long packets = 0;

	while (rte_rdtsc() < end) {
		uint16_t received = rte_eth_rx_burst(0, 0, burst, 32);
		uint16_t sent = rte_eth_tx_burst(0, 0, burst, received);

		packets += sent;
		rte_pktmbuf_free_bulk(burst + sent, received - sent);
	}
	return packets;
}

/* Takes all free bytes of the mbuf. */
static void full(void)
{
	struct rte_mbuf_dynfield field = {.size = 8, .align = 1};
	unsigned int n = 0;

	while (field.size > 0) {
		snprintf(field.name, sizeof(field.name), "full_%u", n++);
		if (rte_mbuf_dynfield_register(&field) < 0)
			field.size /= 2;
	}
}

int main(int argc, char **argv)
{
	struct rte_eth_conf conf = {0};
	struct rte_mempool *pool;
	unsigned long packets;
	int status, eal_args;
	pid_t child;

	eal_args = rte_eal_init(argc, argv);
	if (eal_args < 0 || eal_args + 1 >= argc)
		return 2;
	argv += eal_args;
	if (strcmp(argv[1], "full") == 0)
		full();
	pool = rte_pktmbuf_pool_create("pool", 4095, 128, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
				       SOCKET_ID_ANY);
	if (pool == NULL || rte_eth_dev_configure(0, 1, 1, &conf) != 0 ||
	    rte_eth_rx_queue_setup(0, 0, 128, SOCKET_ID_ANY, NULL, pool) != 0 ||
	    rte_eth_tx_queue_setup(0, 0, 128, SOCKET_ID_ANY, NULL) != 0 ||
	    rte_eth_dev_start(0) != 0)
		return 3;
	packets = forward(2);
	printf("before %lu\n", packets);
	fflush(stdout);
	if (strcmp(argv[1], "fork") != 0)
		return packets > 0 ? 0 : 4;
	child = fork();
	packets = forward(1);
	if (child == 0) {
		printf("child %lu\n", packets);
		fflush(stdout);
		_exit(packets > 0 ? 0 : 4);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		return 5;
	printf("parent %lu\n", packets);
	return 0;
}
