//! Golden bytes: version 1 of the formats, byte for byte. The files never change while version 1 can be read.

use std::path::Path;

/// Compares with the golden file `golden/NAME.hex`.
pub(super) fn check(name: &str, bytes: &[u8]) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/golden").join(name).with_extension("hex");
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(hex(bytes), golden.trim(), "{}", path.display());
}

/// The bytes of a golden file, for what is compressed: another version of the library may compress it otherwise.
pub(super) fn bytes(name: &str) -> Vec<u8> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/golden").join(name).with_extension("hex");
    let text = std::fs::read_to_string(path).unwrap();
    let digits = text.trim();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
