#![no_main]
//! For libFuzzer; what it does stands in `src/audit.rs`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| quotad_fuzz::audit::run(data));
