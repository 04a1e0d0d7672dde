/* Gives frames of net_af_packet the outer VLAN tag back that they came with, and its sockets a group of their own.
 *
 * The kernel takes the outer tag off before a packet socket sees the frame (skb_vlan_untag, for the TPIDs 0x8100
 * and 0x88a8; others it leaves alone) and notes it beside the frame, in the ring's header: TCI and TPID. The
 * driver puts the tag back (rte_vlan_insert in eth_af_packet_rx), but always with the TPID 0x8100: an S-tag becomes
 * a C-tag, and its frame reaches the ports of a VLAN that it is not in. The headers of waiting frames are read here
 * before the driver gives them back to the kernel. A frame that may have another tag than it came with is refused. */
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

/* How struct pkt_rx_queue begins (drivers/net/af_packet/rte_eth_af_packet.c of 22.11): slots of the ring,
 * and the one that is read next. */
struct ring {
	int socket;
	struct iovec *slots;
	uint8_t *map;
	unsigned int slot_count;
	unsigned int next;
};

/* More than the switch asks for at a time. */
#define BURST_MAX 64

/* In place of a TPID: the frame had no tag outside of its bytes; it had a tag, but which one is not known. */
#define NO_TAG UINT32_MAX
#define UNKNOWN_TAG (UINT32_MAX - 1)

static eth_rx_burst_t driver_rx;

/* Frames by port whose tag could not be put back. */
static uint64_t refused[RTE_MAX_ETHPORTS];

/* The TPID of the tag that was taken off a frame. Kernels before 3.14 do not say it. */
static uint32_t tpid_of(const struct tpacket2_hdr *header)
{
	if (!(header->tp_status & TP_STATUS_VLAN_VALID))
		return NO_TAG;
	return header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : UNKNOWN_TAG;
}

/* Gives a frame its TPID; 0 if it has not the tag that it came with. */
static int restore(struct rte_mbuf *mbuf, uint32_t tpid)
{
	if (tpid == NO_TAG)
		return 1;
	/* The driver says so of a tag that it found no room for in front of the frame. */
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

/* The sockets of a device share its packets as a group (PACKET_FANOUT). What the driver asked for, and what the
 * kernel gave: number, mode and flags of the group. */
static struct {
	uint32_t asked, given;
} group;

void vernier_af_packet_probing(void)
{
	group.given = 0;
}

/* Puts a socket into its device's group. The driver numbers groups by process id xor index of the interface, which two
 * switches of one network namespace soon have in common, and the kernel refuses the second: so the first socket lets the
 * kernel choose a free number, and the others follow it. The driver also has the kernel put fragments of IPv4 together
 * (PACKET_FANOUT_FLAG_DEFRAG), into frames longer than any that came: a switch must forward the fragments. */
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

/* In place of libc's in the whole program, the driver included. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
	uint32_t asked;

	if (level == SOL_PACKET && option == PACKET_FANOUT && size == sizeof(asked)) {
		memcpy(&asked, value, sizeof(asked));
		return join_group(fd, asked);
	}
	return (int)syscall(SYS_setsockopt, fd, level, option, value, size);
}

/* Copies memory that may not be mapped: the kernel returns an error then, where a load would end the program. */
static int peek(void *to, const void *from, size_t bytes)
{
	struct iovec local = {.iov_base = to, .iov_len = bytes};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)from, .iov_len = bytes};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* Whether a queue is what this is written for: a packet socket of version 2, and a ring whose slots follow each
 * other in its memory. */
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
	/* The port may be another driver's by now. */
	return rte_eth_fp_ops[port].rx_pkt_burst != rx ?
		       0 :
		       __atomic_load_n(&refused[port], __ATOMIC_RELAXED);
}
