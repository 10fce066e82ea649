//! `docs/parameters.md` says what the table says.

use tidewire_redis::Parameters;

const PAGE: &str = include_str!("../../../docs/parameters.md");

#[test]
fn the_page_has_the_tables_of_the_code() {
    let tables = Parameters::page();
    if !tables.iter().all(|table| PAGE.contains(table)) {
        let path = std::env::temp_dir().join("tidewire-parameters.md");
        std::fs::write(&path, tables.join("\n")).unwrap();
        let missing = tables.iter().flat_map(|table| table.lines());
        let missing = missing.filter(|row| !PAGE.contains(row));
        let missing: Vec<_> = missing.take(3).collect();
        panic!(
            "{missing:#?}\nboth tables as they should be: {}",
            path.display()
        );
    }
}
