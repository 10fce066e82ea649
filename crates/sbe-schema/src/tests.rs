//! Schemas that are refused, and names.

use crate::names::{constant, group, snake};
use crate::{SchemaError, rust_code};

/// Returns a schema with the given types and messages.
fn schema(types: &str, messages: &str) -> String {
    format!(
        "<messageSchema package='t' id='1' version='2'><types>\
         <composite name='messageHeader'>\
         <type name='blockLength' primitiveType='uint16'/>\
         <type name='templateId' primitiveType='uint16'/>\
         <type name='schemaId' primitiveType='uint16'/>\
         <type name='version' primitiveType='uint16'/></composite>\
         <composite name='size'><type name='blockLength' primitiveType='uint16'/>\
         <type name='numInGroup' primitiveType='uint8'/></composite>{types}</types>\
         {messages}</messageSchema>"
    )
}

fn refusal(types: &str, messages: &str) -> String {
    rust_code(&schema(types, messages)).unwrap_err().to_string()
}

#[test]
fn names_become_rust_names() {
    let names = [
        ("MDEntryPx", "md_entry_px"),
        ("CFICode", "cfi_code"),
        ("OrderID", "order_id"),
        ("InstrumentGUID", "instrument_guid"),
        ("MDUpdateAction", "md_update_action"),
        ("Type", "type_"),
    ];
    for (name, expected) in names {
        assert_eq!(snake(name), expected);
    }
    assert_eq!(group("NoMDEntries"), "md_entries");
    assert_eq!(group("Notes"), "notes");
    assert_eq!(constant("ImpliedMatchingON"), "IMPLIED_MATCHING_ON");
    assert_eq!(constant("1Day"), "VALUE_1_DAY");
}

#[test]
fn a_field_that_overlaps_or_leaves_its_block_is_refused() {
    let fields = "<message name='M' id='1' blockLength='4'>\
                  <field name='A' id='1' type='uint32' offset='0'/>\
                  <field name='B' id='2' type='uint8' offset='3'/></message>";
    assert_eq!(
        refusal("", fields),
        "<field name='B'>: its offset is within the field before it"
    );
    let fields = "<message name='M' id='1' blockLength='3'>\
                  <field name='A' id='1' type='uint32'/></message>";
    assert_eq!(
        refusal("", fields),
        "<message name='M'>: its blockLength is less than its fields"
    );
}

#[test]
fn what_the_generator_lacks_is_named() {
    let data = "<message name='M' id='1'><data name='D' id='1' type='size'/></message>";
    assert_eq!(
        refusal("", data),
        "'D': data of variable length is not supported"
    );
    let nested = "<message name='M' id='1'><group name='G' id='1' dimensionType='size'>\
                  <group name='H' id='2' dimensionType='size'/></group></message>";
    assert_eq!(
        refusal("", nested),
        "'G': a group within a group is not supported"
    );
    let big = schema("", "").replace("version='2'", "version='2' byteOrder='bigEndian'");
    assert_eq!(
        rust_code(&big).unwrap_err().to_string(),
        "'': a big-endian schema is not supported"
    );
    let array = "<type name='A' primitiveType='int32' length='2'/>";
    assert_eq!(
        refusal(array, ""),
        "'A': an array of numbers is not supported"
    );
}

#[test]
fn what_is_undefined_or_unreadable_is_named() {
    let field = "<message name='M' id='1'><field name='A' id='1' type='Price'/></message>";
    assert_eq!(
        refusal("", field),
        "<field name='A'>: its type is not defined"
    );
    assert!(matches!(rust_code("<a"), Err(SchemaError::Xml(_))));
    let bit = "<set name='S' encodingType='uint8'><choice name='C'>8</choice></set>";
    assert_eq!(
        refusal(bit, ""),
        "<choice name='C'>: a bit that the encoding does not have"
    );
    let name = "<type name='a;b' primitiveType='int8'/>";
    assert_eq!(refusal(name, ""), "<type name='a;b'>: invalid name");
}

#[test]
fn the_code_is_the_same_each_time() {
    let message = "<message name='M' id='7'><field name='A' id='1' type='uint32'/></message>";
    let code = rust_code(&schema("", message)).unwrap();
    assert_eq!(code, rust_code(&schema("", message)).unwrap());
    assert!(code.contains("pub const TEMPLATE_ID: u16 = 7;"));
}
