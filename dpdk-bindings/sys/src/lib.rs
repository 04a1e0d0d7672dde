//! Raw declarations of Vernier's C shim over the system's DPDK (22.11 or later).
//!
//! ```text
//! dpdk-bindings (safe)  ->  this crate  ->  shim/shim.c  ->  librte_*.so
//!                           declarations    static inlines, bursts, one error convention
//! ```
//!
//! DPDK's fast path consists of static inline functions, so something must be compiled in C: the shim, and
//! no more. Its interface has scalars, opaque pointers and a few small structs, declared in `shim/shim.h`
//! and again here by hand.
//!
//! Functions that return [`c_int`] return a negative errno on error, whichever of DPDK's two conventions is
//! underneath. All functions need an initialised EAL, except where noted.
//!
//! It does not bind DPDK's headers, and must only be called from `dpdk-bindings`, which documents each
//! operation.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::marker::{PhantomData, PhantomPinned};
use std::mem::offset_of;

#[path = "../../vhost/src/hooks.rs"]
pub mod vhost;

/// Bytes of a name, with its terminating NUL (`RTE_ETH_NAME_MAX_LEN`).
pub const NAME_BYTES: usize = 64;

/// The part of `struct rte_mbuf` (`rte_mbuf_core.h`) that is read in place; dynamic fields are in its
/// unnamed parts.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct rte_mbuf {
    /// Start of the segment's buffer.
    pub buf_addr: *mut u8,
    _buf_iova: u64,
    /// Where the data starts in the buffer, bytes.
    pub data_off: u16,
    _refcnt: u16,
    /// Segments in the chain, counted in the first.
    pub nb_segs: u16,
    /// Ingress port.
    pub port: u16,
    /// Offload flags and dynamic flags.
    pub ol_flags: u64,
    _packet_type: u32,
    /// Bytes in all segments.
    pub pkt_len: u32,
    /// Bytes in this segment.
    pub data_len: u16,
    _vlan_to_buf_len: [u8; 14],
    _pool: *mut rte_mempool,
    _second_cache_line: [u8; 64],
}

// The same offsets as in shim.c, where the C compiler checks them against DPDK's own definition.
const _: () = assert!(
    size_of::<rte_mbuf>() == 128
        && align_of::<rte_mbuf>() == 64
        && offset_of!(rte_mbuf, buf_addr) == 0
        && offset_of!(rte_mbuf, data_off) == 16
        && offset_of!(rte_mbuf, _refcnt) == 18
        && offset_of!(rte_mbuf, nb_segs) == 20
        && offset_of!(rte_mbuf, port) == 22
        && offset_of!(rte_mbuf, ol_flags) == 24
        && offset_of!(rte_mbuf, pkt_len) == 36
        && offset_of!(rte_mbuf, data_len) == 40
        && offset_of!(rte_mbuf, _pool) == 56,
    "rte_mbuf is not laid out as shim.c asserts"
);

/// A packet memory pool: opaque.
#[derive(Debug)]
#[repr(C)]
pub struct rte_mempool {
    _opaque: [u8; 0],
    // Not Send, Sync or Unpin.
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// An answer to telemetry, or a column of one: opaque.
#[derive(Debug)]
#[repr(C)]
pub struct rte_tel_data {
    _opaque: [u8; 0],
    // Not Send, Sync or Unpin.
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Telemetry's callback for a command and its parameters (`telemetry_cb`).
pub type TelemetryAnswer =
    unsafe extern "C" fn(*const c_char, *const c_char, *mut rte_tel_data) -> c_int;

/// Properties of a port.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PortInfo {
    /// Name of the device, NUL-terminated.
    pub device: [u8; NAME_BYTES],
    /// Name of its driver, NUL-terminated.
    pub driver: [u8; NAME_BYTES],
    /// Least MTU, bytes.
    pub mtu_min: u16,
    /// Largest MTU, bytes.
    pub mtu_max: u16,
    /// Most receive queues.
    pub rx_queues_max: u16,
    /// Most transmit queues.
    pub tx_queues_max: u16,
    /// NUMA socket, -1 for none.
    pub numa_socket: i16,
    /// The kernel's index of the interface behind it, 0 for none.
    pub interface: u32,
}

/// The device behind a port of a host program.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HostDevice {
    /// Name of its driver, NUL-terminated.
    pub driver: [u8; NAME_BYTES],
    /// The kernel's index of the interface behind it, 0 for none.
    pub interface: u32,
}

