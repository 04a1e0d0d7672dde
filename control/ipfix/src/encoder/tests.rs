use proptest::prelude::*;

use super::*;
use crate::element::{Element, Kind};
use crate::reader::{Collector, number};

/// Whether an element is our own, its id, a value.
type Field = ((bool, u16), Vec<u8>);

/// A record of the elements that `chosen` names, with the values that are wanted of a reader.
fn record(chosen: u64, scopes: u16, seed: u64) -> (Record, Vec<Field>) {
    let mut record = Record::of_options(scopes);
    let mut values = Vec::new();
    for (n, &element) in Element::ALL.iter().enumerate() {
        let known = element.description();
        if chosen >> n & 1 == 0 {
            continue;
        }
        let mut value = vec![seed.to_le_bytes()[n % 8]; element.length().into()];
        if known.kind == Kind::String {
            let text = seed.to_string();
            record.text(element, &text);
            value.fill(0);
            let shown = text.len().min(value.len());
            value[..shown].copy_from_slice(&text.as_bytes()[..shown]);
        } else {
            record.octets(element, &value);
        }
        values.push(((known.is_own, known.id), value));
    }
    (record, values)
}

proptest! {
    /// Whatever is pushed, and whenever templates are due again.
    #[test]
    fn what_was_pushed_is_read_back_from_messages_within_the_limit(
        pushed in prop::collection::vec((0_usize..4, any::<u64>(), prop::bool::weighted(0.1)), 1..200),
        shapes in prop::array::uniform4(1_u64..1 << 50),
        message_bytes in 1_400_u16..9_000,
        observation_domain in any::<u32>(),
        enterprise in 1_u32..,
    ) {
        let settings = Ipfix { message_bytes, observation_domain, enterprise, ..Ipfix::to("") };
        let mut encoder = Encoder::new(&settings);
        let (mut messages, mut wanted) = (Vec::new(), Vec::new());
        for (shape, seed, again) in pushed {
            if again {
                encoder.announce_again();
            }
            let (record, values) = record(shapes[shape], u16::from(shape == 0), seed);
            messages.extend(encoder.push(&record, 7));
            wanted.push(values);
        }
        messages.extend(encoder.finish(7));
        prop_assert_eq!(encoder.finish(7), None);
        let mut collector = Collector::default();
        for message in &messages {
            prop_assert!(message.bytes.len() <= message_bytes.into());
            prop_assert!(collector.read(&message.bytes).is_empty());
            prop_assert_eq!(collector.domain, observation_domain);
        }
        let counted: u32 = messages.iter().map(|message| message.records).sum();
        prop_assert_eq!((counted as usize, collector.unknown), (wanted.len(), 0));
        prop_assert_eq!(collector.records.len(), wanted.len());
        for (record, wanted) in collector.records.iter().zip(wanted) {
            prop_assert_eq!(record.len(), wanted.len());
            for ((is_own, id), value) in wanted {
                prop_assert_eq!(&record[&(if is_own { enterprise } else { 0 }, id)], &value);
            }
        }
    }
}

#[test]
fn a_new_connection_begins_anew() {
    let mut encoder = Encoder::new(&Ipfix::to(""));
    let mut record = Record::default();
    record.number(Element::PacketDeltaCount, 5_u64);
    for unsent in [0, 1, 2] {
        let mut collector = Collector::default();
        assert_eq!(encoder.restart(), unsent);
        assert_eq!(encoder.push(&record, 0), None);
        collector.read(&encoder.finish(0).unwrap().bytes);
        assert_eq!(number(&collector.records[0], 0, 2), Some(5));
        for _ in 0..=unsent {
            assert_eq!(encoder.push(&record, 0), None);
        }
    }
}

#[test]
fn a_template_is_as_in_the_standard() {
    // RFC 7011, section 3.4.1, with a field of an enterprise.
    let mut record = Record::default();
    record.octets(Element::SourceIpv4Address, &[192, 0, 2, 1]);
    record.number(Element::DelayMean, 7_u64);
    let template = record.shape.template(256, 32_473);
    let wanted = [1, 0, 0, 2, 0, 8, 0, 4, 0x80, 6, 0, 8, 0, 0, 0x7e, 0xd9];
    assert_eq!(template, wanted);
    assert_eq!(record.bytes, [192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 7]);
}
