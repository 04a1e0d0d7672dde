use std::os::unix::fs::PermissionsExt;

use super::*;

const TOKEN: &str = "correct-horse-battery";

fn token_file(text: &str, mode: u32) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let permissions = std::fs::Permissions::from_mode(mode);
    file.as_file().set_permissions(permissions).unwrap();
    file
}

#[test]
fn a_token_is_asked_of_everybody_but_for_health() {
    let file = token_file(&format!("{TOKEN}\n"), 0o640);
    let server = bind().with_token(file.path()).unwrap();
    let server = server.serve(Arc::new(Published::new(example()))).unwrap();
    let right = format!("Authorization: Bearer {TOKEN}");
    let lower = format!("authorization: bearer {TOKEN}");
    let longer = format!("Authorization: Bearer {TOKEN}x");
    let wrong = [
        "X: y",
        "Authorization: Bearer ",
        "Authorization: Bearer correct-horse-battery-staple",
        "Authorization: Bearer correct-horse-batterx",
        "Authorization: Basic correct-horse-battery",
        "Authorization: B\u{e9}arer x",
        &longer,
    ];
    let mut refused = 0.0;
    let paths = routes::routes();
    let paths = paths.iter().map(|route| route.path).chain(["/nowhere"]);
    let open = ["/healthz", "/readyz", "/ui"];
    for path in paths.filter(|path| !open.contains(path)) {
        for wrong in wrong {
            let answer = request(&server, "GET", path, &[wrong]);
            assert_eq!(answer.status, 401, "{path} {wrong}");
            let asks = answer.header("www-authenticate").unwrap();
            assert!(asks.starts_with("Bearer"), "{asks}");
            let error = answer.error();
            assert!(error.contains("http.token_file") && !error.contains(TOKEN));
            refused += 1.0;
        }
        let answer = request(&server, "GET", path, &[&right]);
        assert_ne!(answer.status, 401, "{path}");
    }
    assert_eq!(request(&server, "GET", "/metrics", &[&lower]).status, 200);
    for path in ["/healthz", "/readyz", "/ui", "/ui/main.js", "/ui/style.css"] {
        assert_eq!(fetch(&server, path).status, 200, "{path}");
    }
    // The page comes by any name, since what it asks for then has the token.
    let mut client = TcpStream::connect(server.address()).unwrap();
    let page = "GET /ui HTTP/1.1\r\nHost: edge-1\r\nConnection: close\r\n\r\n";
    client.write_all(page.as_bytes()).unwrap();
    assert_eq!(listen(client).status, 200);
    // Who has the token may come by any name.
    let mut client = TcpStream::connect(server.address()).unwrap();
    let reload = format!(
        "POST /api/v1/reload HTTP/1.1\r\nHost: edge-1\r\n{right}\r\nX-Vernier: reload\r\n\
         Connection: close\r\n\r\n"
    );
    client.write_all(reload.as_bytes()).unwrap();
    assert_eq!(listen(client).status, 409);
    let page = request(&server, "GET", "/metrics", &[&right]).body;
    let counted = format!("vernier_http_rejected_total{{reason=\"unauthorized\"}} {refused}");
    assert!(page.contains(&counted), "{counted}: {page}");
}

