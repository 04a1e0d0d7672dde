use super::*;

fn packets(delays_ns: &[Option<&str>]) -> Vec<Packet> {
    let lines = delays_ns.iter().enumerate();
    let lines = lines.map(|(n, delay)| format!("{n},0,{}", delay.unwrap_or_default()));
    let text = lines.fold("packet_id,send_ns,recv_ns".to_owned(), |text, line| {
        text + "\n" + &line
    });
    read("-", text.as_bytes(), 7).unwrap()
}

fn layout(rows: u32) -> LdaLayout {
    let probability = 1.0;
    LdaLayout::new(&[Bank { rows, probability }]).unwrap()
}

#[test]
fn picoseconds_count() {
    let packets = packets(&[Some("1.25"), Some("2.5"), Some("-0.75"), Some("1")]);
    let estimate = estimate(&layout(64), &packets).unwrap();
    assert_eq!(estimate.mean_ns, Some(1.0));
    assert_eq!(estimate.true_mean_ns, Some(1.0));
    assert_eq!(
        (estimate.ci98_low_ns, estimate.ci98_high_ns),
        (Some(1.0), Some(1.0))
    );
    // Squares of .25, 1.5, 1.75 and 0, over 4.
    assert!((estimate.true_stddev_ns.unwrap() - (5.375_f64 / 4.0).sqrt()).abs() < 1e-12);
    assert_eq!((estimate.sent, estimate.received), (4, 4));
}

#[test]
fn great_delays_are_counted_in_nanoseconds_or_refused() {
    let hour = "3600000000000000.4";
    let estimate_of = |delays: &[Option<&str>]| estimate(&layout(1), &packets(delays));
    let estimate = estimate_of(&[Some(hour); 4]).unwrap();
    assert_eq!(estimate.mean_ns, Some(3.6e15));
    let error = estimate_of(&[Some("9e18"); 2]).unwrap_err();
    assert!(error.to_string().contains("the same origin"), "{error}");
}

#[test]
fn losses_are_estimated() {
    let estimate = estimate(&layout(1), &packets(&[Some("5"), None])).unwrap();
    let expected = Findings {
        sent: 2,
        received: 1,
        lost_estimate: 1.0,
        true_mean_ns: Some(5.0),
        true_stddev_ns: Some(0.0),
        ..Findings::default()
    };
    assert_eq!(estimate, expected);
}

#[test]
fn no_packets_no_figures() {
    assert_eq!(estimate(&layout(8), &[]).unwrap(), Findings::default());
}

#[test]
fn ids_are_hashed_by_the_seed() {
    // SipHash-2-4 of nothing under the key 0.
    assert_eq!(hash_of(b"", 0), PacketHash(0x1e92_4b9d_7377_00d7));
    assert_ne!(hash_of(b"1", 0), hash_of(b"1", 1));
}
