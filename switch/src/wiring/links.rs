//! Links of ports: which changes the data plane sees, and which a patch panel forwards.
//!
//! A port that loses its link is down at once; its link must be up for [`UP_HOLD`] before the port is, so
//! that a flapping port does not flap the switch. Between two ports with link-loss forwarding, the loss of
//! one link takes the other port down on purpose, so that its neighbour sees it, too. A port taken down
//! like this shows nothing of its own link; if that is lost, it shows when the port is brought up again and
//! gets no link within [`SETTLE`]. A port that was taken down by a previous, killed switch starts as taken
//! down: it is brought up, not lost.

use std::time::{Duration, Instant};

/// How long a link must be up before its port is.
pub const UP_HOLD: Duration = Duration::from_millis(300);

/// Time for a port that was brought up, or just started, to find its link (negotiation).
pub const SETTLE: Duration = Duration::from_secs(4);

/// An action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The data plane must stop using the port.
    Down(usize),
    /// The data plane may use it again.
    Up(usize),
    /// Take the link down.
    Lower(usize),
    /// Let the link come up again.
    Raise(usize),
}

/// The links of all ports.
#[derive(Debug, Default)]
pub struct LinkWatch {
    ports: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    /// The port whose link follows its own.
    partner: Option<usize>,
    /// State as last sent to the data plane.
    is_up: bool,
    /// Whether it was taken down on purpose.
    is_lowered: bool,
    /// Since when the link has been up without interruption.
    seen_since: Option<Instant>,
    /// Until when a missing link is not forwarded to the partner; `None` once it was up.
    settles_until: Option<Instant>,
    flaps: u64,
}

impl LinkWatch {
    /// Watches no port.
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches the port at `index`, which counts as up for now, with `partner`, if any. Previous state is
    /// forgotten, except the number of flaps.
    pub fn watch(&mut self, index: usize, partner: Option<usize>, now: Instant) {
        let blank = |flaps| Watched {
            partner: None,
            is_up: true,
            is_lowered: false,
            seen_since: Some(now.checked_sub(UP_HOLD).unwrap_or(now)),
            settles_until: Some(now + SETTLE),
            flaps,
        };
        while self.ports.len() <= index {
            self.ports.push(blank(0));
        }
        let flaps = self.ports[index].flaps;
        self.ports[index] = Watched {
            partner,
            ..blank(flaps)
        };
    }

    /// The same for a port that a previous switch took down and could not bring up again: it is brought up at the
    /// next check.
    pub fn watch_lowered(&mut self, index: usize, partner: Option<usize>, now: Instant) {
        self.watch(index, partner, now);
        let port = &mut self.ports[index];
        port.is_up = false;
        port.is_lowered = true;
    }

    /// Forgets a port that is no longer used, except its number of flaps. Returns whether its link is down on
    /// purpose: then it may come up again now.
    pub fn forget(&mut self, index: usize, now: Instant) -> bool {
        let was_lowered = self.ports.get(index).is_some_and(|port| port.is_lowered);
        if index < self.ports.len() {
            self.watch(index, None, now);
        }
        was_lowered
    }

    /// Sets or removes a port's partner; if it was taken down because of the old one, it is brought up.
    pub fn join(&mut self, index: usize, partner: Option<usize>) {
        if let Some(port) = self.ports.get_mut(index) {
            port.partner = partner;
        }
    }

    /// Whether the data plane may use the port.
    pub fn is_up(&self, index: usize) -> bool {
        self.ports.get(index).is_none_or(|port| port.is_up)
    }

    /// Number of times that the port went down.
    pub fn flaps(&self, index: usize) -> u64 {
        self.ports.get(index).map_or(0, |port| port.flaps)
    }

    /// Ports whose links are down on purpose, to be brought up before the switch stops.
    pub fn lowered(&self) -> impl Iterator<Item = usize> {
        let lowered = |(index, port): (usize, &Watched)| port.is_lowered.then_some(index);
        self.ports.iter().enumerate().filter_map(lowered)
    }