#[test]
fn a_name_that_may_be_that_of_a_web_page_is_refused_on_every_path() {
    let server = bind().with_hosts(&["edge-1".to_owned()]);
    let server = server.serve(Arc::new(Published::new(example()))).unwrap();
    let ask = |method: &str, target: &str, hosts: &[&str]| {
        let mut client = TcpStream::connect(server.address()).unwrap();
        let hosts = hosts.iter().map(|host| format!("Host: {host}\r\n"));
        let hosts: String = hosts.collect();
        let head = format!("{method} {target} HTTP/1.1\r\n{hosts}X-Vernier: reload\r\n");
        let request = format!("{head}Connection: close\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        listen(client)
    };
    let paths = routes::routes();
    let paths: Vec<_> = paths
        .iter()
        .map(|route| route.path)
        .chain(["/no"])
        .collect();
    let mut refused = 0.0;
    for path in &paths {
        for method in ["GET", "POST"] {
            let answer = ask(method, path, &["evil.example:9464"]);
            assert_eq!(answer.status, 403, "{method} {path}");
            assert!(answer.error().contains("http.hosts"), "{answer:?}");
            refused += 1.0;
        }
        assert_ne!(ask("GET", path, &["edge-1"]).status, 403, "{path}");
    }
    for hosts in [
        &["127.0.0.1.evil.example"][..],
        &["edge-1.evil.example"],
        &["evil.localhost"],
        &["a b"],
        &[""],
        &["127.0.0.1", "evil.example"],
    ] {
        let answer = ask("GET", "/metrics", hosts);
        assert_eq!(answer.status, 403, "{hosts:?}");
        refused += 1.0;
    }
    for host in [
        "EDGE-1:80",
        "LocalHost:9464",
        "192.0.2.7",
        "[2001:db8::1]:9464",
    ] {
        assert_eq!(ask("GET", "/metrics", &[host]).status, 200, "{host}");
    }
    let by_target = ask("GET", "http://evil.example/metrics", &["127.0.0.1"]);
    assert_eq!(by_target.status, 403);
    assert!((rejected(&server, "host") - refused - 1.0).abs() < 0.5);
}

#[test]
fn a_file_that_gives_no_token_says_what_to_do() {
    let error = |text: &str, mode: u32| {
        let file = token_file(text, mode);
        let error = bind().with_token(file.path()).unwrap_err().to_string();
        let path = file.path().display().to_string();
        assert!(
            error.starts_with(&format!("http.token_file {path}: ")),
            "{error}"
        );
        error
    };
    for (text, mode, wanted) in [
        ("fifteen-letters\n", 0o600, "got 15"),
        ("", 0o600, "/dev/urandom"),
        ("correct horse battery\n", 0o600, "blanks"),
        ("correct-horse-battery\nstaple\n", 0o600, "further lines"),
        ("correct-h\u{f6}rse-battery\n", 0o600, "other characters"),
        (&"x".repeat(2_000), 0o600, "got more"),
        (TOKEN, 0o644, "chmod o= FILE"),
        (TOKEN, 0o602, "mode 602"),
    ] {
        let error = error(text, mode);
        assert!(error.contains(wanted), "{error}");
        assert!(!error.contains("horse"), "{error}");
    }
    let foreign = token_file(TOKEN, 0o600);
    // Only root can make a file somebody else's.
    if std::os::unix::fs::chown(foreign.path(), Some(54_321), None).is_ok() {
        let error = bind().with_token(foreign.path()).unwrap_err().to_string();
        assert!(error.contains("belongs to user 54321"), "{error}");
    }
    let missing = bind().with_token(Path::new("/nowhere/token"));
    let missing = missing.unwrap_err().to_string();
    assert!(missing.contains("No such file"), "{missing}");
    for text in [TOKEN.to_owned(), format!("{TOKEN}\r\n"), "x".repeat(1_024)] {
        let file = token_file(&text, 0o600);
        bind().with_token(file.path()).unwrap();
    }
}

#[test]
fn a_server_is_as_configured() {
    let http = |listen: Option<&str>, token_file: Option<&Path>| Http {
        listen: listen.map(|address| address.parse().unwrap()),
        token_file: token_file.map(Path::to_owned),
        ..Http::default()
    };
    assert!(Server::of(&http(None, None)).unwrap().is_none());
    let address = Some("127.0.0.1:0");
    let open = Server::of(&http(address, None)).unwrap().unwrap();
    assert!(open.access.token.is_none() && open.address().port() != 0);
    let file = token_file(TOKEN, 0o600);
    let guarded = Server::of(&http(address, Some(file.path()))).unwrap();
    assert!(guarded.unwrap().access.token.is_some());
    let missing = http(address, Some(Path::new("/nowhere/token")));
    assert!(matches!(Server::of(&missing), Err(StartError::Token(_))));
}
