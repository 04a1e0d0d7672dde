//! The page of all runs.

use std::ops::RangeInclusive;

use reporting::{BUILD, Machine, Table};

use crate::wire::capture::Comparison;
use crate::wire::limits;
use crate::wire::scenario::{Outcome, Way};
use crate::wire::verdict::{FlowClass, FlowErrors, Judged, TAIL_PACKETS_MIN, Verdict};
use crate::wire::{around, asked, flood, memif};

/// Names of the directions.
pub const ARROWS: [&str; 2] = ["a > b", "b > a"];

#[derive(Debug)]
pub struct Report {
    pub machine: Machine,
    /// Over veth.
    pub runs: Vec<Outcome>,
    /// Over shared memory.
    pub memif: Option<memif::Outcome>,
    /// Flow by flow.
    pub around: Option<around::Outcome>,
    pub asked: Option<asked::Outcome>,
    /// Under a replayed hello.
    pub flood: Option<flood::Outcome>,
    /// Runs that failed, and why.
    pub failed: Vec<(String, String)>,
}

pub fn percent(share: f64) -> String {
    match share.abs() {
        magnitude if magnitude.is_nan() => "-".to_owned(),
        magnitude if magnitude < 1e-4 => format!("{:.5} %", share * 100.0),
        magnitude if magnitude < 0.01 => format!("{:.3} %", share * 100.0),
        _ => format!("{:.1} %", share * 100.0),
    }
}

pub fn list(counts: &[(String, u64)]) -> String {
    let counts = counts.iter().map(|(name, count)| format!("{name} {count}"));
    let counts: Vec<_> = counts.collect();
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts.join(", ")
}

pub fn packets_of(class: &FlowClass) -> String {
    packets_between(&class.packets)
}

fn packets_between(packets: &RangeInclusive<u64>) -> String {
    match (packets.start(), packets.end()) {
        (0, &u64::MAX) => "all".to_owned(),
        (min, &u64::MAX) => format!("{min} and more"),
        (min, max) => format!("{min} to {max}"),
    }
}

fn us(ns: f64) -> String {
    if ns.is_nan() {
        return "-".to_owned();
    }
    format!("{:.2}", ns / 1e3)
}

fn mbps(bps: f64) -> String {
    format!("{:.3}", bps / 1e6)
}

fn whole(figure: f64) -> String {
    format!("{figure:.0}")
}

/// Share of the epochs with packets that was usable.
fn usable_share(fates: &[(String, u64)]) -> f64 {
    let count = |of: fn(&str) -> bool| {
        let counts = fates.iter().filter(|(fate, _)| of(fate));
        counts.map(|(_, count)| count).sum::<u64>() as f64
    };
    count(|fate| fate == "usable") / count(|fate| fate != "idle").max(1.0)
}

/// Share of the usable epochs with the sender's counts.
fn counted_share(verdict: &Verdict) -> f64 {
    verdict.counted as f64 / verdict.usable.max(1) as f64
}

/// A count of frames at the hosts, where these were compared.
fn of_hosts(way: &Way, count: fn(Comparison) -> u64) -> String {
    let compared = way.compared.map(|compared| count(compared).to_string());
    compared.unwrap_or_default()
}

pub fn judged(of: &Judged) -> String {
    format!("{} ({} of {})", percent(of.error), of.known, of.flows)
}

fn flow_errors(flows: &[FlowErrors]) -> String {
    let errors = flows.iter().map(|of| {
        let within = percent(of.within as f64 / of.bounded as f64);
        let flows = of.flows;
        format!("{} {} ({flows}, {within})", of.method, percent(of.error))
    });
    errors.collect::<Vec<_>>().join(", ")
}

