use super::*;

#[test]
fn a_secret_belongs_to_root_or_to_who_runs() {
    let others = |owner, mode| SecretAccess::of_others((owner, 100), mode, 1_000);
    assert_eq!(others(0, 0o640), None);
    assert_eq!(others(1_000, 0o600), None);
    let everybody = Some(SecretAccess::Everybody { mode: 0o604 });
    assert_eq!(others(0, 0o604), everybody);
    assert_eq!(others(1_001, 0o604), everybody);
    for (owner, mode) in [(0, 0o660), (0, 0o620), (1_000, 0o660)] {
        let access = others(owner, mode).expect("the group may change it");
        assert_eq!(access, SecretAccess::Group { mode, group: 100 });
        let words = access.to_string();
        assert!(
            words.contains("group 100") && words.contains("chmod g-w"),
            "{words}"
        );
    }
    let (owner, user) = (1_001, 1_000);
    assert_eq!(
        others(1_001, 0o600),
        Some(SecretAccess::Owner { owner, user })
    );
    let words = SecretAccess::Owner { owner, user }.to_string();
    assert!(words.contains("user 1001"), "{words}");
    assert!(words.contains("chown root"), "{words}");
    let roots = SecretAccess::of_others((1_000, 100), 0o600, 0);
    assert_eq!(
        roots,
        Some(SecretAccess::Owner {
            owner: 1_000,
            user: 0
        })
    );
}
