//! What the environment of the process may not change: tests run again in one that is hostile.

use std::env;
use std::process::Command;

fn passes_in_a_hostile_environment(test: &str) {
    let nowhere = "http://127.0.0.1:1";
    let run = Command::new(env::current_exe().unwrap())
        .args(["--exact", test])
        .envs(["http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"].map(|name| (name, nowhere)))
        .envs(["SSL_CERT_FILE", "SSL_CERT_DIR"].map(|name| (name, "/nonexistent")))
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && told.contains("1 passed"), "{told}");
}

#[test]
fn plain_http_needs_no_certificates_and_takes_no_proxy() {
    let test = "http::tests::answers::the_destinations_own_id_is_in_the_receipt";
    passes_in_a_hostile_environment(test);
}

#[test]
fn https_takes_no_proxy_and_says_that_certificates_are_missing() {
    passes_in_a_hostile_environment("http::tests::tls::a_trusted_destination_gets_the_event");
    let test = "http::tests::tls::the_platforms_roots_are_trusted_where_there_are_any";
    passes_in_a_hostile_environment(test);
}
