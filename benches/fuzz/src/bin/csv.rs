//! libFuzzer's entry to [`fuzz::csv`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::csv(bytes));
