//! CSV files of sketches, flows and packets.

use accuracy::interchange::{
    FlowList, LinkPacket, PairRecord, read_cells, read_flows, read_link, read_pairs, read_weights,
    write_cells, write_flows,
};

/// The first byte selects the kind of file that the other bytes are.
pub fn csv(bytes: &[u8]) {
    let Some((&choice, file)) = bytes.split_first() else {
        return;
    };
    match choice {
        b'c' => cells(file),
        b'f' => flows(file),
        b'w' => weights(file),
        b'p' => drop(read_pairs("pairs.csv", file, |_: PairRecord<'_>| {})),
        b'l' => drop(read_link("link.csv", file, |_: LinkPacket<'_>| {})),
        _ => {}
    }
}

/// Data that were read are the same after writing and reading them again.
fn cells(file: &[u8]) {
    let Ok(read) = read_cells("cells.csv", file) else {
        return;
    };
    let cells = || read.iter().map(|&(_, cell)| cell);
    for cell in cells() {
        let _ = cell.delays();
    }
    let mut out = Vec::new();
    write_cells(&mut out, cells()).unwrap();
    let again = read_cells("cells.csv", out.as_slice()).unwrap();
    assert!(again.iter().map(|&(_, cell)| cell).eq(cells()));
}

/// Lists have the same length, no number is NaN, and data that were read are the same after writing and reading them
/// again.
fn flows(file: &[u8]) {
    let Ok(flows) = read_flows("flows.csv", file) else {
        return;
    };
    check(&flows);
    let once = written(&flows);
    let again = read_flows("flows.csv", once.as_slice()).unwrap();
    assert_eq!(written(&again), once);
}

fn check(flows: &FlowList) {
    let count = flows.names.len();
    assert_eq!(flows.columns.len(), count * flows.rows);
    for list in [&flows.packets, &flows.rli_mean_ns, &flows.true_mean_ns] {
        assert_eq!(list.len(), count);
        assert!(!list.iter().any(|number| number.is_infinite()));
    }
}

fn written(flows: &FlowList) -> Vec<u8> {
    let mut out = Vec::new();
    write_flows(&mut out, flows).unwrap();
    out
}

/// Every flow has a weight over 0.
fn weights(file: &[u8]) {
    let flows = FlowList {
        names: ["a", "b", "c"].map(str::to_owned).to_vec(),
        ..FlowList::default()
    };
    if let Ok(weights) = read_weights("weights.csv", file, &flows) {
        assert_eq!(weights.len(), 3);
        assert!(
            weights
                .iter()
                .all(|&weight| weight > 0.0 && weight.is_finite())
        );
    }
}
