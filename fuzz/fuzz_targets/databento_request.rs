#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_feed::fuzzing::fuzz_databento_request(data));
