//! Keys whose effect other tests show.

/// Keys whose effect depends on real time, and the file and name of the test that shows it.
pub const ELSEWHERE: [(&str, &str, &str); 19] = [
    (
        "measurement.lds.decode.interval_s",
        "control/src/decode/tests.rs",
        "epochs_are_summed_where_one_takes_too_long",
    ),
    ("report.nats.servers", NATS, SPOOL),
    ("report.spool_kib", NATS, SPOOL),
    ("report.top_flows", NATS, "only_so_many_flows_are_reported"),
    ("report.nats.ca_file", NATS, TLS),
    ("report.nats.cert_file", NATS, TLS),
    ("report.nats.key_file", NATS, TLS),
    ("report.nats.token_file", NATS, REFUSED),
    ("report.nats.nkey_file", NATS, NAMES),
    ("report.nats.user", NATS, NAMES),
    ("report.nats.password_file", NATS, NAMES),
    ("report.nats.credentials_file", NATS, NAMES),
    ("report.nats.insecure", VALIDATE, INSECURE),
    ("ipfix.collector", COLLECTORS, RESTART),
    ("ipfix.template_s", EXPORTER, AGAIN),
    ("ipfix.interval_s", EXPORTER, INTERVAL),
    ("ipfix.message_bytes", ENCODER, MESSAGES),
    ("ipfix.observation_domain", ENCODER, MESSAGES),
    ("ipfix.enterprise", ENCODER, MESSAGES),
];

const VALIDATE: &str = "control/contract/src/config/validate/tests.rs";
const INSECURE: &str =
    "a_password_goes_unencrypted_to_loopback_only_unless_the_configuration_says_insecure";
const COLLECTORS: &str = "switch/daemon/tests/daemon/ipfix.rs";
const EXPORTER: &str = "control/ipfix/tests/exporter.rs";
const ENCODER: &str = "control/ipfix/src/encoder/tests.rs";
const RESTART: &str = "nfdump_shows_every_flow_as_the_api_does_and_after_a_restart";
const AGAIN: &str = "templates_are_sent_again_in_time_and_when_a_collector_was_away";
const INTERVAL: &str = "records_are_over_all_epochs_of_an_interval";
const MESSAGES: &str = "what_was_pushed_is_read_back_from_messages_within_the_limit";

const NATS: &str = "control/report/tests/nats.rs";
const SPOOL: &str = "what_fitted_the_spool_arrives_once_and_in_order_and_the_rest_is_counted";
const REFUSED: &str = "a_server_that_admits_nobody_is_named_and_a_wrong_address_is_refused";
const TLS: &str = "tls_with_certificates_of_both_ends_and_not_with_another_authority";
const NAMES: &str = "a_user_is_admitted_by_password_nkey_and_credentials";
