//! Why a path is as it is.

use locate::{BOUND_ERRORS, Estimate, Explanation, Finding, Hop, Mean, Member, explain};
use records::station::{self, Joined, PathAnswer, Paths};
use records::station::{
    BlameCause, BlamedHop, Level, MeasuringFault, PathBlame, PathBlames, UncoveredHop,
};
use report::msp::Kind;

use super::{Blamer, Place, faults, seconds, with_class};
use crate::found::{ms, signal_label};
use crate::path::label;

impl<'s> Blamer<'s> {
    /// Each path by itself.
    pub fn paths(&self, paths: &Paths) -> PathBlames {
        PathBlames {
            from: paths.from.clone(),
            to: paths.to.clone(),
            is_cut: paths.is_cut,
            paths: paths.paths.iter().map(|path| self.path(path)).collect(),
        }
    }

    fn path(&self, path: &PathAnswer) -> PathBlame {
        let hops: Vec<Hop> = path.chain.iter().map(|hop| self.hop(hop)).collect();
        let end_to_end = self.end_to_end(path);
        let now_ms = ms(self.now_unix_ns);
        let whole = end_to_end.as_ref().map(|(_, finding)| finding);
        let explanation = explain(&hops, whole, now_ms);
        let mut measuring: Vec<MeasuringFault> =
            explanation.faults.iter().map(faults::of_segment).collect();
        measuring.extend(path.chain.iter().filter_map(|hop| self.session_of(hop)));
        let measured = path.chain.iter().zip(&hops);
        let measured = measured.filter(|(_, hop)| matches!(hop, Hop::Measured { .. }));
        let chain = measured
            .zip(&explanation.segments)
            .map(|((hop, _), state)| BlamedHop {
                title: hop.title.clone(),
                kind: hop.kind.clone(),
                level: state.estimate.map(level),
                stddev_ns: state.deviation_ns,
                p99_ns: state.p99_ns,
                age_s: state.age_ms.map(seconds),
                is_ready: state.is_ready,
            });
        PathBlame {
            switches: path.switches.clone(),
            chain: chain.collect(),
            sum: explanation.sum.map(level),
            end_to_end: end_to_end.map(|(place, finding)| self.blamed(place, &finding)),
            difference_ns: explanation.difference_ns,
            difference_bound_ns: explanation.difference_bound_ns,
            is_difference_explained: explanation.is_difference_explained,
            causes: causes(&explanation),
            unexplained_share: explanation.unexplained_share,
            unexplained_loss_share: explanation.unexplained_loss_share,
            faults: measuring,
            uncovered: uncovered(&explanation),
        }
    }

    fn hop(&self, hop: &station::Hop) -> Hop {
        let name = hop.title.clone();
        if hop.joined.is_empty() {
            let cover = hop.hint.iter().cloned().collect();
            return Hop::Uncovered { name, cover };
        }
        let is_one = hop.joined.len() == 1;
        let members = hop.joined.iter().map(|joined| {
            let place = self.joined(&hop.kind, joined);
            Member {
                segment: match place {
                    Some(place) if !is_one => self.title(place),
                    _ => with_class(name.clone(), &joined.class),
                },
                weight: joined.packets as f64,
                finding: place.map(|place| self.one_way(place)),
            }
        });
        let members = members.collect();
        Hop::Measured { name, members }
    }

    /// What is known of one direction: of a round trip it is between none of it and all, by half of it.
    fn one_way(&self, place: Place<'s>) -> Finding {
        let mut finding = self.finding(place);
        if place.kind() == Kind::RoundTrip {
            let halve = |mean: Mean| Mean {
                value: mean.value / 2.0,
                error: f64::midpoint(mean.value / BOUND_ERRORS, mean.error),
            };
            finding.present_ns = finding.present_ns.map(halve);
            finding.usual_ns = finding.usual_ns.map(|usual| usual / 2.0);
            (finding.deviation_ns, finding.p99_ns) = (None, None);
        }
        finding
    }

    fn joined(&self, kind: &str, joined: &Joined) -> Option<Place<'s>> {
        let Joined {
            switch,
            from,
            to,
            class,
            ..
        } = joined;
        self.place(kind, [switch, from, to, class])
    }

    /// What was measured from end to end: by a probe, or by a wire over several links. The first that has a delay now.
    fn end_to_end(&self, path: &PathAnswer) -> Option<(Place<'s>, Finding)> {
        let probes = path.end_to_end.iter().filter_map(|probe| {
            let joined = Joined {
                switch: probe.switch.clone(),
                from: probe.from.clone(),
                to: probe.to.clone(),
                class: probe.class.clone(),
                packets: 0,
            };
            self.joined(&probe.kind, &joined)
        });
        let ends = path.switches.first().zip(path.switches.last());
        let wires = ends
            .filter(|_| path.switches.len() > 2)
            .into_iter()
            .flat_map(|(first, last)| {
                self.places().filter(move |&place| {
                    let peer = || self.peer(place.state, place.port());
                    place.kind() == Kind::Wire
                        && !place.is_outgoing()
                        && place.state.switch == *last
                        && peer().is_some_and(|(peer, _)| peer.switch == *first)
                })
            });
        let found = probes
            .chain(wires)
            .map(|place| (place, self.finding(place)));
        found
            .into_iter()
            .find(|(_, finding)| finding.estimate().is_some())
    }

    fn blamed(&self, place: Place<'s>, finding: &Finding) -> BlamedHop {
        let age_ms = ms(self.now_unix_ns).saturating_sub(finding.time_ms);
        BlamedHop {
            title: self.title(place),
            kind: label(place.kind()).to_owned(),
            level: finding.estimate().map(level),
            stddev_ns: finding.deviation_ns,
            p99_ns: finding.p99_ns,
            age_s: Some(seconds(age_ms)),
            is_ready: finding.is_ready,
        }
    }

    fn session_of(&self, hop: &station::Hop) -> Option<MeasuringFault> {
        let joined = hop.joined.first().filter(|_| hop.kind == "wire")?;
        let place = self.joined(&hop.kind, joined)?;
        self.session_at(place.state, place.port())
    }
}

fn level(estimate: Estimate) -> Level {
    Level {
        mean_ns: estimate.mean_ns,
        bound_ns: estimate.bound_ns,
        usual_ns: estimate.usual_ns,
        loss: estimate.loss,
        loss_bound: estimate.loss_bound,
        usual_loss: estimate.usual_loss,
    }
}

fn causes(explanation: &Explanation) -> Vec<BlameCause> {
    let causes = explanation.causes.iter();
    let causes = causes.map(|cause| BlameCause {
        title: cause.segment.clone(),
        signal: signal_label(cause.signal).to_owned(),
        share_percent: cause.share * 100.0,
        rise: cause.rise,
        confidence: cause.confidence,
        since_unix_s: seconds(cause.since_ms),
    });
    causes.collect()
}

fn uncovered(explanation: &Explanation) -> Vec<UncoveredHop> {
    let uncovered = explanation.uncovered.iter();
    let uncovered = uncovered.map(|part| UncoveredHop {
        title: part.name.clone(),
        cover: part.cover.join("; "),
        is_suspect: part.is_suspect,
    });
    uncovered.collect()
}
