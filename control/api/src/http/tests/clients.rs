use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use super::*;
use records::snapshot::Segment;

#[test]
fn a_taken_address_is_one_clear_message() {
    let (server, _) = serve(Snapshot::default());
    let error = Server::bind(server.address()).unwrap_err().to_string();
    let start = format!(
        "cannot serve HTTP on {}: Address already in use",
        server.address()
    );
    assert!(
        error.starts_with(&start) && error.contains("set http.listen"),
        "{error}"
    );
}

#[test]
fn stopping_is_quick_and_frees_the_address() {
    let (server, _) = serve(Snapshot::example());
    let address = server.address();
    // A client that sends nothing, and a client that sends half a request.
    let mute = TcpStream::connect(address).unwrap();
    let mut half = TcpStream::connect(address).unwrap();
    half.write_all(b"GET /metrics HT").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() < connection::CLOSING_MAX * 4);
    drop((mute, half));
    Server::bind(address).unwrap();
}

#[test]
fn a_new_client_takes_the_slot_of_the_one_longest_without_a_request() {
    let (server, _) = serve(Snapshot::example());
    let mut regular = TcpStream::connect(server.address()).unwrap();
    let mut clients: Vec<_> = (0..CONNECTIONS_MAX)
        .map(|_| {
            // A client that sends a request now and then keeps its connection, although all others came later.
            let ask = b"HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
            regular.write_all(ask).unwrap();
            let mut answer = [0; 12];
            regular.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
            drain(&mut regular);
            TcpStream::connect(server.address()).unwrap()
        })
        .collect();
    for _ in 0..10 {
        assert_eq!(fetch(&server, "/healthz").status, 200);
    }
    assert!(rejected(&server, "crowded") >= 1.0);
    assert!(own_metric(&server, "vernier_http_connections") <= CONNECTIONS_MAX as f64);
    // The first silent client was disconnected, the last was not.
    let mut byte = [0];
    let first = &mut clients[0];
    first
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let ended = first.read(&mut byte);
    assert!(matches!(ended, Ok(0)) || ended.unwrap_err().kind() == io::ErrorKind::ConnectionReset);
    let last = clients.last_mut().unwrap();
    last.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    regular.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    regular.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
}

/// A switch with this number of segments, with all figures.
fn large(segments: usize) -> Snapshot {
    let mut snapshot = Snapshot::example();
    let one = snapshot.segments[0].clone();
    let named = |n| Segment {
        ingress: format!("ingress-{n:05}"),
        ..one.clone()
    };
    snapshot.segments = (0..segments).map(named).collect();
    snapshot
}

/// Status and content length of an answer, without reading its body.
fn head(client: &mut TcpStream) -> (u16, usize) {
    let answer = Answer::of(&drain(client));
    let length = answer.header("content-length").unwrap().parse().unwrap();
    (answer.status, length)
}

#[test]
fn a_slow_reader_keeps_its_slot_among_silent_newcomers() {
    let (server, _) = serve(large(2_000));
    let mut slow = ask(&server, "GET", "/metrics", &[]);
    let (status, length) = head(&mut slow);
    assert!(status == 200 && length > 4 << 20, "{length}");
    let mut part = vec![0; length / 8];
    let mut silent = Vec::new();
    for _ in 0..8 {
        let newcomer = |_| TcpStream::connect(server.address()).unwrap();
        silent.extend((0..CONNECTIONS_MAX).map(newcomer));
        // All of them are connected once a later client is answered.
        assert_eq!(fetch(&server, "/healthz").status, 200);
        slow.read_exact(&mut part).unwrap();
    }
    assert!(rejected(&server, "crowded") > CONNECTIONS_MAX as f64);
}

#[test]
fn readers_that_stall_leave_others_a_limit_and_a_hint() {
    let segments = 1_000;
    let (server, _) = serve(large(segments));
    let mut stalled = Vec::new();
    let refused = loop {
        let mut client = ask(&server, "GET", "/metrics", &[]);
        let (status, length) = head(&mut client);
        if status != 200 {
            break (client, status, length);
        }
        stalled.push((client, length));
        assert!(stalled.len() < CONNECTIONS_MAX / 2);
    };
    let (mut client, status, length) = refused;
    assert_eq!(status, 503);
    let mut error = vec![0; length];
    client.read_exact(&mut error).unwrap();
    let error = String::from_utf8(error).unwrap();
    assert!(error.contains("retry in a second"), "{error}");
    // Bytes in the kernel are not in flight; the answer that did not fit is one more.
    let page = stalled[0].1;
    let in_flight = stalled.len() * page;
    assert!(
        in_flight + page > contract::limits::answer_bytes_max(segments),
        "{in_flight}"
    );
    assert!(in_flight < contract::limits::answer_bytes_max(segments) + stalled.len() * (8 << 20));
    assert!(stalled.len() >= 2, "two whole pages are promised");
    // Small answers are always there, and pages when one who stalled has left.
    assert_eq!(fetch(&server, "/healthz").status, 200);
    drop(stalled);
    let began = Instant::now();
    while fetch(&server, "/metrics").status != 200 {
        assert!(began.elapsed() < connection::REQUEST_MAX);
    }
    assert!(rejected(&server, "memory") >= 1.0);
}

