//! Listings of objects, as `quotactl drift` reads them.

use std::io::Read;

use quotactl::objects_of;

/// Reads its bytes one by one.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(1);
        self.0.read(&mut buffer[..most])
    }
}

/// Reads the input as a listing, in one piece and byte by byte: with the same result. Every item is an object, and the
/// objects written one by one are the same listing.
pub fn run(data: &[u8]) {
    let read = objects_of(data);
    assert_eq!(read, objects_of(Trickle(data)));
    let objects = match read {
        Ok(objects) => objects,
        Err(why) => return assert!(!why.is_empty()),
    };
    let object = |text: &str| {
        let fields: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).unwrap();
        fields
    };
    // An object with items of its own would be read as a list.
    if objects.iter().any(|text| object(text).contains_key("items")) {
        return;
    }
    let all = format!("[{}]", objects.join(","));
    assert_eq!(objects_of(all.as_bytes()), Ok(objects));
}
