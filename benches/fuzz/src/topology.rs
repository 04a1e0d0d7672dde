//! Topologies: files, and messages of ospfd's API.

use topology::ospf::api::{self, Answer};
use topology::ospf::database::{Database, Names};
use topology::read::{self, Format};
use topology::{Record, Topology};

/// The first byte selects what the other bytes are.
pub fn topology(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else {
        return;
    };
    match choice {
        b'j' => file(bytes, Format::Json),
        b'r' => file(bytes, Format::Rocketfuel),
        b'g' => file(bytes, Format::Gml),
        b'o' => ospf(bytes),
        _ => {}
    }
}

fn file(bytes: &[u8], format: Format) {
    if let Ok(topology) = read::bytes(bytes, "fuzzed", format) {
        is_read_again(&topology);
    }
}

/// A network that was read is the same after writing and reading it again.
fn is_read_again(topology: &Topology) {
    let record = Record::of(topology);
    let text = serde_json::to_vec(&record).unwrap();
    let again = read::bytes(&text, "written", Format::Json).unwrap();
    assert_eq!(Record::of(&again), record);
}

/// Every unreadable message is skipped, so that a reader reaches the end; its LSAs describe a network.
fn ospf(bytes: &[u8]) {
    let (mut received, mut database) = (bytes.to_vec(), Database::default());
    loop {
        let before = received.len();
        match api::next(&mut received) {
            Ok(Some(Answer::Changed(change))) => drop(database.apply(change)),
            Ok(None) | Err(api::MessageError::Version(_)) => break,
            Ok(Some(_)) | Err(_) => {}
        }
        assert!(received.len() < before);
    }
    if let Ok(view) = database.view(&Names::default()) {
        assert_eq!(view.ids.len(), view.topology.routers().len());
        is_read_again(&view.topology);
    }
}
