use super::*;

#[test]
fn a_panic_costs_its_part_and_is_counted() {
    assert_eq!(contain(Part::Estimate, || 1), Some(1));
    assert_eq!(contained_in(Part::Estimate), 0);
    inject::arm(Point::In(Part::Estimate), 2);
    for n in 1..=2 {
        assert_eq!(contain(Part::Estimate, || 1), None);
        assert_eq!(contained_in(Part::Estimate), n);
    }
    assert_eq!(contain(Part::Estimate, || 1), Some(1));
}

#[test]
fn with_debug_assertions_a_fault_that_was_not_injected_is_found() {
    let fault = || contain(Part::Upkeep, || panic!("a fault"));
    let found = catch_unwind(fault).unwrap_err();
    assert_eq!(message(&*found), "a fault");
    assert_eq!(contained_in(Part::Upkeep), 0);
}

#[test]
fn a_message_is_found_whatever_carries_it() {
    assert_eq!(message(&"fixed"), "fixed");
    assert_eq!(message(&"made".to_owned()), "made");
    assert_eq!(message(&1), "no message");
}

#[test]
fn kinds_are_logged_once_each() {
    assert!(is_new(Part::Http, "a.rs:1:1"));
    assert!(is_new(Part::Http, "a.rs:2:1"));
    assert!(!is_new(Part::Http, "a.rs:1:1"));
}
