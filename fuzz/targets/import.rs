#![no_main]
//! For libFuzzer; what it does stands in `src/import.rs`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| quotad_fuzz::import::run(data));
