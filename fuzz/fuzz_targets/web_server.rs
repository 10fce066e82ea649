#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_web::fuzzing::fuzz_web_server(data));
