use super::*;

#[test]
fn every_file_of_the_page_has_a_strict_policy() {
    let (server, _) = serve(example());
    for (path, kind) in [
        ("/ui", "text/html; charset=utf-8"),
        ("/ui/style.css", "text/css; charset=utf-8"),
        ("/ui/main.js", "text/javascript; charset=utf-8"),
    ] {
        let answer = fetch(&server, path);
        assert_eq!(answer.status, 200, "{path}");
        for (name, expected) in [
            ("content-type", kind),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(answer.header(name), Some(expected), "{path}");
        }
        let policy = answer.header("content-security-policy").unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "form-action 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(rule), "{path}: {rule}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    assert_eq!(fetch(&server, "/ui/").status, 404);
    assert_eq!(fetch(&server, "/ui/../http.rs").status, 404);
    assert!(fetch(&server, "/ui").body.contains("data-of=\"switch\""));
    let (page, kind) = (fetch(&server, "/ui").body, "<script type=\"module\" src=");
    assert_eq!(page.matches("<script").count(), page.matches(kind).count());
}
