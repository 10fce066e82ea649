//! Makes the code of the tests' schema.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=tests/schema.xml");
    let code = tidewire_sbe_schema::rust_code(&std::fs::read_to_string("tests/schema.xml")?)?;
    let folder = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(folder.join("tests_schema.rs"), code)?;
    Ok(())
}
