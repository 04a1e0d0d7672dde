//! Flows with counters of their own: selection and slots.

use contract::config::FlowSelection;
use contract::counters::FlowTableCounters;
use contract::handover::{FlowCommand, NewFlow, WorkerEnd};
use measure::flows::{FlowId, FlowTable, Slot, Untracked};
use measure::observation::{Observation, SegmentIndex};
use measure::packet::{FlowHash, FlowKey, Hasher};

use crate::packet_io::NO_SEGMENT;

/// Most commands of the control core applied at a time, which bounds the work.
const COMMANDS_MAX: usize = 16;

/// The flows that one worker tracks.
#[derive(Debug)]
pub struct Flows {
    table: FlowTable,
    selection: FlowSelection,
    /// [`FlowSelection::sampled_below`].
    sampled_below: u64,
    /// Hasher for checking headers before a flow is tracked by them.
    verifier: Option<Hasher>,
    /// Packets that tables of earlier generations could not track.
    untracked_before: Untracked,
}

impl Flows {
    /// Makes room for `slots` flows selected by `selection`. Only the control core knows which flows are the top
    /// ones; a worker tracks all of them while it has slots.
    pub fn new(slots: usize, selection: FlowSelection) -> Self {
        Self {
            table: FlowTable::new(slots),
            sampled_below: selection.sampled_below(),
            selection,
            verifier: None,
            untracked_before: Untracked::default(),
        }
    }

    /// For headers that may have been rewritten since they were hashed: a flow is tracked only if they
    /// still have its hash.
    #[must_use]
    pub fn verified_by(self, hasher: Hasher) -> Self {
        Self {
            verifier: Some(hasher),
            ..self
        }
    }

    /// Continues the totals of the table that this one replaces.
    pub fn succeed(&mut self, old: &Self) {
        let (before, own) = (old.untracked_before, old.table.untracked());
        self.untracked_before = Untracked {
            without_free_slot: before.without_free_slot + own.without_free_slot,
            without_place: before.without_place + own.without_place,
            unreported: before.unreported + own.unreported,
        };
    }

    /// Prefetches the table's entry of a packet's flow, well before it is looked up.
    #[inline]
    pub fn prefetch(&self, flow: FlowId) {
        self.table.prefetch(flow);
    }

    /// Looks up the flows of packets of a segment; `head` returns their headers. New ones are reported to
    /// the control core.
    #[inline]
    pub fn look_up<'h>(
        &mut self,
        (segment, flows): (SegmentIndex, &[FlowHash]),
        slots: &mut [Slot],
        control: &mut WorkerEnd,
        head: impl Fn(usize) -> &'h [u8],
    ) {
        let Self {
            table,
            selection,
            sampled_below,
            verifier,
            ..
        } = self;
        let is_selected = |n: usize| {
            segment != NO_SEGMENT
                && flows.get(n).is_some_and(|&flow| match &*selection {
                    FlowSelection::All | FlowSelection::Top => true,
                    FlowSelection::Sampled(_) => flow.0 >> 32 < *sampled_below,
                    FlowSelection::Rules(rules) => {
                        let key = FlowKey::parse(head(n));
                        rules.iter().any(|rule| rule.selects(&key))
                    }
                })
        };
        let report = |new: measure::flows::NewFlow| {
            let key = FlowKey::parse(head(new.position));
            let flow = flows.get(new.position);
            let mut verifiers = verifier.iter();
            verifiers.all(|hasher| Some(&hasher.flow_hash(&key)) == flow)
                && control.report_flow(NewFlow {
                    id: new.id,
                    slot: new.slot,
                    key,
                    segment,
                })
        };
        let ids = flows.iter().map(|&flow| FlowId::new(flow, segment));
        table.look_up(ids, slots, is_selected, report);
    }

    /// The slot of a packet's flow, if any.
    pub fn slot_of(&self, observation: &Observation) -> Slot {
        self.table
            .slot_of(FlowId::of(observation))
            .unwrap_or(Slot::OTHER)
    }

    /// Publishes how full the table is.
    pub fn show(&self, counters: &FlowTableCounters) {
        counters.set(&self.table, self.untracked_before);
    }

    /// Forgets flows and takes slots back as commanded by the control core, a bounded number.
    pub fn apply_commands(&mut self, control: &mut WorkerEnd) {
        for _ in 0..COMMANDS_MAX {
            match control.next_command() {
                None => return,
                Some(FlowCommand::Forget(id)) => {
                    self.table.forget(id);
                }
                Some(FlowCommand::Give(slot)) => {
                    // Only fails for a misplaced command: the slot stays as it is.
                    let _ = self.table.give(slot);
                }
            }
        }
    }
}
