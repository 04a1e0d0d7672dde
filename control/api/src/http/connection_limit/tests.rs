use std::thread::sleep;
use std::time::Duration;

use super::*;

const HALF: usize = CONNECTIONS_MAX / 2;

fn is_cut_off(cut_off: &mut CutOff) -> bool {
    cut_off.try_recv() == Err(oneshot::error::TryRecvError::Closed)
}

/// As many connections as one half has slots.
fn half(limit: &ConnectionLimit, has_asked: bool) -> Vec<(Slot, CutOff)> {
    let admit = |_| {
        let entry = limit.admit();
        if has_asked {
            entry.0.asked();
        }
        entry
    };
    (0..HALF).map(admit).collect()
}

fn cut_off(connections: &mut [(Slot, CutOff)]) -> Vec<usize> {
    let connections = connections.iter_mut().enumerate();
    let gone = connections.filter_map(|(n, (_, cut_off))| is_cut_off(cut_off).then_some(n));
    gone.collect()
}

#[test]
fn the_connection_longest_without_progress_makes_room() {
    let limit = ConnectionLimit::default();
    let mut connections = half(&limit, true);
    // The first has read since, and the second has asked again, so that the third is the one.
    sleep(Duration::from_millis(2));
    connections[0].0.took();
    connections[1].0.asked();
    let (newcomer, mut is_newcomer_out) = limit.admit();
    assert_eq!(cut_off(&mut connections), [0; 0]);
    newcomer.asked();
    assert_eq!(cut_off(&mut connections), [2]);
    assert!(!is_cut_off(&mut is_newcomer_out));
}

#[test]
fn silent_connections_cut_off_only_silent_ones() {
    let limit = ConnectionLimit::default();
    let mut readers = half(&limit, true);
    sleep(Duration::from_millis(2));
    let mut silent = half(&limit, false);
    for newcomer in 0..HALF {
        silent.push(limit.admit());
        let expected: Vec<_> = (0..=newcomer).collect();
        assert_eq!(cut_off(&mut silent), expected);
    }
    assert_eq!(cut_off(&mut readers), [0; 0]);
    assert_eq!(limit.0.lock().taken.len(), CONNECTIONS_MAX);
}

#[test]
fn a_free_slot_cuts_off_no_connection() {
    let limit = ConnectionLimit::default();
    for has_asked in [false, true] {
        let mut connections = half(&limit, has_asked);
        drop(connections.pop());
        connections.push(limit.admit());
        assert_eq!(cut_off(&mut connections), [0; 0]);
    }
    assert!(limit.0.lock().taken.is_empty());
}

#[test]
fn a_request_is_expected_until_it_is_complete() {
    let limit = ConnectionLimit::default();
    let (slot, _cut_off) = limit.admit();
    assert!(slot.is_asking());
    slot.asked();
    assert!(!slot.is_asking());
    slot.heard();
    assert!(slot.is_asking());
}
