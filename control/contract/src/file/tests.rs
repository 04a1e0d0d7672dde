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
