//! Frames that must be rejected.

use std::collections::HashSet;

use super::golden::frames;
use super::*;

#[test]
fn every_truncation_is_refused() {
    for frame in frames() {
        for length in 0..frame.len() {
            let (_, mut verifier) = pair();
            assert_eq!(verifier.open(&frame[..length]), Err(Refusal::Malformed));
        }
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    for frame in frames() {
        for bit in 0..8 * frame.len() {
            let (_, mut verifier) = pair();
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(verifier.open(&damaged).is_err(), "bit {bit}");
            assert!(verifier.open(&frame).is_ok(), "and changes nothing");
        }
    }
}

#[test]
fn frames_of_the_wrong_form_are_named() {
    let frame = frames()[1].clone();
    let with = |at: usize, byte: u8| {
        let mut damaged = frame.clone();
        damaged[at] = byte;
        Frame::parse(&damaged).map(drop).unwrap_err()
    };
    for (at, byte) in [(0, b'v'), (5, 0), (5, 9), (8, 1)] {
        assert_eq!(with(at, byte), Refusal::Malformed);
    }
    assert_eq!(with(4, 1), Refusal::Version(1));
    let longer = [&frame[..], &[0]].concat();
    let mut oversized = frame;
    oversized.resize(FRAME_BYTES_MAX + 1, 0);
    for wrong in [longer, oversized] {
        assert_eq!(Frame::parse(&wrong), Err(Refusal::Malformed));
    }
}

#[test]
fn strangers_are_refused() {
    let (mut sealer, mut verifier) = pair();
    let marker = Marker {
        copy: 0,
        packets_since: 0,
        lda: two_banks(),
    };
    let frame = seal(&mut sealer, &marker);

    let id = KeyId(7);
    let other_id = KeyRing::new().with(KeyId(8), key()).unwrap();
    let error = Verifier::new(other_id).open(&frame).unwrap_err();
    assert_eq!(error, Refusal::UnknownKey);
    let other_key = KeyRing::new().with(id, Key::new([1; 16])).unwrap();
    let mut stranger = Verifier::new(other_key);
    stranger.begin(session());
    assert_eq!(stranger.open(&frame), Err(Refusal::Tag));
    let error = Verifier::new(keys()).open(&frame).unwrap_err();
    assert_eq!(error, Refusal::Session, "none yet");
    let mut reversed = Verifier::new(keys());
    reversed.begin(Session {
        sender: session().receiver,
        receiver: session().sender,
    });
    assert_eq!(reversed.open(&frame), Err(Refusal::Session), "reflected");

    assert!(verifier.open(&frame).is_ok());
    let error = verifier.open(&frame).unwrap_err();
    assert_eq!(error, Refusal::Replayed);
}

#[test]
fn sessions_have_keys_of_their_own_and_nobody_elses() {
    let nonce = Nonce::from_random;
    let [a, b, c] = [1, 2, 3].map(nonce);
    let session = |sender, receiver| Session { sender, receiver };
    let mut tags = HashSet::new();
    for wire in [key(), Key::new([1; 16])] {
        for of in [session(a, b), session(b, a), session(a, c), session(c, b)] {
            tags.insert(wire.of_session(of).tag(b"x"));
        }
        tags.insert(wire.tag(b"x"));
    }
    assert_eq!(
        tags.len(),
        10,
        "two switches with one key, other nonces: another key"
    );
    // Of a frame of one session, with the name of another, the tag is wrong.
    let (mut sealer, _) = pair();
    let request = Request::new(&Shape::Tally, [0..1]).unwrap();
    let mut frame = seal(&mut sealer, &request);
    let other = session(a, b);
    let mut verifier = Verifier::new(keys());
    verifier.begin(other);
    frame[18..26].copy_from_slice(&other.id().number().to_be_bytes());
    assert_eq!(verifier.open(&frame), Err(Refusal::Tag));
}

#[test]
fn a_session_that_is_renewed_is_accepted_beside_the_old_one_until_that_is_forgotten() {
    let (mut sealer, mut verifier) = pair();
    let request = Request::new(&Shape::Tally, [0..1]).unwrap();
    let heard = seal(&mut sealer, &request);
    assert!(verifier.open(&heard).is_ok());
    let under_way = seal(&mut sealer, &request);
    let too_late = seal(&mut sealer, &request);
    let next = Session {
        sender: Nonce::from_random(5),
        receiver: Nonce::from_random(6),
    };
    verifier.renew(next);
    sealer.begin(next);
    let first = seal(&mut sealer, &request);
    assert!(verifier.open(&first).is_ok());
    assert!(verifier.open(&under_way).is_ok());
    assert_eq!(verifier.open(&heard), Err(Refusal::Replayed));
    assert_eq!(verifier.open(&first), Err(Refusal::Replayed));
    verifier.forget();
    assert_eq!(verifier.open(&too_late), Err(Refusal::Session));
    assert!(verifier.open(&seal(&mut sealer, &request)).is_ok());
}

#[test]
fn a_key_is_changed_within_a_session() {
    let both = keys().with(KeyId(8), Key::new([8; 16])).unwrap();
    let new = KeyRing::new().with(KeyId(8), Key::new([8; 16])).unwrap();
    let (mut sealer, mut verifier) = pair();
    let request = Request::new(&Shape::Tally, [0..1]).unwrap();
    let old = [(); 2].map(|()| seal(&mut sealer, &request));
    verifier.set_keys(both.clone());
    assert!(verifier.open(&old[0]).is_ok());
    sealer.set_key(&both, KeyId(8)).unwrap();
    let frame = seal(&mut sealer, &request);
    let header = verifier.open(&frame).unwrap().header();
    assert_eq!((header.key, header.sequence), (KeyId(8), 3), "it goes on");
    verifier.set_keys(new);
    assert_eq!(verifier.open(&old[1]), Err(Refusal::UnknownKey));
    assert!(verifier.open(&seal(&mut sealer, &request)).is_ok());
    let refused = sealer.set_key(&both, KeyId(9));
    assert_eq!(refused, Err(SealError::UnknownKey { id: KeyId(9) }));
}

#[test]
fn frames_without_a_key_are_accepted_on_trusted_ports_only() {
    let trusted = KeyRing::new().trusting();
    let mut sealer = Sealer::new(1, 2, &trusted, KeyId::NONE).unwrap();
    let frame = seal(&mut sealer, &hello());
    let id = KeyId::NONE;
    assert_eq!(Verifier::new(keys()).open(&frame), Err(Refusal::UnknownKey));
    assert!(Verifier::new(trusted).open(&frame).is_ok());
    let refused = Sealer::new(1, 2, &keys(), KeyId::NONE).map(drop);
    assert_eq!(refused, Err(SealError::UnknownKey { id }));
}

#[test]
fn frames_that_cannot_be_sealed_use_up_no_number() {
    let (mut sealer, mut verifier) = pair();
    let request = Request::new(&Shape::Tally, [0..1]).unwrap();
    let needed = HEADER_BYTES + 10 + TAG_BYTES;
    for room in 0..needed {
        let refused = sealer.seal(subject(), &request, &mut vec![0; room]);
        assert_eq!(refused, Err(SealError::NoRoom { needed, room }));
    }
    let frame = seal(&mut sealer, &request);
    assert_eq!(frame.len(), needed);
    assert_eq!(verifier.open(&frame).unwrap().header().sequence, 1);

    let mut early = Sealer::new(1, 2, &keys(), KeyId(7)).unwrap();
    let refused = early.seal(subject(), &request, &mut [0; 100]);
    assert_eq!(refused, Err(SealError::NoSession));
}

#[test]
fn rings_hold_what_they_can_tell_apart() {
    assert_eq!(
        keys().with(KeyId(7), key()).unwrap_err(),
        KeyRingError::Twice { id: KeyId(7) }
    );
    assert_eq!(
        keys().with(KeyId(0), key()).unwrap_err(),
        KeyRingError::Zero
    );
    let full = (1..=16).try_fold(KeyRing::new(), |ring, id| ring.with(KeyId(id), key()));
    assert_eq!(
        full.unwrap().with(KeyId(17), key()).unwrap_err(),
        KeyRingError::Full
    );
    assert!(
        !format!("{:?}", keys()).contains("0f"),
        "keys stay out of logs"
    );
}

#[test]
fn bodies_that_mean_nothing_are_named() {
    let hello_with = |at: usize, byte: u8| {
        let mut body = Vec::new();
        hello().emit(&mut body);
        body[at] = byte;
        Hello::parse(&body).unwrap_err().to_string()
    };
    assert_eq!(hello_with(50, 3), "clock state is 3; it must be 0 to 2");
    for (at, byte) in [(54, 65), (55, b' '), (56, 0x1b), (57, 0xe9)] {
        let error = hello_with(at, byte);
        assert!(error.starts_with("name "), "{error}");
    }
    assert_eq!(hello_with(60, 1), "37 bytes behind the end of hello");
    assert_eq!(hello_with(61, 9), "synopsis is 9; it must be 1, 2 or 6");
    for (body, error) in [
        (
            &[3, 0, 0, 0, 0, 0][..],
            "copy of a marker is 3; it must be 0 to 2",
        ),
        (
            &[0, 0, 0, 0],
            "packets since the turn needs 4 bytes and 3 are left",
        ),
    ] {
        assert_eq!(Marker::parse(body).unwrap_err().to_string(), error);
    }
    for body in [
        &[9, 1, 0, 0, 0, 0, 0, 0, 0, 1][..],
        &[1, 0],
        &[1, 129],
        &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 1, 255, 255, 255, 255, 0, 0, 0, 1],
        &[1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1],
        &[1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0],
    ] {
        assert!(Request::parse(body).is_err(), "{body:?}");
    }
    let report_with = |changes: &[(usize, u8)]| {
        let mut body = Vec::new();
        report().emit(&mut body);
        for &(at, byte) in changes {
            body[at] = byte;
        }
        Report::parse(&body).map_err(|error| error.to_string())
    };
    let infinity = [(47, 0x7f), (48, 0xf0), (49, 0), (50, 0)];
    for (changes, what) in [
        (&[(0, 11)][..], "fate of an epoch is 11"),
        (&[(1, 16)], "what is known is 16"),
        (&[(2, 9)], "method is 9"),
        (&[(2, 0)], "what is known is 15"),
        (&[(6, 13)], "usable cells is 13"),
        (&[(1, 14)], "mean is "),
        (&[(1, 13)], "deviation is "),
        (&[(1, 11)], "bound is "),
        (&[(1, 7), (2, 0)], "chosen mean is "),
        (&[(1, 7), (86, 1)], "chosen bound is 1;"),
        (&[(47, 0x7f), (48, 0xf8)], "mean is "),
        (&infinity, "mean is "),
        (&[(55, 0xc0)], "deviation is "),
        (&[(63, 0xc0)], "bound is "),
        (&[(71, 0xff), (72, 0xff)], "chosen mean is "),
        (&[(79, 0x80), (86, 1)], "chosen bound is "),
    ] {
        let error = report_with(changes).unwrap_err();
        assert!(error.starts_with(what), "{error} for {what}");
    }
    assert_eq!(report_with(&[]), Ok(report()));
}

#[test]
fn what_a_report_cannot_tell_is_not_known() {
    let hopeless = Report {
        usable_cells: 13,
        mean_ns: Some(f64::NAN),
        stddev_ns: Some(-1.0),
        bound_ns: Some(f64::INFINITY),
        chosen: Some(crate::Estimate {
            method: Method::Lda,
            mean_ns: f64::NEG_INFINITY,
            bound_ns: Some(1.0),
        }),
        ..report()
    };
    let mut body = Vec::new();
    hopeless.emit(&mut body);
    let accepted = Report {
        usable_cells: 12,
        mean_ns: None,
        stddev_ns: None,
        bound_ns: None,
        chosen: None,
        ..report()
    };
    assert_eq!(Report::parse(&body), Ok(accepted));
    let unbounded = Report {
        chosen: Some(crate::Estimate {
            method: Method::Prior,
            mean_ns: 3.0,
            bound_ns: Some(f64::INFINITY),
        }),
        ..report()
    };
    body.clear();
    unbounded.emit(&mut body);
    let chosen = Report::parse(&body).unwrap().chosen.unwrap();
    assert_eq!((chosen.mean_ns, chosen.bound_ns), (3.0, None));
}
