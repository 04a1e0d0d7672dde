//! Finds the segments that contain the place of a fault, and judges the blamed segments.

use records::station::Risen;

use crate::mplane::fault::Place;
use crate::mplane::network::{Plan, is_m_router};
use crate::mplane::switches::inner_port;

/// Relation of a segment to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// It is elsewhere.
    Innocent,
    /// It contains the place and more: a virtual link, or a probe that ends in the router.
    Wider,
    /// No shorter segment contains the place.
    Narrowest,
}

/// Relation of a segment to a place, in a network with the m-sets of a plan.
pub fn relation(risen: &Risen, place: Place, plan: &Plan) -> Relation {
    let (from, to) = (risen.from.as_str(), risen.to.as_str());
    match (risen.kind.as_str(), place) {
        ("wire", Place::Link(one, other)) if is_m_router(one) && is_m_router(other) => {
            Relation::Narrowest
        }
        ("around", Place::Port(router, neighbour)) => {
            let leaves = to.split_once(':').map(|(_, port)| port) == Some(&inner_port(neighbour));
            if risen.switch == router && leaves {
                Relation::Narrowest
            } else {
                Relation::Innocent
            }
        }
        ("probe" | "round_trip", place) => probed(from, to, place, plan),
        _ => Relation::Innocent,
    }
}

/// Ignore the direction: probes may be lost in either direction, and the round trip includes both.
fn probed(from: &str, to: &str, place: Place, plan: &Plan) -> Relation {
    let ways = [(from, to), (to, from)].map(|(of, member)| {
        let ways = plan.ways(of).into_iter();
        ways.filter(move |way| way.last().is_some_and(|last| last == member))
    });
    let relation = |way: Vec<String>| {
        let is_hop = |hop: &[String], one: &str, other: &str| {
            (hop[0] == one && hop[1] == other) || (hop[0] == other && hop[1] == one)
        };
        match place {
            Place::Link(one, other) => {
                if !way.windows(2).any(|hop| is_hop(hop, one, other)) {
                    Relation::Innocent
                } else if way.len() == 2 {
                    Relation::Narrowest
                } else {
                    Relation::Wider
                }
            }
            // Probes that begin or end in the router, behind its port.
            Place::Port(router, neighbour) => {
                let mut ends = [way.get(..2), way.get(way.len() - 2..)]
                    .into_iter()
                    .flatten();
                if ends.any(|hop| is_hop(hop, router, neighbour)) {
                    Relation::Wider
                } else {
                    Relation::Innocent
                }
            }
        }
    };
    let relations = ways.into_iter().flatten().map(relation);
    relations.max().unwrap_or(Relation::Innocent)
}

/// A blamed segment.
#[derive(Debug, Clone)]
pub struct Blamed {
    pub risen: Risen,
    pub relation: Relation,
    /// Its reports, with intervals that began after the fault, until the station named it.
    pub reports: f64,
}

impl Blamed {
    /// Size of the rise in nanoseconds; a share of lost packets counts as the same share of a second, as in the
    /// station's order.
    fn weight_ns(&self) -> f64 {
        let unit = if self.risen.signal == "loss" {
            1e9
        } else {
            1.0
        };
        self.risen.rise * unit
    }
}

/// Verdict on a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The narrowest segment was blamed in time, and no other segment with a significant rise.
    Right,
    /// The narrowest segment was blamed, but too late.
    Late,
    /// A segment elsewhere was blamed, or only a wider one.
    Wrong,
    /// Nothing was blamed.
    Missed,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Late => "late",
            Self::Wrong => "wrong",
            Self::Missed => "missed",
        }
    }
}

/// A rise elsewhere below this part of the worst is a side effect, because on two CPUs the box itself takes some
/// microseconds.
const SIDE_EFFECT: f64 = 0.02;

