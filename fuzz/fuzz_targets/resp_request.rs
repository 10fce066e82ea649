#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_resp::fuzzing::fuzz_resp_request(data));
