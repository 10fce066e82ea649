//! Makes the code of the schema.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=schema/mdp.xml");
    let code = tidewire_sbe_schema::rust_code(&std::fs::read_to_string("schema/mdp.xml")?)?;
    let folder = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(folder.join("schema.rs"), code)?;
    Ok(())
}