/// A column: its heading, and its field for one direction of a run.
type Column = (&'static str, fn(&Way) -> String);

const USABILITY: &[Column] = &[
    ("epochs", |w| w.verdict.path.epochs.to_string()),
    ("compared", |w| w.verdict.usable.to_string()),
    ("usable", |w| percent(usable_share(&w.fates))),
    ("should be", |w| percent(w.verdict.expected.usable)),
    ("counts known", |w| percent(counted_share(&w.verdict))),
    ("should be", |w| percent(w.verdict.expected.counted)),
    ("packets", |w| whole(w.verdict.path.packets)),
    ("lost", |w| percent(w.verdict.path.loss)),
    ("reordered", |w| percent(w.verdict.path.reordered)),
    ("cells", |w| percent(w.verdict.cells)),
    ("should be", |w| percent(w.verdict.expected.cells)),
    ("samples", |w| whole(w.verdict.samples)),
    ("should be", |w| whole(w.verdict.expected.samples)),
    ("moved", |w| w.verdict.moved.to_string()),
    ("fates", |w| list(&w.fates)),
];

const CROSS_CHECKS: &[Column] = &[
    ("lost by the box", |w| w.check.box_lost.to_string()),
    ("missed by switch", |w| w.check.switches_lost.to_string()),
    ("reordered by the box", |w| {
        w.check.box_reordered.to_string()
    }),
    ("seen by switches", |w| {
        w.check.switches_reordered.to_string()
    }),
    ("delay in the box, us", |w| us(w.check.box_delay_ns)),
    ("between switches, us", |w| us(w.check.switches_delay_ns)),
    ("frames sent by the host", |w| of_hosts(w, |of| of.sent)),
    ("received", |w| of_hosts(w, |of| of.received)),
    ("changed", |w| of_hosts(w, |of| of.changed)),
];

const OVERHEADS: &[Column] = &[
    ("data, Mbit/s", |w| mbps(w.overhead.data_bps)),
    ("control, Mbit/s", |w| mbps(w.overhead.control_bps)),
    ("references, Mbit/s", |w| mbps(w.overhead.reference_bps)),
    ("may take, Mbit/s", |w| mbps(w.overhead.share_bps)),
    ("by the switch's count, Mbit/s", |w| {
        mbps(w.overhead.exported_bps)
    }),
    ("references withheld", |w| w.overhead.withheld.to_string()),
];

impl Report {
    /// A report of this machine and build, with no runs yet.
    pub fn new() -> Self {
        Self {
            machine: Machine::of_this_run(),
            runs: Vec::new(),
            memif: None,
            around: None,
            asked: None,
            flood: None,
            failed: Vec::new(),
        }
    }

    /// Both directions of all runs over veth.
    pub fn ways(&self) -> impl Iterator<Item = (&Outcome, &'static str, &Way)> {
        self.runs.iter().flat_map(|run| {
            let ways = ARROWS.into_iter().zip(&run.ways);
            ways.map(move |(arrow, way)| (run, arrow, way))
        })
    }

    pub fn markdown(&self) -> String {
        let Machine { commit, .. } = &self.machine;
        let parts = [
            format!("{PREFACE}{}; {BUILD} build of {commit}.", self.machine),
            "## How much of it is usable, beside what probability predicts".to_owned(),
            self.table(USABILITY),
            "## Mean delays of epochs".to_owned(),
            self.means().markdown(),
            "## Mean delays of flows".to_owned(),
            "Median relative error over flows in epochs, by their packets in the epoch; p99, the 99th percentile, \
             known of so many of the flows. Bounds are nominal 98 % intervals."
                .to_owned(),
            self.flows().markdown(),
            "## Independent records".to_owned(),
            self.table(CROSS_CHECKS),
            "## Control frames on the wire".to_owned(),
            "Bits a second with all that Ethernet adds, counted by the box, over the whole run."
                .to_owned(),
            self.table(OVERHEADS),
            self.attack(),
            self.memif.as_ref().map_or_else(String::new, shared_memory),
            self.around.as_ref().map_or_else(String::new, around_the_box),
            self.asked.as_ref().map_or_else(String::new, asked_flows),
            self.flood.as_ref().map_or_else(String::new, replayed_hello),
            "## What had to hold".to_owned(),
            limits::checks(self).table().markdown(),
        ];
        let parts = parts.iter().map(|part| part.trim_end());
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        parts.join("\n\n") + "\n"
    }

    /// A table of both directions of all runs.
    fn table(&self, columns: &[Column]) -> String {
        let headings = columns.iter().map(|(heading, _)| *heading);
        let mut table = Table::default().words(["path", "way"]).figures(headings);
        for (run, arrow, way) in self.ways() {
            let fields = columns.iter().map(|(_, field)| field(way));
            let names = [run.words, arrow].map(str::to_owned).into_iter();
            table.push(names.chain(fields).collect());
        }
        table.markdown()
    }

    fn means(&self) -> Table {
        let mut table = Table::default()
            .words(["path", "way"])
            .figures(["true mean, us", "deviation, us"])
            .words(["method"])
            .figures(["epochs", "median error, us", "should be"])
            .figures(["median bound, us", "truth within"]);
        for (run, arrow, way) in self.ways() {
            let path = &way.verdict.path;
            for of in &way.verdict.means {
                let expected = match of.method.as_str() {
                    "lda" => us(way.verdict.expected.error_ns),
                    _ => String::new(),
                };
                table.row(&[
                    &run.words,
                    &arrow,
                    &us(path.mean_ns),
                    &us(path.deviation_ns),
                    &of.method,
                    &of.epochs,
                    &us(of.error_ns),
                    &expected,
                    &us(of.bound_ns),
                    &percent(of.within_share()),
                ]);
            }
        }
        table
    }

    fn flows(&self) -> Table {
        let mut table = Table::default()
            .words(["path", "way"])
            .figures(["packets"])
            .words(["errors by method (flows, of those with a bound within it)"]);
        for (run, arrow, way) in self.ways() {
            for class in &way.verdict.flows {
                let errors = flow_errors(&class.errors);
                table.row(&[&run.words, &arrow, &packets_of(class), &errors]);
            }
            let tails = &way.verdict.tails;
            if tails.known > 0 {
                let error = format!("p99: {}", judged(tails));
                table.row(&[&run.words, &arrow, &"1000 and more", &error]);
            }
        }
        table
    }

    fn attack(&self) -> String {
        let mut attacked = self
            .runs
            .iter()
            .filter_map(|run| Some((run, run.attack.as_ref()?)));
        let Some((run, attack)) = attacked.next() else {
            return String::new();
        };
        let idle = self.runs.iter().find(|run| run.name == "idle");
        let tcp = |run: &Outcome| run.tcp_bps.map_or("?".to_owned(), |bps| whole(bps / 1e6));
        let tricks: Vec<_> = attack.sent.clone().into_iter().collect();
        let [at_1, at_2] = attack.at.each_ref().map(|refused| list(&refused.by_reason));
        let [to_right, to_left] = attack.epochs_lost.each_ref().map(|lost| list(lost));
        format!(
            "## Under attack\n\n\
             {} frames made up by the box from genuine ones, for switch 2, and {} sent by scapy on the link between box \
             and switch 2, for both: {}.\n\n\
             Refused by switch 1: {at_1}; by switch 2: {at_2}.\n\n\
             Epochs lost: {to_right} (a > b), {to_left} (b > a).\n\n\
             TCP through the switches: {} Mbit/s under attack, {} Mbit/s without.",
            attack.made_up,
            attack.by_scapy(),
            list(&tricks),
            tcp(run),
            idle.map_or("?".to_owned(), tcp),
        )
    }
}

fn shared_memory(memif: &memif::Outcome) -> String {
    let (full, v, path) = (&memif.full, &memif.verdict, &memif.verdict.path);
    let mut table = Table::default().words([""]).figures([""]);
    let mut row = |what: &str, figure: String| {
        table.row(&[&what, &figure]);
    };
    row("capacity, Mbit/s", whole(full.capacity_bps as f64 / 1e6));
    row("packets a second, no record kept", whole(full.pps));
    row("data, Mbit/s", whole(full.data_bps / 1e6));
    row(
        "control frames, of the data's bytes",
        percent(full.control_of_data),
    );
    row(
        "references, of the data's bytes",
        percent(full.references_of_data),
    );
    row("epochs by fate", list(&full.fates));
    row(
        "packets a second, every packet recorded at both ends",
        whole(memif.recorded_pps),
    );
    let fates = list(&memif.recorded_fates);
    row(
        "epochs, compared; by fate",
        format!("{}, {}; {fates}", path.epochs, v.usable),
    );
    let samples = format!("{}, {}", whole(path.packets), whole(v.samples));
    row("packets of an epoch, samples of the LDA", samples);
    let truth = format!("{}, {}", us(path.mean_ns), us(path.deviation_ns));
    row("true mean and deviation, us", truth);
    for of in &v.means {
        let (error, bound) = (us(of.error_ns), us(of.bound_ns));
        row(
            &format!("{}: median error and bound, us; truth within", of.method),
            format!("{error}, {bound}; {}", percent(of.within_share())),
        );
    }
    for class in &v.flows {
        let what = format!("flows of {} packets", packets_of(class));
        row(&what, flow_errors(&class.errors));
    }
    format!(
        "## Over shared memory, at full speed\n\n\
         Two switches, a CPU each, `net_memif` between them, IMIX of 1,000 flows from a generator inside the first.\n\
         Shared memory has no rate of its own: what it carried at first is taken for its capacity, 10 Gbit/s at most.\n\n{}",
        table.markdown()
    )
}

fn around_the_box(ways: &around::Outcome) -> String {
    let mut table = Table::default()
        .words(["way"])
        .figures(["entered", "came back", "lost", "unknown"])
        .figures(["mean, ms", "of the box", "deviation, ms", "of the box"]);
    for (arrow, way) in ARROWS.into_iter().zip(ways) {
        let both = |of: fn(&around::Figures) -> u64| match (of(&way.seen), of(&way.truth)) {
            (seen, truth) if seen == truth => seen.to_string(),
            (seen, truth) => format!("{seen} of {truth}"),
        };
        let ms = |ns: f64| format!("{:.3}", ns / 1e6);
        table.row(&[
            &arrow,
            &both(|of| of.entered),
            &both(|of| of.returned),
            &both(|of| of.lost),
            &way.unknown,
            &ms(way.seen.mean_ns),
            &ms(way.truth.mean_ns),
            &ms(way.seen.deviation_ns),
            &ms(way.truth.deviation_ns),
        ]);
    }
    format!(
        "## Around a device\n\n\
         One switch with the box between two of its ports (`measurement.around`): it delays by 5 ms with jitter, drops one packet in a hundred, takes a hop \
         and sets DSCP. Counts are the switch's; where the box has another, it is behind \"of\". The switch's delays contain its own \
         drivers and what both programs wait for the CPU.\n\n{}",
        table.markdown(),
    )
}

fn asked_flows(asked: &asked::Outcome) -> String {
    let mut table = Table::default()
        .words(["packets"])
        .figures(["flows", "median error of the mean", "within the bound"])
        .figures(["packets exact", "losses exact", "more lost than said"]);
    for size in &asked.sizes {
        let flows = size.mean.flows;
        let share = |count: usize| percent(count as f64 / flows.max(1) as f64);
        table.row(&[
            &packets_between(&size.packets),
            &flows,
            &percent(size.mean.error),
            &format!("{} of {}", size.within, size.bounded),
            &share(size.received_exact),
            &share(size.lost_exact),
            &size.lost_more,
        ]);
    }
    format!(
        "## Every flow, asked for by name\n\n\
         Two switches and the box between them, `net_memif` on both sides: IMIX of 20,000 flows from a generator inside the first, \
         epochs of 5 s, a link of 300 Mbit/s with a queue, {} of packets lost. Each flow is asked for by `vernier flow NAME --json` at \
         switch 2; {} of {} were answered, {} of the others had packets in all epochs that may have been asked. References take {} \
         of the data's bytes.\n\n\
         {}\n\
         Median errors of the standard deviation, flows of {} packets and more: {}; of the 99th percentile, flows of {} and more: {}.",
        percent(asked.loss),
        asked.answered,
        asked.asked,
        asked.missed,
        percent(asked.references_of_data),
        table.markdown(),
        asked::DEVIATION_PACKETS_MIN,
        judged(&asked.deviation),
        TAIL_PACKETS_MIN,
        judged(&asked.p99),
    )
}

fn replayed_hello(flood: &flood::Outcome) -> String {
    let (quiet, flooded) = (&flood.quiet, &flood.flooded);
    let mut table = Table::default()
        .words([""])
        .figures(["before", "in the flood"]);
    table.row(&[&"replayed hellos a second", &0, &whole(flood.replayed_pps)]);
    table.row(&[
        &"epochs by fate",
        &list(&quiet.fates),
        &list(&flooded.fates),
    ]);
    let packets = [quiet, flooded].map(|phase| whole(phase.packets));
    table.row(&[&"packets of an epoch", &packets[0], &packets[1]]);
    format!(
        "## Under a replayed hello\n\n\
         Two switches and the box between them, `net_memif` on both sides. The box records the first hello of switch 1 and sends it to \
         switch 2 over and over, as fast as it makes copies; what is genuine goes first, as on a link that is not full. No program has \
         a CPU of its own.\n\n\
         {}\n{} copies of the hello in all; refused: {}.",
        table.markdown(),
        flood.replayed,
        list(&flood.refused.by_reason),
    )
}

/// The text above the tables.
const PREFACE: &str = "# Segments on the wire

What two switches report of the path between them, compared with what happened to each packet: `make wire`.

Two hosts in namespaces of their own, a switch beside each, and `vernier-lab impair` between the switches, all joined by veth.
The hosts send each other a mix of UDP flows (200 each way, IMIX, bursts of 6, shares by Zipf's law), TCP (iperf3) and pings. Both
switches record when they saw each packet; joined by packet hash, that is the truth. The box records what it did to each
packet, and tcpdump at both hosts what they saw: two independent records. Epochs of 100 ms, an LDA of two banks of 256 rows (80 % and
20 % of packets), sketch and references as large as the share of the link allows (0.5 % of 1 Gbit/s). Switches, box, hosts and
their senders share the machine's CPUs: delays are those of threads that wait for one.

Columns *should be* come from probability alone: the loss that the box was given, each frame by itself. A rollover is seen unless
all three copies of its marker are lost, and an epoch is usable if both its rollovers are; the sender's counts and each range of cells
arrive at once or in one round of retransmission; a cell is usable if none of its packets was lost; the error of a mean of so many samples, drawn without
replacement from delays of the deviation seen, is under 0.67 standard errors half the time.

Flows are judged beside flows of their size, 10 to 99 packets in an epoch and 100 or more: TCP at full speed has one large flow with
errors of tenths of a percent and many small ones with several percent, and a median over both is where there are none. The table has
it all the same. A median over a hundred flows is itself known to about a fifth only. So the chooser misses its limit for
one size in one run where the lower end of its median's 95 % confidence interval (order statistics) exceeds it; over all of them together,
where chance evens out, it has to be within 3 % of the best.

";
