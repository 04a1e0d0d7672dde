//! Ports with their classes and queues, workers, the filtering database and the pools of packet buffers.

use super::page::{Histogram, Labels, Page, Sample, with};
use super::whole;
use contract::counters::{
    AroundReading, ClassReading, PortReading, QueueReading, ReferenceReading, WorkerReading,
};
use contract::fdb::FdbStats;
use contract::metric::MetricKind as Kind;
use records::snapshot::{
    AroundCounts, ClassCounts, DeviceCounts, Fdb, Port, PortFact, QueueCounts, Snapshot, Worker,
};

fn labels(port: &Port) -> Labels<'_> {
    vec![("port", port.name.as_str().into())]
}

pub(super) fn ports(page: &mut Page, ports: &[Port]) {
    let of_ports = ports.iter().map(|port| (labels(port), port));
    page.metrics(
        PortReading::metrics(),
        of_ports
            .clone()
            .map(|(labels, port)| (labels, &port.counts)),
    );
    page.metrics(
        PortFact::metrics(),
        of_ports.clone().map(|(labels, port)| (labels, &port.facts)),
    );
    page.metrics(Port::metrics(), of_ports.clone());
    let drivers = of_ports.clone();
    let drivers =
        drivers.map(|(labels, port)| (with(labels, "driver", port.facts.driver.as_str()), 1.0));
    let help = "Driver of the device behind the port; always 1.";
    page.gauge("vernier_port_info", help, drivers);
    let devices = of_ports.filter_map(|(labels, port)| Some((labels, port.facts.device.as_ref()?)));
    // None of the families where all devices belong to a host program.
    if devices.clone().next().is_some() {
        page.metrics(DeviceCounts::metrics(), devices);
    }
    let around = ports.iter().filter_map(|port| {
        let AroundCounts { device, counts } = port.around.as_ref()?;
        Some((with(labels(port), "device", device), counts))
    });
    if around.clone().next().is_some() {
        page.metrics(AroundReading::metrics(), around);
    }
    let classes = ports.iter().flat_map(|port| {
        let of_port = port.classes.iter();
        of_port.map(|ClassCounts { class, counts }| (with(labels(port), "class", class), counts))
    });
    page.metrics(ClassReading::metrics(), classes);
    let queues = ports.iter().flat_map(|port| {
        let of_port = port.queues.iter();
        of_port.map(|queue| (with(labels(port), "queue", &queue.queue), queue))
    });
    let counts = queues
        .clone()
        .map(|(labels, queue)| (labels, &queue.counts));
    page.metrics(QueueReading::metrics(), counts);
    page.metrics(QueueCounts::metrics(), queues);
}

pub(super) fn workers(page: &mut Page, workers: &[Worker]) {
    let workers = workers.iter().enumerate().map(|(index, worker)| {
        let labels: Labels = vec![("worker", index.to_string().into())];
        (labels, worker)
    });
    page.metrics(Worker::metrics(), workers.clone());
    let counts = workers
        .clone()
        .map(|(labels, worker)| (labels, &worker.counts));
    page.metrics(WorkerReading::metrics(), counts);
    let references = workers
        .clone()
        .map(|(labels, worker)| (labels, &worker.references));
    page.metrics(ReferenceReading::metrics(), references);
    page.begin(
        "vernier_worker_burst_packets",
        Kind::Histogram,
        "Packets in the bursts that the worker received.",
    );
    for (labels, worker) in workers {
        let cumulative = worker.bursts.iter().scan(0, |sum, bucket| {
            *sum += bucket.bursts;
            Some((bucket.le_packets, *sum))
        });
        let buckets = cumulative.filter_map(|(le, at_most)| Some((le? as f64, at_most)));
        let histogram = Histogram {
            buckets: buckets.collect(),
            delays: None,
            exemplars: &[],
            count: worker.bursts.iter().map(|bucket| bucket.bursts).sum(),
            sum: worker.counts.busy_packets as f64,
        };
        page.sample(&labels, None, Sample::Histogram(&histogram));
    }
}

/// The filtering database and the pools.
pub(super) fn tables(page: &mut Page, snapshot: &Snapshot) {
    let fdb = snapshot.fdb.iter().flat_map(whole);
    page.metrics(Fdb::metrics(), fdb.clone());
    page.metrics(
        FdbStats::metrics(),
        fdb.map(|(labels, fdb)| (labels, &fdb.stats)),
    );
    let buffers = snapshot.pools.iter().flat_map(|pool| {
        let free = pool.size.saturating_sub(pool.used);
        [("used", pool.used), ("free", free)].map(|(state, number)| {
            let labels: Labels = vec![("pool", pool.name.as_str().into()), ("state", state.into())];
            (labels, number as f64)
        })
    });
    page.gauge(
        "vernier_mempool_buffers",
        "Packet buffers in the pool.",
        buffers,
    );
}
