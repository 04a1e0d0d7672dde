//! The token, and keys.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use testkit::page::{Page, list, text};

use super::{config, page_of, pictures};
use crate::support::{Daemon, key_file};

const TOKEN: &str = "correct-horse-battery-staple";

#[test]
fn the_page_asks_for_the_token_and_keys_lead_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    key_file(folder.path());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "{TOKEN}").unwrap();
    file.as_file()
        .set_permissions(std::fs::Permissions::from_mode(0o600))
        .unwrap();
    let mut config = config(1, "server", folder.path());
    config["http"] = json!({ "token_file": file.path() });
    let switch = Daemon::start(config);
    let mut page = page_of(&switch);

    wait(&mut page, "document.activeElement?.name === 'token'");
    assert!(
        page.cells().unwrap().is_empty(),
        "no figure without the token"
    );
    page.browser
        .picture(&pictures().join("token-1600-light.png"))
        .unwrap();
    page.browser
        .type_text("wrong-horse-battery-staple")
        .unwrap();
    press(&mut page, "Enter");
    wait(
        &mut page,
        "document.querySelector('.token')?.textContent.includes('was not accepted') === true",
    );
    page.browser.type_text(TOKEN).unwrap();
    press(&mut page, "Enter");
    wait(
        &mut page,
        "!!document.querySelector('.view[data-view=overview] tr[data-key] a.open')",
    );
    let complaints = page.browser.complaints().unwrap();
    assert!(
        complaints.iter().all(|words| words.contains("401")),
        "{complaints:?}"
    );
    let kept = page
        .browser
        .value("[sessionStorage.length, JSON.stringify(localStorage).includes('horse')]")
        .unwrap();
    assert_eq!(kept, json!([1, false]), "the token is in this tab only");

    keys(&mut page);
    let complaints = page.browser.complaints().unwrap();
    assert!(complaints.is_empty(), "{complaints:?}");
}

fn wait(page: &mut Page, condition: &str) {
    page.browser.wait_for(condition).unwrap();
}

fn press(page: &mut Page, key: &str) {
    page.browser.press(key).unwrap();
}

/// Waits until the address is this one.
fn at(page: &mut Page, hash: &str) {
    wait(page, &format!("location.hash === '{hash}'"));
}

/// Views, rows, the search, the list of keys, and colours.
fn keys(page: &mut Page) {
    press(page, "2");
    at(page, "#/segments");
    wait(
        page,
        "!!document.querySelector('.view[data-view=segments] tr[data-key]')",
    );
    press(page, "ArrowDown");
    press(page, "j");
    press(page, "k");
    let first = "document.activeElement === document.querySelector('main a.open')";
    assert_eq!(page.browser.value(first).unwrap(), true);
    press(page, "Enter");
    wait(page, "location.hash.split('/').length === 5");
    wait(page, "!!document.querySelector('main .trail a')");
    press(page, "Escape");
    at(page, "#/segments");
    searches(page);
    press(page, "Escape");
    press(page, "?");
    assert_eq!(
        page.browser
            .value("document.getElementById('help').open")
            .unwrap(),
        true
    );
    page.browser
        .picture(&pictures().join("keys-1600-light.png"))
        .unwrap();
    page.browser
        .value("document.getElementById('help').close(); 0")
        .unwrap();
    press(page, "t");
    assert_eq!(
        page.browser
            .value("getComputedStyle(document.body).color")
            .unwrap(),
        "rgb(223, 228, 232)"
    );
}

/// The search filters the rows of a view. Flows are found by prefix, by port of the switch and by a part of the name,
/// and words that are not understood are reported.
fn searches(page: &mut Page) {
    press(page, "/");
    wait(page, "document.activeElement?.id === 'search'");
    page.browser.type_text("clients web").unwrap();
    let rows = "[...document.querySelectorAll('main tr[data-key]')].map((row) => row.dataset.key.replaceAll('\\n', ' '))";
    wait(
        page,
        &format!(
            "{rows}.length === 2 && {rows}.every((key) => key.includes('clients') && key.endsWith('web'))"
        ),
    );
    press(page, "Escape");
    press(page, "3");
    at(page, "#/flows");
    press(page, "/");
    wait(page, "document.activeElement?.id === 'search'");
    page.browser.type_text("10.255.255.0/24").unwrap();
    wait(
        page,
        "document.querySelector('.view').dataset.matching === '0'",
    );
    page.browser
        .value("document.getElementById('search').select(); 0")
        .unwrap();
    page.browser.type_text("10.0.0.0/400").unwrap();
    wait(
        page,
        "document.querySelector('.note').textContent.includes('not a prefix')",
    );
    page.browser.complaints().unwrap();
    page.browser
        .value("document.getElementById('search').select(); 0")
        .unwrap();
    page.browser.type_text("tcp in=clients 0.0.0.0/0").unwrap();
    wait(
        page,
        "Number(document.querySelector('.view').dataset.matching) > 0",
    );
    let names = page
        .browser
        .value("[...document.querySelectorAll('td a.open')].map((one) => one.textContent)")
        .unwrap();
    assert!(
        list(&names).all(|name| text(name).contains("/tcp")),
        "{names}"
    );
}