/// Judges the segments blamed during a fault.
pub fn judge(blamed: &[Blamed], reports_max: f64) -> Verdict {
    let narrowest = (blamed.iter())
        .filter(|segment| segment.relation == Relation::Narrowest)
        .map(|segment| segment.reports)
        .reduce(f64::min);
    let worst_ns = blamed.iter().map(Blamed::weight_ns).fold(0.0, f64::max);
    let is_elsewhere = blamed.iter().any(|segment| {
        segment.relation == Relation::Innocent && segment.weight_ns() > SIDE_EFFECT * worst_ns
    });
    match narrowest {
        _ if blamed.is_empty() => Verdict::Missed,
        Some(reports) if !is_elsewhere && reports <= reports_max => Verdict::Right,
        Some(_) if !is_elsewhere => Verdict::Late,
        _ => Verdict::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use testkit::frr::TOY;

    use super::*;

    fn risen(kind: &str, switch: &str, from: &str, to: &str) -> Risen {
        Risen {
            kind: kind.to_owned(),
            switch: switch.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            ..Risen::default()
        }
    }

    fn plan(without: Option<(&str, &str)>) -> Plan {
        let links = TOY.iter().copied();
        Plan::of(links.filter(|link| Some((link.0, link.1)) != without)).unwrap()
    }

    /// Relation of a probe to a place.
    fn of_probe(from: &str, to: &str, place: Place, plan: &Plan) -> Relation {
        relation(&risen("probe", "", from, to), place, plan)
    }

    #[test]
    fn a_probe_has_the_links_of_its_way() {
        let whole = plan(None);
        for (from, to, one, other, expected) in [
            ("A", "F", "A", "F", Relation::Narrowest),
            ("F", "A", "A", "F", Relation::Narrowest),
            ("B", "F", "A", "F", Relation::Innocent),
            // Virtual links: C to E through D, F to D by its second way.
            ("C", "E", "D", "E", Relation::Wider),
            ("E", "C", "C", "D", Relation::Wider),
            ("F", "D", "E", "F", Relation::Wider),
            ("F", "D", "C", "D", Relation::Innocent),
        ] {
            let found = of_probe(from, to, Place::Link(one, other), &whole);
            assert_eq!(found, expected, "{from}-{to}, {one}-{other}");
        }
        let cut = plan(Some(("A", "F")));
        let of_virtual = risen("round_trip", "", "A", "F");
        let found = relation(&of_virtual, Place::Link("A", "B"), &cut);
        assert_eq!(found, Relation::Wider);
    }

    #[test]
    fn around_a_router_counts_where_packets_leave() {
        let whole = plan(None);
        let place = Place::Port("F", "E");
        for (switch, to, expected) in [
            ("F", "router:E.router", Relation::Narrowest),
            ("F", "router:B.router", Relation::Innocent),
            ("C", "router:E.router", Relation::Innocent),
        ] {
            let of = risen("around", switch, "router:A.router", to);
            assert_eq!(relation(&of, place, &whole), expected, "{switch}, {to}");
        }
        // Probes behind the port.
        for (from, to, expected) in [
            ("E", "F", Relation::Wider),
            ("F", "D", Relation::Wider),
            ("F", "A", Relation::Innocent),
        ] {
            assert_eq!(of_probe(from, to, place, &whole), expected, "{from}-{to}");
        }
        let wire = risen("wire", "C", "F:peer", "F");
        let found = [Place::Link("C", "F"), place].map(|place| relation(&wire, place, &whole));
        assert_eq!(found, [Relation::Narrowest, Relation::Innocent]);
    }

    #[test]
    fn only_the_narrowest_in_time_and_nothing_elsewhere_is_right() {
        let blamed = |relation, reports| Blamed {
            risen: Risen {
                rise: 1.0,
                ..Risen::default()
            },
            relation,
            reports,
        };
        let narrowest = blamed(Relation::Narrowest, 3.0);
        let of = |blamed: &[Blamed]| judge(blamed, 3.0);
        assert_eq!(of(&[]), Verdict::Missed);
        assert_eq!(
            of(&[blamed(Relation::Wider, 2.0), narrowest.clone()]),
            Verdict::Right
        );
        assert_eq!(of(&[blamed(Relation::Narrowest, 4.0)]), Verdict::Late);
        assert_eq!(of(&[blamed(Relation::Wider, 2.0)]), Verdict::Wrong);
        assert_eq!(
            of(&[narrowest, blamed(Relation::Innocent, 9.0)]),
            Verdict::Wrong
        );
    }
}
