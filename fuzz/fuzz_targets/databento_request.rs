#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_dbn::fuzzing::fuzz_databento_request(data));