    /// Checks every link; appends the necessary actions to `events`, in order.
    pub fn look(
        &mut self,
        now: Instant,
        mut has_link: impl FnMut(usize) -> bool,
        events: &mut Vec<Event>,
    ) {
        for index in 0..self.ports.len() {
            if self.ports[index].is_lowered {
                continue;
            }
            let seen = has_link(index);
            self.ports[index].see(seen, now);
            self.tell(index, now, events);
        }
        for index in 0..self.ports.len() {
            let port = &self.ports[index];
            let partner = port.partner.and_then(|partner| self.ports.get(partner));
            let is_partner_lost = partner.is_some_and(|partner| partner.is_lost(now));
            if is_partner_lost && !port.is_lowered {
                self.ports[index].is_lowered = true;
                self.tell(index, now, events);
                events.push(Event::Lower(index));
            } else if !is_partner_lost && port.is_lowered {
                let port = &mut self.ports[index];
                port.is_lowered = false;
                port.seen_since = None;
                port.settles_until = Some(now + SETTLE);
                events.push(Event::Raise(index));
            }
        }
    }

    /// Notifies the data plane of news.
    fn tell(&mut self, index: usize, now: Instant, events: &mut Vec<Event>) {
        let port = &mut self.ports[index];
        let is_up = port.is_usable(now);
        if is_up == port.is_up {
            return;
        }
        port.is_up = is_up;
        port.flaps += u64::from(!is_up && port.settles_until.is_none());
        events.push(if is_up {
            Event::Up(index)
        } else {
            Event::Down(index)
        });
    }
}

impl Watched {
    fn see(&mut self, has_link: bool, now: Instant) {
        if has_link {
            self.seen_since.get_or_insert(now);
        } else {
            self.seen_since = None;
        }
        if self.is_usable(now) {
            self.settles_until = None;
        }
    }

    fn is_usable(&self, now: Instant) -> bool {
        let has_held = |since| self.is_up || now.saturating_duration_since(since) >= UP_HOLD;
        !self.is_lowered && self.seen_since.is_some_and(has_held)
    }

    /// Whether its own link is lost, and not only settling.
    fn is_lost(&self, now: Instant) -> bool {
        let has_settled = self.settles_until.is_none_or(|until| now >= until);
        !self.is_up && !self.is_lowered && has_settled
    }
}

#[cfg(test)]
mod tests {
    use super::Event::{Down, Lower, Raise, Up};
    use super::*;

    /// Links as a test sets them, looked at every 100 ms.
    struct Bench {
        watch: LinkWatch,
        links: Vec<bool>,
        now: Instant,
    }

    impl Bench {
        fn new(partners: &[Option<usize>]) -> Self {
            let mut watch = LinkWatch::new();
            let now = Instant::now();
            for (index, &partner) in partners.iter().enumerate() {
                watch.watch(index, partner, now);
            }
            Self {
                watch,
                links: vec![true; partners.len()],
                now,
            }
        }

        /// What happens within `ms`. A link that is lowered is not there.
        fn pass(&mut self, ms: u64) -> Vec<Event> {
            let mut events = Vec::new();
            for _ in 0..ms / 100 {
                self.now += Duration::from_millis(100);
                let lowered: Vec<usize> = self.watch.lowered().collect();
                let links = &self.links;
                let has_link = |index: usize| links[index] && !lowered.contains(&index);
                self.watch.look(self.now, has_link, &mut events);
            }
            events
        }
    }

    #[test]
    fn a_loss_shows_at_once_and_a_return_when_it_holds() {
        let mut bench = Bench::new(&[None, None]);
        assert_eq!(bench.pass(1000), []);
        bench.links[1] = false;
        assert_eq!(bench.pass(100), [Down(1)]);
        assert!(bench.watch.is_up(0) && !bench.watch.is_up(1));
        // It flaps: never there for long enough.
        for _ in 0..10 {
            bench.links[1] = !bench.links[1];
            assert_eq!(bench.pass(200), []);
        }
        bench.links[1] = true;
        assert_eq!(bench.pass(300), []);
        assert_eq!(bench.pass(100), [Up(1)]);
        assert_eq!((bench.watch.flaps(0), bench.watch.flaps(1)), (0, 1));
        assert!(
            bench.watch.is_up(9),
            "what is not watched is not in the way"
        );
    }

