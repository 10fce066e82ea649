#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_rows::fuzzing::fuzz_rows_request(data));
