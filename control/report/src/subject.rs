//! Subjects of JetStream: names of switches as tokens, and partitions.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// Partitions of switches, which stations divide among themselves. Part of the protocol; must not change.
pub const PARTITIONS: u16 = 64;

/// Subjects of all reports.
pub const REPORTS: &str = "vernier.report.>";

/// Encodes a switch's name as a token of a subject: `.`, which separates tokens, as `=`, which names never
/// contain.
pub fn token(switch: &str) -> String {
    switch.replace('.', "=")
}

/// The partition of a switch, 0 to 63: `SipHash-2-4` of its name with key 0, modulo 64.
pub fn partition(switch: &str) -> u16 {
    let mut hasher = SipHasher24::new();
    hasher.write(switch.as_bytes());
    // Less than 64.
    u16::try_from(hasher.finish() % u64::from(PARTITIONS)).unwrap_or_default()
}

/// The subject of a switch's reports: `vernier.report.PARTITION.SWITCH`.
pub fn of_switch(switch: &str) -> String {
    format!("vernier.report.{}.{}", partition(switch), token(switch))
}

/// The switch of a subject; `None` if it is not the subject of a switch. The server decides who may publish to it: a
/// name in a message is only a claim.
pub fn switch_of(subject: &str) -> Option<String> {
    let (_, token) = subject.strip_prefix("vernier.report.")?.split_once('.')?;
    let switch = token.replace('=', ".");
    (of_switch(&switch) == subject).then_some(switch)
}

/// Subjects of a partition's reports.
pub fn of_partition(partition: u16) -> String {
    format!("vernier.report.{partition}.*")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Senders and stations of all versions agree on them.
    #[test]
    fn subjects_stay_as_they_are() {
        assert_eq!(of_switch("edge-1"), "vernier.report.46.edge-1");
        assert_eq!(of_switch("a.b_c"), "vernier.report.30.a=b_c");
        for switch in ["edge-1", "a.b_c"] {
            assert_eq!(switch_of(&of_switch(switch)).as_deref(), Some(switch));
        }
        for none in [
            "vernier.report.45.edge-1",
            "vernier.report.46",
            "vernier.report.30.a.b_c",
            "a.b",
        ] {
            assert_eq!(switch_of(none), None, "{none}");
        }
    }

    #[test]
    fn partitions_are_about_even() {
        let mut switches = [0; PARTITIONS as usize];
        for n in 0..6_400 {
            switches[usize::from(partition(&format!("sw{n}")))] += 1;
        }
        let (least, most) = (switches.iter().min(), switches.iter().max());
        assert!(least > Some(&50) && most < Some(&150), "{switches:?}");
    }
}