    #[test]
    fn a_loss_is_passed_on_and_taken_back() {
        let mut bench = Bench::new(&[Some(1), Some(0), None]);
        assert_eq!(bench.pass(1000), []);
        bench.links[0] = false;
        assert_eq!(bench.pass(100), [Down(0), Down(1), Lower(1)]);
        assert!(bench.watch.lowered().eq([1]));
        assert_eq!(bench.pass(10_000), []);
        bench.links[0] = true;
        assert_eq!(bench.pass(400), [Up(0), Raise(1)]);
        assert_eq!(bench.pass(400), [Up(1)]);
        assert_eq!(bench.watch.lowered().count(), 0);
    }

    #[test]
    fn a_partner_that_died_meanwhile_shows_when_it_is_let_up() {
        let mut bench = Bench::new(&[Some(1), Some(0)]);
        bench.pass(1000);
        bench.links[0] = false;
        bench.pass(100);
        bench.links = vec![true, false];
        assert_eq!(bench.pass(400), [Up(0), Raise(1)]);
        assert_eq!(bench.pass(3500), [], "it may be negotiating");
        assert_eq!(bench.pass(500), [Down(0), Lower(0)]);
        bench.links[1] = true;
        assert_eq!(bench.pass(1000), [Up(1), Raise(0), Up(0)]);
    }

    #[test]
    fn links_that_are_missing_at_the_start_get_time() {
        let mut bench = Bench::new(&[Some(1), Some(0)]);
        bench.links = vec![false, false];
        assert_eq!(bench.pass(2000), [Down(0), Down(1)]);
        bench.links = vec![true, true];
        assert_eq!(bench.pass(400), [Up(0), Up(1)]);
        assert_eq!(bench.watch.flaps(0), 0, "it was never up");
    }

    #[test]
    fn what_a_killed_switch_took_down_is_let_up_and_is_no_lost_link() {
        let mut bench = Bench::new(&[Some(1), Some(0)]);
        bench.watch.watch_lowered(1, Some(0), bench.now);
        assert!(!bench.watch.is_up(1));
        assert_eq!(bench.pass(400), [Raise(1)]);
        assert_eq!(bench.pass(400), [Up(1)]);
        // The loss that it was taken down for is still there.
        let mut bench = Bench::new(&[Some(1), Some(0)]);
        bench.watch.watch_lowered(1, Some(0), bench.now);
        bench.links[0] = false;
        assert_eq!(bench.pass(1_000), [Down(0), Raise(1), Up(1)]);
        assert_eq!(bench.pass(5_000), [Down(1), Lower(1)]);
        assert_eq!(bench.watch.flaps(0), 0);
    }

    #[test]
    fn a_port_that_goes_while_it_is_lowered_is_let_up() {
        let mut bench = Bench::new(&[Some(1), Some(0)]);
        bench.pass(1000);
        bench.links[0] = false;
        bench.pass(100);
        assert!(!bench.watch.forget(0, bench.now));
        assert!(bench.watch.forget(1, bench.now));
        assert!(!bench.watch.forget(1, bench.now));
        assert!(!bench.watch.forget(9, bench.now));
        assert_eq!(bench.watch.lowered().count(), 0);
    }

    #[test]
    fn a_pair_that_is_parted_is_let_up() {
        let mut bench = Bench::new(&[Some(1), Some(0)]);
        bench.pass(1000);
        bench.links[0] = false;
        bench.pass(1000);
        bench.watch.join(0, None);
        bench.watch.join(1, None);
        assert_eq!(bench.pass(600), [Raise(1), Up(1)]);
    }
}
