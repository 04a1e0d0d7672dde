use super::*;

#[test]
fn a_secret_belongs_to_root_or_to_who_runs() {
    let others = |owner, mode| open_to_others((owner, 100), mode, 1_000);
    assert_eq!(others(0, 0o640), None);
    assert_eq!(others(1_000, 0o600), None);
    for (owner, mode, expected) in [
        (0, 0o604, ["mode 604", "chmod o="]),
        (1_001, 0o604, ["mode 604", "chmod o="]),
        (0, 0o660, ["group 100", "chmod g-w"]),
        (0, 0o620, ["group 100", "chmod g-w"]),
        (1_000, 0o660, ["group 100", "chmod g-w"]),
        (1_001, 0o600, ["user 1001", "chown root"]),
    ] {
        let words = others(owner, mode).unwrap();
        assert!(expected.iter().all(|part| words.contains(part)), "{words}");
    }
    let roots = open_to_others((1_000, 100), 0o600, 0).unwrap();
    assert!(
        roots.contains("user 1000") && roots.contains("user 0"),
        "{roots}"
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
