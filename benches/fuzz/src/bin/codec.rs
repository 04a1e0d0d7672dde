//! libFuzzer's entry to [`fuzz::codec`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::codec(bytes));
