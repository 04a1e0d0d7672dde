use super::*;

#[test]
fn a_pipe_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
        let error = open(path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }
    assert!(open(Path::new("/proc/self/status")).is_ok());
}

#[test]
fn text_that_is_no_plain_utf_8_is_refused_with_what_to_do() {
    assert_eq!(text("caf\u{e9}\n".into()).unwrap(), "caf\u{e9}\n");
    for (bytes, what) in [
        (
            &b"\xef\xbb\xbf{}"[..],
            "byte order mark (EF BB BF); save it as UTF-8 without one",
        ),
        (b"\xff\xfe{\0}\0", "UTF-16"),
        (b"\xfe\xff\0{\0}", "UTF-16"),
        (b"{\n\"name\": \"caf\xe9\" }", "line 2 is not UTF-8"),
    ] {
        let error = text(bytes.to_vec()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large");
    std::fs::write(&file, vec![b' '; (1 << 20) + 1]).unwrap();
    let error = read_text(&file, 1 << 20).unwrap_err();
    assert_eq!(error.to_string(), "it has more than 1 MiB");
    assert!(read_text(&file, 2 << 20).is_ok());
}
