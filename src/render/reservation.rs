//! The wire form of a reservation.

use std::{borrow::Cow, fmt, io::Write as _};

use quota_client::wire::{AsOf, Holder, Reservation};
use quota_core::{
    event,
    state::{End, Head, ReservationState, ReservationStatus},
};
use quota_semantics::Timestamp;

/// The object that a reservation is for.
pub(crate) fn holder(reservation: &event::Reservation) -> Holder<'_> {
    Holder {
        api_version: Cow::Borrowed(&reservation.api_version),
        kind: Cow::Borrowed(&reservation.kind),
        name: Cow::Borrowed(&reservation.name),
        uid: Cow::Borrowed(&reservation.uid),
    }
}

/// A reservation as an item of a list.
pub(crate) fn item(
    reservation: &event::Reservation,
    end: Option<(End, Timestamp)>,
) -> Reservation<'_> {
    let detail = match end {
        Some((End::Superseded, _)) => {
            Some("a newer reservation, or an object, of the same name took its place")
        }
        Some((End::Returned, _)) => Some("its holder gave back what it had committed"),
        _ => None,
    };
    let state = end.map_or(ReservationState::Pending, |(end, _)| end.state());
    Reservation {
        namespace: Cow::Borrowed(&reservation.namespace),
        reserved_by: holder(reservation),
        reserved: Cow::Borrowed(&reservation.footprint.resources),
        state: Cow::Borrowed(state.as_str()),
        detail: detail.map(Cow::Borrowed),
        created_time: reservation.created,
        expiration_time: reservation.expiration,
        ended_time: end.map(|(_, time)| time),
        quotas: None,
        groups: Cow::Borrowed(&[]),
        unlimited: None,
        warnings: Cow::Borrowed(&[]),
        as_of: None,
        lagging: false,
    }
}

/// A reservation with its holder.
pub(crate) fn whole<'a>(status: &'a ReservationStatus, warnings: &'a [String]) -> Reservation<'a> {
    let item = item(&status.reservation, status.end);
    let Some(holding) = &status.holding else {
        return item;
    };
    Reservation {
        quotas: Some(Cow::Borrowed(&holding.quotas)),
        groups: Cow::Borrowed(&holding.groups),
        unlimited: Some(Cow::Borrowed(&holding.unlimited)),
        warnings: Cow::Borrowed(warnings),
        ..item
    }
}

/// Writes the same text as serde in a fraction of the time: most callers wait for this answer.
pub(crate) fn write(reservation: &Reservation<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    write_fields(reservation, out);
    out.push(b'}');
}

/// Writes the fields alone, for an object that begins with other fields.
pub(crate) fn write_fields(this: &Reservation<'_>, out: &mut Vec<u8>) {
    let Holder { api_version, kind, name, uid } = &this.reserved_by;
    field(out, "\"namespace\":", &this.namespace);
    put(out, ",\"reservedBy\":{");
    for (key, text) in [("\"apiVersion\":", api_version), ("\"kind\":", kind), ("\"name\":", name)]
    {
        if !text.is_empty() {
            field(out, key, text);
            out.push(b',');
        }
    }
    put(out, "\"uid\":");
    uid.with_text(|uid| quoted(out, uid));
    put(out, "},\"reserved\":{");
    for (index, (name, quantity)) in this.reserved.iter().enumerate() {
        field(out, if index > 0 { "," } else { "" }, name);
        put(out, ":\"");
        _ = quantity.write_exact(&mut Text(out));
        out.push(b'"');
    }
    field(out, "},\"state\":", &this.state);
    if let Some(detail) = &this.detail {
        field(out, ",\"detail\":", detail);
    }
    timed(out, ",\"createdTime\":", this.created_time);
    timed(out, ",\"expirationTime\":", this.expiration_time);
    if let Some(ended) = this.ended_time {
        timed(out, ",\"endedTime\":", ended);
    }
    if let Some(quotas) = &this.quotas {
        listed(out, ",\"quotas\":", quotas);
    }
    if !this.groups.is_empty() {
        listed(out, ",\"groups\":", &this.groups);
    }
    if let Some(unlimited) = &this.unlimited {
        listed(out, ",\"unlimited\":", unlimited);
    }
    if !this.warnings.is_empty() {
        listed(out, ",\"warnings\":", &this.warnings);
    }
    if let Some(AsOf { sequence, time }) = this.as_of {
        write_head(out, &Head { sequence, time });
    }
    if this.lagging {
        put(out, LAGGING);
    }
}

/// The field for a lagging source, to be appended after other fields.
pub(crate) const LAGGING: &str = ",\"lagging\":true";

/// Appends the position of the ledger after other fields.
pub(crate) fn write_head(out: &mut Vec<u8>, Head { sequence, time }: &Head) {
    // Writing to memory does not fail.
    _ = write!(out, ",\"asOf\":{{\"sequence\":{sequence}");
    timed(out, ",\"time\":", *time);
    out.push(b'}');
}

