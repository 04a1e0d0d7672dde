/* A program that moves packets between a port's queues, forks, and lets the child do the same. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>

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

int main(int argc, char **argv)
{
	struct rte_eth_conf conf = {0};
	struct rte_mempool *pool;
	unsigned long packets;
	int status;
	pid_t child;

	if (rte_eal_init(argc, argv) < 0)
		return 2;
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
