#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_tls::fuzzing::fuzz_tls_session(data));