/// The port is being removed; it exists until the call returns.
pub const HOST_GOES: c_int = 1;
/// Its driver reports a link.
pub const HOST_LINK_UP: c_int = 2;
/// Its driver reports no link.
pub const HOST_LINK_DOWN: c_int = 3;

/// DPDK's callback for received packets (`rte_rx_callback_fn`).
pub type RxTap = extern "C" fn(u16, u16, *mut *mut rte_mbuf, u16, u16, *mut c_void) -> u16;

/// DPDK's callback for packets to transmit (`rte_tx_callback_fn`).
pub type TxTap = extern "C" fn(u16, u16, *mut *mut rte_mbuf, u16, *mut c_void) -> u16;

/// Configuration for starting a port. Offloads that merge, strip or rewrite are never requested; chains of
/// segments only if `mtu` exceeds the pool's data room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct PortConfig {
    /// Receive queues, 1 or more.
    pub rx_queues: u16,
    /// Transmit queues, 1 or more.
    pub tx_queues: u16,
    /// Packets that each receive queue can hold; rounded to what the device allows.
    pub rx_descriptors: u16,
    /// Packets that each transmit queue can hold; rounded to what the device allows.
    pub tx_descriptors: u16,
    /// Largest layer-3 packet in bytes.
    pub mtu: u16,
    /// Receive frames to any address, as a switch must.
    pub promiscuous: bool,
    /// Spread flows over several receive queues by addresses and layer-4 ports, as far as the device
    /// can.
    pub rss: bool,
}

impl Default for PortConfig {
    /// One queue each way, 1,024 descriptors, MTU 1500, promiscuous, RSS.
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            mtu: 1500,
            promiscuous: true,
            rss: true,
        }
    }
}

/// A port's counters since it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets transmitted.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes transmitted.
    pub tx_bytes: u64,
    /// Packets dropped by the device for want of a free descriptor: they were not received in time.
    pub rx_missed: u64,
    /// Packets received with an error.
    pub rx_errors: u64,
    /// Packets that the driver accepted and did not transmit.
    pub tx_errors: u64,
    /// Packets dropped by the driver because the pool was empty.
    pub rx_no_mbuf: u64,
}

