//! Control frames, their bodies, and synopses put together from fragments.

use measure::cell::Cell;
use measure::lds::LdsLayout;
use measure::observation::End;
use wire::codec::{Assembler, FragmentView, Put, Shape, SketchShape};
use wire::frame::{Frame, Kind, Message, Request, Verifier};
use wire::session::{Key, KeyId, KeyRing};

/// The first byte selects what the other bytes are.
pub fn codec(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else {
        return;
    };
    match choice {
        b'F' => whole_frame(rest),
        b'A' => assembly(rest),
        b'0'..=b'7' => body(Kind::ALL[usize::from(choice - b'0')], rest),
        _ => {}
    }
}

/// Frames that parse are written back byte for byte; frames made without the key are refused.
fn whole_frame(bytes: &[u8]) {
    let Ok(frame) = Frame::parse(bytes) else {
        return;
    };
    let mut again = Vec::new();
    let body_bytes = u16::try_from(frame.body().len()).unwrap_or(u16::MAX);
    frame.header().emit(frame.kind(), body_bytes, &mut again);
    again.put(frame.body());
    again.put(&frame.tag());
    assert_eq!(again, bytes);
    body(frame.kind(), frame.body());

    let keys = (1..=3).fold(KeyRing::new().trusting(), |ring, id| {
        ring.with(KeyId(id), Key::new([0xa5; 16])).unwrap()
    });
    // Without a key the tag is a checksum, which may be correct in the corpus.
    let is_authenticated = Verifier::new(keys).open(bytes).is_ok();
    assert!(!is_authenticated || frame.header().key == KeyId::NONE);
}

/// Bodies that parse are written back byte for byte.
fn body(kind: Kind, bytes: &[u8]) {
    let Ok(message) = Message::parse_body(kind, bytes) else {
        return;
    };
    let mut again = Vec::new();
    message.emit(&mut again);
    assert_eq!(again, bytes);
}

/// Valid and invalid fragments of one synopsis, each with two bytes of length and a body. The assembler never claims to
/// have a part that it does not have.
fn assembly(mut bytes: &[u8]) {
    let layout = LdsLayout::new(8, 1, &[1.0, 1.0]).unwrap();
    let shape = Shape::Lds(SketchShape::new(&layout));
    let mut assembler = Assembler::<Cell>::new(shape.clone(), End::Sender);
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (body, rest) = rest.split_at(length);
        bytes = rest;
        let before = assembler.missing_elements();
        let added = FragmentView::parse(body)
            .ok()
            .and_then(|fragment| assembler.add(&fragment));
        assert_eq!(before - assembler.missing_elements(), added.unwrap_or(0));

        let elements = assembler.elements();
        let missing = elements.iter().filter(|element| element.is_none()).count();
        assert_eq!(missing, assembler.missing_elements() as usize);
        let asked = Request::new(&shape, assembler.missing());
        let asked = asked.map_or(0, |request| {
            let ranges = request.ranges().iter();
            ranges.map(|range| range.end - range.start).sum()
        });
        assert_eq!(asked, assembler.missing_elements());
    }
}
