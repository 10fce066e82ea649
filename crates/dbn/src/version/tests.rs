use super::*;

fn definition(length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|byte| (byte % 250 + 1) as u8).collect();
    (bytes[0], bytes[1]) = ((length / 4) as u8, 0x13);
    bytes
}

fn upgraded(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![7];
    assert!(to_version_3(&RecordRef::new(bytes).unwrap(), &mut out));
    out.split_off(1)
}

#[test]
fn a_definition_keeps_its_fields_through_both_versions() {
    let old = definition(LENGTH_2);
    let new = upgraded(&old);
    let (old_fields, new_fields) = (RecordRef::new(&old), RecordRef::new(&new));
    assert_eq!(
        format!("{:?}", old_fields.unwrap().decode()),
        format!("{:?}", new_fields.unwrap().decode())
    );
    let mut back = Vec::new();
    to_version_2(&new, &mut back);
    let mut expected = old;
    expected[80..88].copy_from_slice(&UNDEFINED_PRICE.to_le_bytes());
    expected[176..178].fill(u8::MAX);
    (expected[376], expected[379]) = (u8::MAX, u8::MAX);
    expected[ASSET_2 + ASSET_LENGTH_2 - 1] = 0;
    expected[390..].fill(0);
    assert_eq!(back, expected);
}

#[test]
fn a_quantity_that_does_not_fit_version_2_is_undefined_there() {
    let mut new = vec![0; STATISTICS_LENGTH];
    (new[0], new[1]) = (20, 0x18);
    for (quantity, old_quantity) in [(7, 7), (i64::MAX, i32::MAX), (1 << 40, i32::MAX)] {
        new[40..48].copy_from_slice(&i64::to_le_bytes(quantity));
        new[48..62].fill(9);
        let mut old = Vec::new();
        to_version_2(&new, &mut old);
        assert_eq!(old[40..44], old_quantity.to_le_bytes());
        let again = upgraded(&old);
        let back = i64::from_le_bytes(*again[40..48].first_chunk().unwrap());
        assert_eq!(back == i64::MAX, old_quantity == i32::MAX);
        assert_eq!(again[48..], new[48..]);
    }
}

#[test]
fn a_send_time_is_left_behind_and_other_kinds_are_refused() {
    let mut order = vec![3; 64];
    (order[0], order[1]) = (16, 0xA0);
    let new = upgraded(&order);
    assert_eq!((new[0], new.len()), (14, 56));
    let mut trade = vec![0; 48];
    trade[0] = 12;
    let mut out = Vec::new();
    assert!(!to_version_3(&RecordRef::new(&trade).unwrap(), &mut out));
    assert!(out.is_empty());
}
