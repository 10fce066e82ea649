#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_mx::fuzzing::fuzz_mx_session(data));
