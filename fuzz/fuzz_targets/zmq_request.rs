#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_hub::fuzzing::fuzz_zmq_request(data));
