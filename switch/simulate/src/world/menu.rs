//! What goes wrong, how often and by how much: drawn for each world from its seed.

use rand::RngExt;
use rand_pcg::Pcg64;

/// Faults of a world. Rates are events a second of simulated time, shares are of frames.
#[derive(Debug, Clone, PartialEq)]
pub struct Menu {
    /// What time stamp counters are off by, 0 to 100 ppm either way.
    pub counter_ppm: f64,
    /// What the system's clocks run away by, 0 to 10 ppm either way; another rate every second.
    pub drift_ppm: f64,
    /// Steps of a system's clock, 0 to 0.5 a second, of 10 us to 20 ms either way.
    pub clock_steps: f64,
    /// Difference between two workers' counters, 0 to 3 ticks.
    pub skew_ticks: u64,
    /// Stalls of a worker, 0 to 1 a second, of up to four epochs.
    pub worker_stalls: f64,
    /// Stalls of a control core, 0 to 1 a second, of up to six epochs: shards come late.
    pub core_stalls: f64,
    /// Flaps of a link, 0 to 0.3 a second, of 1 to 500 ms.
    pub link_flaps: f64,
    /// Reloads, 0 to 2 a second.
    pub reloads: f64,
    /// Kills of a switch, 0 to 0.2 a second; it starts again within 500 ms, sometimes at once.
    pub kills: f64,
    /// Share of data frames lost on a wire, 0 to 5 %.
    pub data_lost: f64,
    /// Share of data frames that come later than those behind them, 0 to 2 %.
    pub data_reordered: f64,
    /// Share of data frames that come twice, 0 to 1 %.
    pub data_doubled: f64,
    /// Share of control frames lost, 0 to 10 %.
    pub control_lost: f64,
    /// Share of control frames that come later than those behind them, 0 to 5 %.
    pub control_reordered: f64,
    /// Share of control frames that come twice, 0 to 5 %.
    pub control_doubled: f64,
    /// Share of control frames with an inverted bit, 0 to 5 %.
    pub control_corrupted: f64,
    /// Recorded control frames of any age that somebody sends again, 0 to 50 a second.
    pub replays: f64,
    /// Share of replayed and forged frames that are thrown back at who sent them, 0 or 25 %.
    pub reflected: f64,
    /// Control frames that somebody makes up without the key, 0 to 50 a second.
    pub forgeries: f64,
    /// Floods of one recorded hello, 0 to 0.5 a second, of up to 2,000 copies within 10 ms.
    pub hello_floods: f64,
    /// Ports that take nothing for 1 to 50 ms, 0 to 1 a second.
    pub port_refusals: f64,
}

impl Menu {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        counter_ppm: 0.0,
        drift_ppm: 0.0,
        clock_steps: 0.0,
        skew_ticks: 0,
        worker_stalls: 0.0,
        core_stalls: 0.0,
        link_flaps: 0.0,
        reloads: 0.0,
        kills: 0.0,
        data_lost: 0.0,
        data_reordered: 0.0,
        data_doubled: 0.0,
        control_lost: 0.0,
        control_reordered: 0.0,
        control_doubled: 0.0,
        control_corrupted: 0.0,
        replays: 0.0,
        reflected: 0.0,
        forgeries: 0.0,
        hello_floods: 0.0,
        port_refusals: 0.0,
    };

    /// Each fault is on the menu of half of the worlds, so that some are seen alone.
    pub fn draw(random: &mut Pcg64) -> Self {
        let skew_ticks = random.random_range(0..4);
        let reflected = if random.random() { 0.25 } else { 0.0 };
        let mut up_to = |most: f64| {
            if random.random::<bool>() {
                random.random::<f64>() * most
            } else {
                0.0
            }
        };
        Self {
            counter_ppm: up_to(100.0),
            drift_ppm: up_to(10.0),
            clock_steps: up_to(0.5),
            skew_ticks,
            reflected,
            ..Self {
                worker_stalls: up_to(1.0),
                core_stalls: up_to(1.0),
                link_flaps: up_to(0.3),
                reloads: up_to(2.0),
                kills: up_to(0.2),
                data_lost: up_to(0.05),
                data_reordered: up_to(0.02),
                data_doubled: up_to(0.01),
                control_lost: up_to(0.1),
                control_reordered: up_to(0.05),
                control_doubled: up_to(0.05),
                control_corrupted: up_to(0.05),
                replays: up_to(50.0),
                forgeries: up_to(50.0),
                hello_floods: up_to(0.5),
                port_refusals: up_to(1.0),
                ..Self::NONE
            }
        }
    }

    /// Faults that come by themselves, with their rates.
    pub fn rates(&self) -> [(Fault, f64); 10] {
        [
            (Fault::ClockStep, self.clock_steps),
            (Fault::WorkerStall, self.worker_stalls),
            (Fault::CoreStall, self.core_stalls),
            (Fault::LinkFlap, self.link_flaps),
            (Fault::Reload, self.reloads),
            (Fault::Kill, self.kills),
            (Fault::Replay, self.replays),
            (Fault::Forgery, self.forgeries),
            (Fault::HelloFlood, self.hello_floods),
            (Fault::PortRefusal, self.port_refusals),
        ]
    }
}

/// Kinds of faults, as they are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A system's clock is set.
    ClockStep,
    /// A worker makes no pass.
    WorkerStall,
    /// A control core makes no poll.
    CoreStall,
    /// A link goes down, and comes back.
    LinkFlap,
    /// A configuration is read again.
    Reload,
    /// A switch loses all that it knows.
    Kill,
    /// An old control frame is sent again.
    Replay,
    /// A control frame is made up.
    Forgery,
    /// One hello, many times.
    HelloFlood,
    /// A port takes nothing.
    PortRefusal,
    /// A data frame is lost.
    DataLost,
    /// A data frame is overtaken.
    DataReordered,
    /// A data frame comes twice.
    DataDoubled,
    /// A control frame is lost.
    ControlLost,
    /// A control frame is overtaken.
    ControlReordered,
    /// A control frame comes twice.
    ControlDoubled,
    /// A control frame is changed.
    ControlCorrupted,
}