unsafe extern "C" {
    /// Starts to keep messages of DPDK in the calling thread instead of printing them. Needs no EAL.
    pub safe fn vernier_log_begin();
    /// Ends it; `text` points to the kept bytes (not NUL-terminated, at most 2048), valid in this
    /// thread until the next [`vernier_log_begin`]; returns how many. Needs no EAL.
    pub fn vernier_log_end(text: *mut *const c_char) -> usize;
    /// Prints the messages kept last in the calling thread on standard error, unless that would block. Needs no EAL.
    pub safe fn vernier_log_repeat();
    /// Number of DPDK's messages that could not be written to standard error. Needs no EAL.
    pub safe fn vernier_log_lost() -> u64;

    /// `rte_eal_init`. The arguments must live as long as the process.
    pub fn vernier_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    /// `rte_eal_cleanup`. DPDK must not be used afterwards.
    pub fn vernier_eal_cleanup();
    /// `rte_strerror`: text of an errno, valid in this thread until its next call. Needs no EAL.
    pub safe fn vernier_strerror(errnum: c_int) -> *const c_char;
    /// `rte_rdtsc`. Needs no EAL.
    pub safe fn vernier_tsc() -> u64;
    /// `rte_get_tsc_hz`; 0 before EAL is initialised.
    pub safe fn vernier_tsc_hz() -> u64;
    /// `adjtimex(2)`, read only: whether the system's clock is synchronised, and its estimated and greatest error in
    /// microseconds. If the kernel refuses, returns an errno and writes nothing. Needs no EAL.
    pub fn vernier_kernel_clock(
        synchronised: *mut bool,
        error_us: *mut u64,
        max_error_us: *mut u64,
    ) -> c_int;

    /// Pins the calling thread to a CPU and makes it an lcore (`rte_thread_register`); `EALREADY`
    /// if it is one.
    pub fn vernier_thread_register(cpu: c_uint) -> c_int;
    /// `rte_thread_unregister`.
    pub fn vernier_thread_unregister();

    /// Maps `len` zero bytes for reading and writing at a multiple of `align`, on huge pages if the kernel has any
    /// (`MADV_HUGEPAGE`); NULL if there is no memory. Both are multiples of a huge page. Needs no EAL.
    pub fn vernier_huge_map(len: usize, align: usize) -> *mut c_void;
    /// Unmaps memory that [`vernier_huge_map`] returned for `len`.
    pub fn vernier_huge_unmap(start: *mut c_void, len: usize);

    /// `rte_pktmbuf_pool_create` with `room` bytes of data per mbuf, headroom not counted, in memory
    /// of NUMA socket `socket` (-1: any) if there is enough of it.
    pub fn vernier_mempool_create(
        name: *const c_char,
        mbufs: u32,
        cache: u32,
        room: u16,
        socket: c_int,
        pool: *mut *mut rte_mempool,
    ) -> c_int;
    /// `rte_mempool_free` if all mbufs are back; otherwise the pool stays until EAL's cleanup.
    pub fn vernier_mempool_free(pool: *mut rte_mempool);
    /// `rte_mempool_avail_count`.
    pub fn vernier_mempool_available(pool: *const rte_mempool) -> u32;
    /// Number of mbufs in the pool.
    pub fn vernier_mempool_capacity(pool: *const rte_mempool) -> u32;
    /// Name of the handler that keeps the pool's mbufs (`rte_mempool_ops`), NUL-terminated, valid as long
    /// as the process lives.
    pub fn vernier_mempool_handler(pool: *const rte_mempool) -> *const c_char;

    /// Allocates a frame of `len` bytes that starts with `head` and continues with zeros, in as many segments as
    /// necessary; NULL if there is no memory.
    pub fn vernier_frame_alloc(
        pool: *mut rte_mempool,
        head: *const u8,
        head_len: u32,
        len: u32,
    ) -> *mut rte_mbuf;
    /// `rte_pktmbuf_copy` of the whole packet; NULL if there is no memory.
    pub fn vernier_mbuf_copy(mbuf: *const rte_mbuf, pool: *mut rte_mempool) -> *mut rte_mbuf;
    /// `rte_pktmbuf_free`.
    pub fn vernier_mbuf_free(mbuf: *mut rte_mbuf);
    /// `rte_pktmbuf_free_bulk`.
    pub fn vernier_mbuf_free_bulk(mbufs: *mut *mut rte_mbuf, count: u32);
    /// `rte_mbuf_dynfield_register`; returns the field's offset.
    pub fn vernier_dynfield_register(name: *const c_char, size: usize, align: usize) -> c_int;
    /// `rte_mbuf_dynflag_register`; returns the flag's bit.
    pub fn vernier_dynflag_register(name: *const c_char) -> c_int;

    /// The first port of a device; `ENODEV` if it has none.
    pub fn vernier_port_find(device: *const c_char) -> c_int;
    /// The next port in use, from `from` on; `ENODEV` if there is none.
    pub fn vernier_port_next(from: u16) -> c_int;
    /// `rte_dev_probe`.
    pub fn vernier_port_probe(device: *const c_char) -> c_int;
    /// Stops and closes a port, and removes its device when no other port is on it.
    pub fn vernier_port_detach(port: u16);
    /// `rte_eth_dev_info_get`.
    pub fn vernier_port_info(port: u16, info: *mut PortInfo) -> c_int;
    /// Configures a port and its queues: each receives into the pool of the same index. Then starts the port and sets
    /// promiscuous mode; returns 1 if the port transmits chains of segments.
    pub fn vernier_port_start(
        port: u16,
        config: *const PortConfig,
        pools: *const *mut rte_mempool,
    ) -> c_int;
    /// `rte_eth_stats_get`.
    pub fn vernier_port_stats(port: u16, stats: *mut PortStats) -> c_int;
    /// `rte_eth_link_get_nowait`: whether the link is up, 0 or 1.
    pub fn vernier_port_link(port: u16) -> c_int;
    /// `rte_eth_dev_set_link_up`, or `..._down` for 0.
    pub fn vernier_port_set_link(port: u16, up: c_int) -> c_int;
    /// Whether the port's device should be released (`rte_dev_event_callback_register`), 0 or 1. Needs no EAL.
    pub safe fn vernier_port_is_pulled(port: u16) -> c_int;
    /// Whether the kernel's interface behind the port is gone, or the port is a client of `net_memif` without a
    /// connection, 0 or 1.
    pub fn vernier_port_is_lost(port: u16) -> c_int;
    /// `if_nametoindex`: 0 where there is no interface of that name. Needs no EAL.
    pub fn vernier_interface_index(name: *const c_char) -> u32;
    /// Whether a kernel interface is running (`SIOCGIFFLAGS`), 0 or 1. Needs no EAL.
    pub safe fn vernier_interface_link(index: u32) -> c_int;
    /// Sets a kernel interface up or down (`SIOCSIFFLAGS`). Needs no EAL.
    pub safe fn vernier_interface_set_link(index: u32, up: c_int) -> c_int;

    /// `rte_eth_rx_burst`: returns the number of packets written.
    pub fn vernier_rx_burst(port: u16, queue: u16, mbufs: *mut *mut rte_mbuf, count: u16) -> u16;
    /// `rte_eth_tx_burst`: returns the number of packets, from the front, that now belong to the driver.
    pub fn vernier_tx_burst(port: u16, queue: u16, mbufs: *mut *mut rte_mbuf, count: u16) -> u16;

    /// Starts a thread that takes no signals. Needs no EAL.
    pub fn vernier_host_thread(run: extern "C" fn()) -> c_int;
    /// `pthread_atfork`: lets a child of this process call `in_child` first. Needs no EAL.
    pub fn vernier_host_at_fork(in_child: extern "C" fn()) -> c_int;
    /// Whether this process is a secondary one (`rte_eal_process_type`), 0 or 1.
    pub safe fn vernier_host_is_secondary() -> c_int;
    /// `dlsym` in the program, its libraries and preloaded objects: the address of a function, or NULL. Needs no EAL.
    pub fn vernier_host_symbol(name: *const c_char) -> *mut c_void;
    /// Whether another object of this process defines `mark` elsewhere than at `own`; then its path, with a NUL, is in `path`.
    /// From constructors only.
    pub fn vernier_host_other(
        mark: *const c_char,
        own: *const c_void,
        path: *mut c_char,
        size: usize,
    ) -> c_int;
    /// `rte_log`: a line of `len` bytes under the name `vernier`. Not while EAL starts.
    pub fn vernier_host_log(level: u32, text: *const c_char, len: usize);
    /// Writes the CPUs of all lcores; returns how many.
    pub fn vernier_host_cpus(cpus: *mut u16, capacity: usize) -> usize;
    /// `rte_eth_dev_is_valid_port`, 0 or 1. Needs no EAL.
    pub safe fn vernier_host_is_valid(port: u16) -> c_int;
    /// Whether a port exists and is started, 0 or 1. Needs no EAL.
    pub safe fn vernier_host_is_started(port: u16) -> c_int;
    /// `rte_eth_dev_get_name_by_port`: writes [`NAME_BYTES`] at most.
    pub fn vernier_host_name(port: u16, name: *mut u8) -> c_int;
    /// The queues of a started port, without calling its driver; an error if it was stopped meanwhile. The port is less
    /// than `RTE_MAX_ETHPORTS`.
    pub fn vernier_host_queues(port: u16, rx_queues: *mut u16, tx_queues: *mut u16) -> c_int;
    /// `rte_eth_dev_info_get`, which calls the driver; call it only where the driver cannot be removed meanwhile.
    pub fn vernier_host_device(port: u16, out: *mut HostDevice) -> c_int;
    /// Calls `changed` on each change of a port ([`HOST_GOES`] and so on), on the thread that makes it.
    pub fn vernier_host_watch(changed: extern "C" fn(u16, c_int)) -> c_int;
    /// `rte_eth_add_rx_callback`, for as long as the process lives.
    pub fn vernier_host_tap_rx(port: u16, queue: u16, tap: RxTap, param: *mut c_void) -> c_int;
    /// `rte_eth_add_tx_callback`, for as long as the process lives.
    pub fn vernier_host_tap_tx(port: u16, queue: u16, tap: TxTap, param: *mut c_void) -> c_int;

    /// `rte_telemetry_register_cmd`, for as long as the process lives. The texts are copied.
    pub fn vernier_telemetry_offer(
        command: *const c_char,
        answer: TelemetryAnswer,
        help: *const c_char,
    ) -> c_int;
    /// Makes a response a table.
    pub fn vernier_telemetry_begin(answer: *mut rte_tel_data) -> c_int;
    /// Adds a column of texts or numbers, which belongs to the response; NULL if there is no room or no memory. Names
    /// are letters, digits and `_`.
    pub fn vernier_telemetry_column(
        answer: *mut rte_tel_data,
        name: *const c_char,
        is_text: c_int,
    ) -> *mut rte_tel_data;
    /// Adds a text to a column; copied, and cut after 127 bytes with an error.
    pub fn vernier_telemetry_text(column: *mut rte_tel_data, text: *const c_char) -> c_int;
    /// Adds a number to a column.
    pub fn vernier_telemetry_number(column: *mut rte_tel_data, number: u64) -> c_int;
}