/// Appends a time field, in the format of [`in_microseconds`](quota_semantics::in_microseconds).
fn timed(out: &mut Vec<u8>, key: &str, time: Timestamp) {
    put(out, key);
    out.push(b'"');
    out.extend_from_slice(time.whole_microseconds().text().as_bytes());
    out.push(b'"');
}

/// Appends a field with a list of strings.
fn listed(out: &mut Vec<u8>, key: &str, texts: &[impl AsRef<str>]) {
    put(out, key);
    out.push(b'[');
    for (index, text) in texts.iter().enumerate() {
        field(out, if index > 0 { "," } else { "" }, text.as_ref());
    }
    out.push(b']');
}

/// Appends a field with any text.
fn field(out: &mut Vec<u8>, key: &str, text: &str) {
    put(out, key);
    quoted(out, text.as_bytes());
}

/// Appends a JSON string of a text in UTF-8.
fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    if has_escapes(text) {
        put(out, &serde_json::Value::from(String::from_utf8_lossy(text)).to_string());
    } else {
        out.push(b'"');
        out.extend_from_slice(text);
        out.push(b'"');
    }
}

/// Whether JSON escapes any byte of a text. Eight bytes are compared at once.
fn has_escapes(text: &[u8]) -> bool {
    const LOW: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // The highest bit of each byte that is below `limit`, of bytes in ASCII.
    let below = |bytes: u64, limit: u8| bytes.wrapping_sub(LOW * u64::from(limit)) & !bytes & HIGH;
    let equal = |bytes: u64, byte: u8| below(bytes ^ (LOW * u64::from(byte)), 1);
    let (words, rest) = text.as_chunks();
    let mut last = [b' '; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    words.fold(0, |any, word| {
        let bytes = u64::from_ne_bytes(*word);
        any | below(bytes, b' ') | equal(bytes, b'"') | equal(bytes, b'\\')
    }) != 0
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends formatted text.
struct Text<'a>(&'a mut Vec<u8>);

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        put(self.0, text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quota_semantics::{
        Name, Span, in_microseconds, quantity::Quantity, resource::ResourceList, uid::Uid,
    };

    use super::*;

    proptest! {
        #[test]
        fn bytes_to_escape_are_found_wherever_they_are(text in "[ -~ü\\x00-\\x20\"\\\\]{0,20}") {
            let escaped = serde_json::to_string(&text).unwrap().len() != text.len() + 2;
            prop_assert_eq!(has_escapes(text.as_bytes()), escaped);
        }

        #[test]
        fn it_is_shown_as_serde_would(
            texts in prop::array::uniform4(".{0,8}"),
            uid in "[!-~]{1,40}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            reserved in prop::collection::btree_map("[a-z./\"]{1,12}", "([1-9][0-9]{0,20}|[1-9]0{0,30})(m|k|Mi|e3|E|)", 0..4),
            times in prop::array::uniform4(any::<i64>()),
            options in prop::array::uniform4(any::<bool>()),
            names in prop::option::of(prop::collection::vec(".{0,6}", 0..3)),
            sequence: u64,
        ) {
            let uid = Uid::new(&uid).unwrap();
            let reserved: ResourceList = reserved
                .iter()
                .map(|(name, text)| (name.as_str().into(), text.parse::<Quantity>().unwrap()))
                .collect();
            let [created_time, expiration_time, ended, time] =
                times.map(Timestamp::from_nanoseconds);
            let [detailed, over, positioned, lagging] = options;
            let listed: Vec<Name> = names.iter().flatten().map(|name| name.as_str().into()).collect();
            let warnings = names.clone().unwrap_or_default();
            let shown = Reservation {
                namespace: Cow::Borrowed(&texts[0]),
                reserved_by: Holder {
                    api_version: Cow::Borrowed(&texts[1]),
                    kind: Cow::Borrowed(&texts[2]),
                    name: Cow::Borrowed(&texts[3]),
                    uid: Cow::Owned(uid),
                },
                reserved: Cow::Owned(reserved),
                state: Cow::Borrowed("pending"),
                detail: detailed.then_some(Cow::Borrowed("a \"newer\" one")),
                created_time,
                expiration_time: expiration_time.plus(Span::ZERO),
                ended_time: over.then_some(ended),
                quotas: names.is_some().then_some(Cow::Borrowed(&listed)),
                groups: Cow::Borrowed(&listed),
                unlimited: names.is_some().then_some(Cow::Borrowed(&listed)),
                warnings: Cow::Borrowed(&warnings),
                as_of: positioned.then_some(AsOf { sequence, time }),
                lagging,
            };
            let mut text = Vec::new();
            write(&shown, &mut text);
            let plain = in_microseconds(|| serde_json::to_string(&shown));
            prop_assert_eq!(String::from_utf8(text).unwrap(), plain.unwrap());
        }
    }
}
