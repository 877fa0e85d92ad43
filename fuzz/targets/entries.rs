#![no_main]
//! For libFuzzer; what it does stands in `src/entries.rs`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| quotad_fuzz::entries::run(data));
