//! Which delays flows meet.

/// Parameters of a delay model, in units of 100 us.
///
/// A flow takes one mode (a queue or path). Its packets meet the mode's delay, scaled by a factor
/// of the flow, plus what the mode's queue holds at the moment, plus noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// As it is named on the command line and in files.
    pub name: &'static str,
    /// In words.
    pub title: &'static str,
    /// Delay of each mode; references take the first.
    pub modes: &'static [f64],
    /// Share of flows that take the first mode, 0 to 1; the others share the rest alike.
    pub first_mode_share: f64,
    /// Deviation of the logarithm of a flow's own factor.
    pub spread: f64,
    /// Weight of the queue: its part is weight x exp(.7 OU - .245), of mean weight.
    pub queue_weight: f64,
    /// Mean of the exponential noise of each packet.
    pub noise: f64,
    /// Share of packets that take any mode instead of their flow's, 0 to 1.
    pub random_mode_share: f64,
}

impl Scenario {
    /// Two uncorrelated queues: the trace of the acceptance checks.
    pub const ACCEPTANCE: Self = Self {
        name: "two-queues",
        title: "two uncorrelated queues",
        modes: &[1.0, 1.6],
        first_mode_share: 0.6,
        spread: 0.05,
        queue_weight: 0.15,
        noise: 0.15,
        random_mode_share: 0.1,
    };

    /// What references serve best: all packets wait in one queue.
    pub const FIFO: Self = Self {
        name: "fifo",
        title: "one FIFO queue",
        modes: &[1.0],
        first_mode_share: 1.0,
        spread: 0.0,
        queue_weight: 0.6,
        noise: 0.03,
        random_mode_share: 0.0,
    };

    /// Two paths of equal cost, each with a queue; references see one.
    pub const ECMP: Self = Self {
        name: "ecmp",
        title: "ECMP over two paths",
        modes: &[1.0, 1.3],
        first_mode_share: 0.6,
        spread: 0.0,
        queue_weight: 0.5,
        noise: 0.05,
        random_mode_share: 0.0,
    };

    /// A little of everything.
    pub const MIXED: Self = Self {
        name: "mixed",
        title: "mixed",
        modes: &[1.0, 1.15],
        first_mode_share: 0.6,
        spread: 0.02,
        queue_weight: 0.5,
        noise: 0.15,
        random_mode_share: 0.05,
    };

    /// The four scenarios of the hybrid, in the order of the report.
    pub const ALL: [Self; 4] = [Self::FIFO, Self::ACCEPTANCE, Self::ECMP, Self::MIXED];
}