/// Reads the rest of a header.
fn drain(client: &mut TcpStream) -> String {
    let mut seen = String::new();
    while !seen.ends_with("\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        seen.push(char::from(byte[0]));
    }
    seen
}

/// The server's response to these bytes, until it closes; nothing if it resets.
fn say(server: &Running, bytes: &[u8]) -> String {
    let mut client = TcpStream::connect(server.address()).unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    let _ = client.write_all(bytes);
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn garbage_and_what_is_too_large_are_refused_and_counted() {
    let (server, _) = serve(Snapshot::example());
    let start = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    let long = format!(
        "{start}X: {}\r\n\r\n",
        "x".repeat(connection::HEADER_BYTES_MAX)
    );
    let many = format!("{start}{}\r\n", "X: y\r\n".repeat(connection::HEADERS_MAX));
    let path = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    for (n, text) in [long, many, path].iter().enumerate() {
        let answer = say(&server, text.as_bytes());
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
        assert!(
            (rejected(&server, "too_large") - (n + 1) as f64).abs() < 0.5,
            "{n}"
        );
    }
    let garbage: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let endless = "\n".repeat(100_000);
    for bytes in [
        &garbage[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
    ] {
        let before = rejected(&server, "garbage");
        let answer = say(&server, bytes);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer}"
        );
        assert!((rejected(&server, "garbage") - before - 1.0).abs() < 0.5);
    }
    let _ = say(&server, endless.as_bytes());
    assert_eq!(fetch(&server, "/healthz").status, 200);
}

#[test]
fn a_body_is_read_up_to_a_limit() {
    let (server, _) = serve(Snapshot::example());
    let head = "POST /api/v1/reload HTTP/1.1\r\nHost: [::1]:9464\r\nConnection: close\r\nX-Vernier: reload\r\n";
    let size = connection::BODY_BYTES_MAX;
    let fits = format!("{head}Content-Length: {size}\r\n\r\n{}", "x".repeat(size));
    assert!(say(&server, fits.as_bytes()).starts_with("HTTP/1.1 409"));
    let over = format!(
        "{head}Content-Length: {}\r\n\r\n{}",
        size + 1,
        "x".repeat(size + 1)
    );
    let answer = say(&server, over.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!((rejected(&server, "too_large") - 1.0).abs() < 0.5);
    let chunks = format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n");
    let answer = say(&server, chunks.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!((rejected(&server, "garbage") - 1.0).abs() < 0.5);
}

#[test]
fn who_is_slow_with_a_request_is_cut_off_and_who_is_idle_is_not_counted() {
    let (server, _) = serve(Snapshot::example());
    let mut idle = TcpStream::connect(server.address()).unwrap();
    idle.write_all(b"HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        .unwrap();
    drain(&mut idle);
    let mut slow = TcpStream::connect(server.address()).unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let mut body = TcpStream::connect(server.address()).unwrap();
    body.write_all(b"POST /api/v1/reload HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc")
        .unwrap();
    for client in [&mut idle, &mut slow, &mut body] {
        let patience = Some(connection::REQUEST_MAX * 6);
        client.set_read_timeout(patience).unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        let said = String::from_utf8_lossy(&rest);
        assert!(
            rest.is_empty() || said.starts_with("HTTP/1.1 408"),
            "{said}"
        );
    }
    assert!((rejected(&server, "slow") - 2.0).abs() < 0.5);
}

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
    // A browser is redirected to the page before it has a token.
    let browser = request(&server, "GET", "/", &["Accept: text/html"]);
    assert_eq!(browser.status, 307);
    // The page is served under any name, because its requests then have the token.
    let mut client = TcpStream::connect(server.address()).unwrap();
    let page = "GET /ui HTTP/1.1\r\nHost: edge-1\r\nConnection: close\r\n\r\n";
    client.write_all(page.as_bytes()).unwrap();
    assert_eq!(listen(client).status, 200);
    // A client with the token may use any name.
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
    // Only root can give a file to another user.
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
    assert_eq!(Server::of(&missing).unwrap_err().key, "token_file");
}
