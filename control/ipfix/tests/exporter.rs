//! The exporter with real sockets: a collector's data, whenever it connects and disconnects.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod reader;

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::config::Ipfix;
use control::published::{Lookup, Published};
use ipfix::Running;
use reader::{Collector, number};
use records::snapshot::{IpfixExport, Snapshot};
use testkit::process::{free_address, wait_for};

/// The most that anything may take; a guard against hanging.
const PATIENCE: Duration = Duration::from_secs(30);

/// Enterprise of our own elements.
const OWN: u32 = 32_473;

/// A switch whose epochs the test closes.
struct Switch {
    published: Arc<Published>,
    snapshot: Snapshot,
    exporter: Running,
}

impl Switch {
    fn start(settings: Ipfix) -> Self {
        let mut snapshot = Snapshot::example();
        snapshot.interval_ms = 500;
        (snapshot.epoch, snapshot.flows) = (None, None);
        snapshot.wires.clear();
        snapshot.segments.truncate(1);
        snapshot.segments[0].last = None;
        let total = &mut snapshot.segments[0].total;
        (total.counts.sent_packets, total.counts.dropped_packets) = (0, 0);
        total.buckets.clear();
        let published = Arc::new(Published::new(snapshot.clone()));
        let exporter = ipfix::start(settings, Arc::clone(&published));
        Self {
            published,
            snapshot,
            exporter: exporter.unwrap(),
        }
    }

    /// Closes an epoch with 10 packets on the only segment.
    fn close(&mut self) {
        self.snapshot.epoch = Some(self.snapshot.epoch.map_or(0, |epoch| epoch + 1));
        self.snapshot.segments[0].total.counts.sent_packets += 10;
        let snapshot = self.snapshot.clone();
        self.published.publish(snapshot, Lookup::default());
    }

    fn counts(&self) -> IpfixExport {
        self.published.ipfix.get().unwrap().read()
    }
}

