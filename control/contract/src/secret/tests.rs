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

#[test]
fn a_line_ends_as_editors_end_it_and_has_no_byte_order_mark() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let read = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        read_line(&file, 64)
    };
    for bytes in [
        &b"0123456789abcdef"[..],
        b"0123456789abcdef\n",
        b"0123456789abcdef\r\n",
    ] {
        assert_eq!(read(bytes).unwrap(), b"0123456789abcdef");
    }
    let error = read(b"\xef\xbb\xbf0123456789abcdef\r\n")
        .unwrap_err()
        .to_string();
    assert!(error.contains("byte order mark"), "{error}");
}
