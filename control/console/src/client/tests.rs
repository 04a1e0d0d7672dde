use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;

/// Answers one request after another as given; returns the requests.
fn answering(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let answer = |answer: &&str| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 4_096];
            let length = stream.read(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&asked[..length]).into_owned()
        };
        answers.iter().map(answer).collect()
    });
    (address, server)
}

fn failure(answers: &'static [&'static str], token: Option<&str>) -> String {
    let (address, server) = answering(answers);
    let client = Client::new(&address, token.map(str::to_owned));
    let error = client.config().unwrap_err().to_string();
    server.join().unwrap();
    error.replace(&address, "ADDRESS")
}

#[test]
fn a_switch_that_is_not_there_is_one_clear_message() {
    let address = testkit::process::free_address().unwrap();
    let client = Client::new(&address.to_string(), None);
    let error = client.config().unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("no switch answers at http://{address}: ")),
        "{error}"
    );
    assert!(
        error.ends_with(
            "start `vernierd`, load the plugin, or give the switch's address with --url"
        ),
        "{error}"
    );
}

#[test]
fn another_program_that_answers_is_an_error() {
    const CLOSE: &str = "HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n";
    for answers in [
        &[CLOSE, CLOSE][..],
        &["HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", CLOSE],
        &["SSH-2.0\r\n", CLOSE],
    ] {
        let error = failure(answers, None);
        let start = "what answers at http://ADDRESS is not a vernier of version";
        assert!(error.starts_with(start), "{error}");
    }
}

#[test]
fn another_version_is_named() {
    let error = failure(
        &[
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n[]",
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"version\": \"9.9.9\"}",
        ],
        None,
    );
    assert!(error.contains("is a vernier of version 9.9.9"), "{error}");
    assert!(error.ends_with("use the tool that came with the switch"));
}

#[test]
fn a_missing_token_and_a_wrong_one_are_different_errors() {
    const REFUSED: &str = "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n";
    let missing = failure(&[REFUSED], None);
    assert!(
        missing.contains("needs a token; name the file"),
        "{missing}"
    );
    let wrong = failure(&[REFUSED], Some("secret"));
    assert!(wrong.contains("does not take the token"), "{wrong}");
    assert!(!wrong.contains("secret"), "{wrong}");
}

#[test]
fn the_switchs_own_words_come_through() {
    let error = failure(
        &["HTTP/1.1 503 X\r\nconnection: close\r\n\r\n{\"error\": \"not\\nyet\"}"],
        None,
    );
    assert_eq!(error, "the switch at http://ADDRESS refuses: not yet");
}

#[test]
fn tokens_and_queries_are_sent_as_they_must() {
    let (address, server) =
        answering(&["HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"after\": 7}"; 2]);
    let client = Client::new(&format!("http://{address}/"), Some("t0ken".to_owned()));
    assert_eq!(client.reload().unwrap(), 7);
    let flow = [("flow", "10.0.0.1:1>[::1]:2/tcp".to_owned())];
    let _: Value = client.get("/api/v1/flow", &flow).unwrap();
    let asked = server.join().unwrap();
    assert!(asked[0].starts_with("POST /api/v1/reload HTTP"));
    assert!(asked[0].to_lowercase().contains("x-vernier: reload\r\n"));
    for asked in &asked {
        let authorised = "authorization: bearer t0ken\r\n";
        assert!(asked.to_lowercase().contains(authorised), "{asked}");
    }
    assert!(
        !asked[1].lines().next().unwrap().contains("[::"),
        "{}",
        asked[1]
    );
}

#[test]
fn a_token_is_the_first_line_of_its_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), " 0123456789abcdef \nmore\n").unwrap();
    assert_eq!(read_token(file.path()).unwrap(), "0123456789abcdef");
    for bad in ["", "\n", "a b", "\u{fc}"] {
        std::fs::write(file.path(), bad).unwrap();
        assert!(read_token(file.path()).is_err(), "{bad:?}");
    }
    let error = read_token(Path::new("/nowhere/token")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("/nowhere/token: cannot read the token")
    );
}
