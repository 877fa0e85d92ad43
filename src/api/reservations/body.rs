//! The wire form of a reservation.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
};

use quota_client::wire::{AsOf, Holder, Reservation};
use quota_core::{
    event,
    state::{End, Head, ReservationState, ReservationStatus},
};
use quota_semantics::Timestamp;

/// The object that a reservation is for.
pub(in crate::api) fn holder(reservation: &event::Reservation) -> Holder<'_> {
    Holder {
        api_version: Cow::Borrowed(&reservation.api_version),
        kind: Cow::Borrowed(&reservation.kind),
        name: Cow::Borrowed(&reservation.name),
        uid: Cow::Borrowed(&reservation.uid),
    }
}

/// A reservation as an item of a list.
pub(super) fn item(
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
pub(in crate::api) fn whole<'a>(
    status: &'a ReservationStatus,
    warnings: &'a [String],
) -> Reservation<'a> {
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
pub(super) fn write(reservation: &Reservation<'_>, out: &mut String) -> fmt::Result {
    out.push('{');
    write_fields(reservation, out)?;
    out.push('}');
    Ok(())
}

/// Writes the fields alone, for an object that begins with other fields.
pub(in crate::api) fn write_fields(this: &Reservation<'_>, out: &mut String) -> fmt::Result {
    let Holder {
        api_version,
        kind,
        name,
        uid,
    } = &this.reserved_by;
    field(out, "\"namespace\":", &this.namespace);
    out.push_str(",\"reservedBy\":{");
    for (key, text) in [
        ("\"apiVersion\":", api_version),
        ("\"kind\":", kind),
        ("\"name\":", name),
    ] {
        if !text.is_empty() {
            field(out, key, text);
            out.push(',');
        }
    }
    field(out, "\"uid\":", &uid.to_string());
    out.push_str("},\"reserved\":{");
    for (index, (name, quantity)) in this.reserved.iter().enumerate() {
        field(out, if index > 0 { "," } else { "" }, name);
        out.push_str(":\"");
        quantity.write_exact(out)?;
        out.push('"');
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
        write_head(out, &Head { sequence, time })?;
    }
    if this.lagging {
        out.push_str(LAGGING);
    }
    Ok(())
}

/// The field for a lagging source, to be appended after other fields.
pub(in crate::api) const LAGGING: &str = ",\"lagging\":true";

/// Appends the position of the ledger after other fields.
pub(in crate::api) fn write_head(out: &mut String, Head { sequence, time }: &Head) -> fmt::Result {
    write!(out, ",\"asOf\":{{\"sequence\":{sequence}")?;
    timed(out, ",\"time\":", *time);
    out.push('}');
    Ok(())
}

/// Appends a time field, in the format of [`in_microseconds`](quota_semantics::in_microseconds).
fn timed(out: &mut String, key: &str, time: Timestamp) {
    out.push_str(key);
    out.push('"');
    out.push_str(time.whole_microseconds().text().as_str());
    out.push('"');
}

/// Appends a field with a list of strings.
fn listed(out: &mut String, key: &str, texts: &[impl AsRef<str>]) {
    out.push_str(key);
    out.push('[');
    for (index, text) in texts.iter().enumerate() {
        field(out, if index > 0 { "," } else { "" }, text.as_ref());
    }
    out.push(']');
}

/// Appends a field with any text.
fn field(out: &mut String, key: &str, text: &str) {
    out.push_str(key);
    let is_escaped = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
    // Scans the whole text, since that is faster than an early exit.
    if text.bytes().fold(false, |any, byte| any | is_escaped(byte)) {
        out.push_str(&serde_json::Value::from(text).to_string());
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
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
            let mut text = String::new();
            write(&shown, &mut text).unwrap();
            let plain = in_microseconds(|| serde_json::to_string(&shown));
            prop_assert_eq!(text, plain.unwrap());
        }
    }
}
