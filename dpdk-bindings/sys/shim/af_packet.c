/* Restores the original outer VLAN tag of frames from net_af_packet, and gives its sockets a fanout group of their own.
 *
 * The kernel removes the outer tag before a packet socket sees the frame (skb_vlan_untag, for the TPIDs 0x8100 and
 * 0x88a8; it leaves others alone), and stores its TCI and TPID in the ring's header. The driver puts the tag back
 * (rte_vlan_insert in eth_af_packet_rx), but always with the TPID 0x8100: an S-tag becomes a C-tag, and the frame
 * reaches the ports of another VLAN. So the headers of queued frames are read here, before the driver returns them to
 * the kernel. A frame whose original tag is unknown is refused. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rte_byteorder.h>
#include <rte_common.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include "af_packet.h"

/* The beginning of struct pkt_rx_queue (drivers/net/af_packet/rte_eth_af_packet.c of 22.11): slots
 * of the ring, and the slot that is read next. */
struct ring {
	int socket;
	struct iovec *slots;
	uint8_t *map;
	unsigned int slot_count;
	unsigned int next;
};

/* More than the switch receives at a time. */
#define BURST_MAX 64

/* Values instead of a TPID: the frame had no tag outside its bytes, or it had an unknown tag. */
#define NO_TAG UINT32_MAX
#define UNKNOWN_TAG (UINT32_MAX - 1)

static eth_rx_burst_t driver_rx;

/* Frames, by port, whose tag could not be restored. */
static uint64_t refused[RTE_MAX_ETHPORTS];

/* The TPID of the tag that was removed from a frame. Kernels before 3.14 do not report it. */
static uint32_t tpid_of(const struct tpacket2_hdr *header)
{
	if (!(header->tp_status & TP_STATUS_VLAN_VALID))
		return NO_TAG;
	return header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : UNKNOWN_TAG;
}

/* Sets a frame's TPID; returns 0 if the frame does not have its original tag. */
static int restore(struct rte_mbuf *mbuf, uint32_t tpid)
{
	if (tpid == NO_TAG)
		return 1;
	/* The driver sets this if there was no room for the tag in front of the frame. */
	if (tpid == UNKNOWN_TAG || (mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED))
		return 0;
	rte_pktmbuf_mtod(mbuf, struct rte_ether_hdr *)->ether_type =
		rte_cpu_to_be_16((uint16_t)tpid);
	return 1;
}

static uint16_t rx(void *queue, struct rte_mbuf **mbufs, uint16_t count)
{
	const struct ring *ring = queue;
	unsigned int slot = ring->next;
	uint32_t tpids[BURST_MAX];
	uint16_t waiting = 0, received, kept = 0;

	for (; waiting < RTE_MIN(count, BURST_MAX); waiting++) {
		const struct tpacket2_hdr *header = ring->slots[slot].iov_base;

		if (!(__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			break;
		tpids[waiting] = tpid_of(header);
		slot = slot + 1 == ring->slot_count ? 0 : slot + 1;
	}
	received = driver_rx(queue, mbufs, waiting);
	for (uint16_t n = 0; n < received; n++) {
		if (restore(mbufs[n], tpids[n])) {
			mbufs[kept++] = mbufs[n];
		} else {
			__atomic_fetch_add(&refused[mbufs[n]->port], 1, __ATOMIC_RELAXED);
			rte_pktmbuf_free(mbufs[n]);
		}
	}
	return kept;
}

/* The sockets of a device share its packets as a group (PACKET_FANOUT). The number, mode and flags
 * of the group that the driver requested, and those that the kernel assigned. */
static struct {
	uint32_t asked, given;
} group;

void vernier_af_packet_probing(void)
{
	group.given = 0;
}

/* Puts a socket into its device's group. The driver numbers groups by process id xor index of the
 * interface. In two switches of one network namespace these numbers can be equal, and the kernel
 * refuses the second. So the first socket lets the kernel choose a free number, and the others use
 * it. The driver also makes the kernel reassemble IPv4 fragments (PACKET_FANOUT_FLAG_DEFRAG), but a
 * switch must forward fragments as they are. */
static int join_group(int fd, uint32_t asked)
{
	uint32_t wanted = (asked & ~(PACKET_FANOUT_FLAG_DEFRAG << 16 | UINT16_MAX)) |
			  PACKET_FANOUT_FLAG_UNIQUEID << 16;
	socklen_t size = sizeof(group.given);

	if (group.given != 0 && group.asked == asked)
		wanted = group.given;
	if (syscall(SYS_setsockopt, fd, SOL_PACKET, PACKET_FANOUT, &wanted, sizeof(wanted)) != 0)
		return -1;
	group.asked = asked;
	return getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &group.given, &size);
}

/* Replaces libc's function in the whole program, including the driver. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
	uint32_t asked;

	if (level == SOL_PACKET && option == PACKET_FANOUT && size == sizeof(asked)) {
		memcpy(&asked, value, sizeof(asked));
		return join_group(fd, asked);
	}
	return (int)syscall(SYS_setsockopt, fd, level, option, value, size);
}

/* Copies memory that may not be mapped: the kernel then returns an error, while a load would crash the program. */
static int peek(void *to, const void *from, size_t bytes)
{
	struct iovec local = {.iov_base = to, .iov_len = bytes};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)from, .iov_len = bytes};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* Whether a queue has the expected form: a packet socket of version 2, and a ring whose slots are
 * contiguous in memory. */
static int is_known(const void *queue)
{
	struct iovec first, second;
	struct ring ring;
	int version = -1;
	socklen_t size = sizeof(version);

	return peek(&ring, queue, sizeof(ring)) &&
	       getsockopt(ring.socket, SOL_PACKET, PACKET_VERSION, &version, &size) == 0 &&
	       version == TPACKET_V2 && ring.slot_count > 1 && ring.next < ring.slot_count &&
	       peek(&first, ring.slots, sizeof(first)) &&
	       peek(&second, ring.slots + 1, sizeof(second)) && first.iov_base == ring.map &&
	       second.iov_base == ring.map + first.iov_len && second.iov_len == first.iov_len;
}

int vernier_af_packet_started(uint16_t port, uint16_t queues)
{
	struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[port];

	for (uint16_t queue = 0; queue < queues; queue++)
		if (!is_known(ops->rxq.data[queue]))
			return -ENOTSUP;
	__atomic_store_n(&refused[port], 0, __ATOMIC_RELAXED);
	if (ops->rx_pkt_burst != rx) {
		driver_rx = ops->rx_pkt_burst;
		ops->rx_pkt_burst = rx;
	}
	return 0;
}

uint64_t vernier_af_packet_refused(uint16_t port)
{
	/* The port may belong to another driver by now. */
	return rte_eth_fp_ops[port].rx_pkt_burst != rx ?
		       0 :
		       __atomic_load_n(&refused[port], __ATOMIC_RELAXED);
}