fn bound(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn udp(socket: &UdpSocket) -> Ipfix {
    Ipfix::to(format!("udp://{}", socket.local_addr().unwrap()))
}

/// A switch that exports to a collector, which has read nothing.
fn start(interval_s: Option<u32>) -> (Switch, UdpSocket, Collector) {
    let socket = bound(([127, 0, 0, 1], 0).into());
    let switch = Switch::start(Ipfix {
        interval_s,
        ..udp(&socket)
    });
    (switch, socket, Collector::default())
}

/// Reads one message.
fn receive(socket: &UdpSocket, collector: &mut Collector) {
    let mut bytes = vec![0; 65_536];
    let length = socket.recv(&mut bytes).unwrap();
    assert!(collector.read(&bytes[..length]).is_empty());
}

/// Packets, start and end of each record of a segment, in milliseconds.
fn of_segments(collector: &Collector) -> impl Iterator<Item = (u64, [u64; 2])> {
    collector.records.iter().filter_map(|record| {
        number(record, OWN, 2)?;
        let [packets, start_ms, end_ms] = [2, 152, 153].map(|element| number(record, 0, element));
        Some((packets?, [start_ms?, end_ms?]))
    })
}

/// Packets and epochs of each record of a segment.
fn segments(collector: &Collector) -> Vec<(u64, u64)> {
    let epochs =
        |(packets, [start_ms, end_ms]): (_, [u64; 2])| (packets, (end_ms - start_ms) / 500);
    of_segments(collector).map(epochs).collect()
}

#[test]
fn records_are_over_all_epochs_of_an_interval() {
    let (mut switch, socket, mut collector) = start(Some(1));
    for exports in 1..4 {
        switch.close();
        // Time enough to see it, and to export nothing.
        std::thread::sleep(Duration::from_millis(200));
        switch.close();
        while segments(&collector).len() < exports {
            receive(&socket, &mut collector);
        }
    }
    assert_eq!(segments(&collector), [(20, 2); 3]);
    // The end of the switch does not wait for the rest of the interval.
    switch.close();
    drop(switch.exporter);
    receive(&socket, &mut collector);
    assert_eq!(segments(&collector)[3..], [(10, 1)]);
    assert_eq!(collector.unknown, 0);
}

#[test]
fn templates_are_sent_again_in_time_and_when_a_collector_was_away() {
    let address = free_address().unwrap();
    let socket = bound(address);
    let template_s = 1;
    let mut switch = Switch::start(Ipfix {
        template_s,
        ..udp(&socket)
    });
    switch.close();
    let mut first = Collector::default();
    while segments(&first).is_empty() {
        receive(&socket, &mut first);
    }
    // Another collector, which has read nothing so far.
    let mut second = Collector::default();
    while segments(&second).is_empty() {
        switch.close();
        receive(&socket, &mut second);
    }
    drop(switch.exporter);

    let settings = Ipfix {
        template_s: 3_600,
        ..udp(&socket)
    };
    let mut switch = Switch::start(settings);
    switch.close();
    wait_for("an export", || switch.counts().is_connected);
    drop(socket);
    while switch.counts().dropped_records == 0 {
        switch.close();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!switch.counts().is_connected);
    let socket = bound(address);
    let mut third = Collector::default();
    while segments(&third).is_empty() {
        switch.close();
        receive(&socket, &mut third);
    }
    let names = third
        .records
        .iter()
        .filter(|record| record.contains_key(&(0, 82)));
    assert_eq!(names.count(), switch.snapshot.ports.len());
    wait_for("another export", || {
        switch.close();
        switch.counts().is_connected
    });
}

/// The data of the interrupted export come with the next, which has templates again.
#[cfg(debug_assertions)]
#[test]
fn a_panic_costs_one_export_and_is_counted_and_said() {
    use control::contain::{Part, Point, contained_in, inject};
    let (mut switch, socket, mut collector) = start(None);
    switch.close();
    while segments(&collector).is_empty() {
        receive(&socket, &mut collector);
    }
    inject::arm(Point::In(Part::Ipfix), 1);
    switch.close();
    wait_for("a panic", || contained_in(Part::Ipfix) == 1);
    wait_for("its complaint", || {
        let complaint = switch.published.complaints().pop();
        complaint.is_some_and(|words| words.contains("a panic of this program"))
    });
    let mut second = Collector::default();
    while segments(&second).is_empty() {
        receive(&socket, &mut second);
    }
    assert_eq!(segments(&second)[0].0, 10);
    wait_for("no complaint", || switch.published.complaints().is_empty());
    assert_eq!(contained_in(Part::Ipfix), 1);
}

/// The system's clock is set between two epochs of one interval, back and ahead.
#[test]
fn no_record_ends_before_it_begins_when_the_clock_is_set() {
    let (mut switch, socket, mut collector) = start(Some(1));
    let mut end_unix_s = switch.snapshot.epoch_end_unix_s.unwrap_or(1.7e9);
    for (exports, step_s) in (1..).zip([0.0, -3_600.0, 0.0, 10_800.0, 0.0]) {
        for step_s in [0.0, step_s] {
            end_unix_s += 0.5 + step_s;
            switch.snapshot.epoch_end_unix_s = Some(end_unix_s);
            switch.close();
            // Time enough to see it; the first of two is exported with the second.
            std::thread::sleep(Duration::from_millis(200));
        }
        while of_segments(&collector).count() < exports {
            receive(&socket, &mut collector);
        }
    }
    let mut packets = 0;
    for (record_packets, [start_ms, end_ms]) in of_segments(&collector) {
        assert!(start_ms <= end_ms, "{start_ms} to {end_ms}");
        packets += record_packets;
    }
    assert_eq!((packets, collector.unknown), (10 * 10, 0));
}

/// Reads whole messages from a stream until there are so many records of segments; the sequence number of the first.
fn read(stream: &mut TcpStream, collector: &mut Collector, wanted: usize) -> Option<u32> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    let mut first = None;
    while segments(collector).len() < wanted {
        let mut more = [0; 4_096];
        let length = stream.read(&mut more).unwrap();
        assert!(length > 0, "closed");
        bytes.extend(&more[..length]);
        while bytes.len() >= 4
            && bytes.len() >= usize::from(u16::from_be_bytes([bytes[2], bytes[3]]))
        {
            let sequence = bytes[8..12].first_chunk().copied().map(u32::from_be_bytes);
            first = first.or(sequence);
            bytes = collector.read(&bytes).to_vec();
        }
    }
    first
}

#[test]
fn a_connection_that_is_made_again_has_templates_once_and_all_packets_since() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("tcp://{}", listener.local_addr().unwrap());
    let mut switch = Switch::start(Ipfix {
        template_s: 1,
        ..Ipfix::to(collector)
    });
    let mut packets = 0;
    let mut closed = 0;
    for connection in 0..3 {
        switch.close();
        closed += 1;
        let (mut stream, _) = listener.accept().unwrap();
        let mut collector = Collector::default();
        let sequence = read(&mut stream, &mut collector, 1);
        assert_eq!(sequence, Some(0), "each connection is a session of its own");
        let announced = collector.announced;
        // Longer than templates would stay by UDP.
        std::thread::sleep(Duration::from_millis(if connection == 0 {
            1_100
        } else {
            0
        }));
        switch.close();
        closed += 1;
        read(&mut stream, &mut collector, 2);
        assert_eq!((collector.announced, collector.unknown), (announced, 0));
        packets += segments(&collector)
            .iter()
            .map(|(packets, _)| packets)
            .sum::<u64>();
    }
    assert_eq!(packets, 10 * closed);
}

#[test]
fn a_collector_that_is_not_there_holds_nothing_up() {
    let mut switch = Switch::start(Ipfix::to(format!("tcp://{}", free_address().unwrap())));
    for _ in 0..20 {
        switch.close();
        std::thread::sleep(Duration::from_millis(5));
    }
    let counts = switch.counts();
    assert_eq!((counts.records, counts.is_connected), (0, false));
    let began = Instant::now();
    drop(switch.exporter);
    assert!(began.elapsed() < PATIENCE);
}
