#![no_main]
//! For libFuzzer; what it does stands in `src/journal.rs`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| quotad_fuzz::journal::run(data));
