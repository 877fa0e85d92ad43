//! A reservation as it is shown.

use std::fmt::{self, Write as _};

use quota_core::{
    event::Reservation,
    state::{End, Head, ReservationStatus},
};
use quota_semantics::{Timestamp, resource::ResourceList, uid::Uid};
use serde::Serialize;

/// The object that a reservation is for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct HolderView<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    uid: &'a Uid,
}

impl<'a> From<&'a Reservation> for HolderView<'a> {
    fn from(reservation: &'a Reservation) -> Self {
        Self {
            api_version: &reservation.api_version,
            kind: &reservation.kind,
            name: &reservation.name,
            uid: &reservation.uid,
        }
    }
}

/// A reservation, as it is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct Shown<'a> {
    namespace: &'a str,
    reserved_by: HolderView<'a>,
    reserved: &'a ResourceList,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
    created_time: Timestamp,
    expiration_time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<Head>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lagging: bool,
}

impl<'a> From<&'a ReservationStatus> for Shown<'a> {
    fn from(promise: &'a ReservationStatus) -> Self {
        Self::of(&promise.reservation, promise.end)
    }
}

impl<'a> Shown<'a> {
    pub(super) fn of(reservation: &'a Reservation, end: Option<(End, Timestamp)>) -> Self {
        let detail = match end {
            Some((End::Superseded, _)) => {
                Some("a newer reservation, or an object, of the same name took its place")
            }
            Some((End::Returned, _)) => Some("its holder gave back what it had committed"),
            _ => None,
        };
        Self {
            namespace: &reservation.namespace,
            reserved_by: reservation.into(),
            reserved: &reservation.footprint.resources,
            state: end.map_or("pending", |(end, _)| end.state()),
            detail,
            created_time: reservation.created,
            expiration_time: reservation.expiration,
            ended_time: end.map(|(_, time)| time),
            as_of: None,
            lagging: false,
        }
    }

    /// As it was when the ledger stood there.
    pub(super) fn at(self, head: Head, lagging: bool) -> Self {
        Self {
            as_of: Some(head),
            lagging,
            ..self
        }
    }
}

impl Shown<'_> {
    /// The same text that serde makes of it, in a fraction of the time: this is the answer that most callers wait for.
    pub(super) fn write(&self, out: &mut String) -> fmt::Result {
        out.push('{');
        self.write_fields(out)?;
        out.push('}');
        Ok(())
    }

    /// The fields alone, for an object that has others before them.
    pub(in crate::api) fn write_fields(&self, out: &mut String) -> fmt::Result {
        let HolderView {
            api_version,
            kind,
            name,
            uid,
        } = &self.reserved_by;
        field(out, "\"namespace\":", self.namespace);
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
        for (index, (name, quantity)) in self.reserved.iter().enumerate() {
            field(out, if index > 0 { "," } else { "" }, name);
            quoted(out, ":", &quantity.exact())?;
        }
        field(out, "},\"state\":", self.state);
        if let Some(detail) = self.detail {
            field(out, ",\"detail\":", detail);
        }
        timed(out, ",\"createdTime\":", self.created_time)?;
        timed(out, ",\"expirationTime\":", self.expiration_time)?;
        if let Some(ended) = self.ended_time {
            timed(out, ",\"endedTime\":", ended)?;
        }
        if let Some(head) = &self.as_of {
            write_head(out, head)?;
        }
        if self.lagging {
            out.push_str(LAGGING);
        }
        Ok(())
    }
}

/// The field that tells that a source is behind, behind other fields.
pub(in crate::api) const LAGGING: &str = ",\"lagging\":true";

/// Appends how far the ledger was, behind other fields.
pub(in crate::api) fn write_head(out: &mut String, Head { sequence, time }: &Head) -> fmt::Result {
    write!(out, ",\"asOf\":{{\"sequence\":{sequence}")?;
    timed(out, ",\"time\":", *time)?;
    out.push('}');
    Ok(())
}

/// Appends a field with a time, as [`in_microseconds`](quota_semantics::in_microseconds) has it.
fn timed(out: &mut String, key: &str, time: Timestamp) -> fmt::Result {
    quoted(out, key, &time.whole_microseconds())
}

/// Appends a field whose value never holds what has to be escaped.
fn quoted(out: &mut String, key: &str, value: &impl fmt::Display) -> fmt::Result {
    out.push_str(key);
    out.push('"');
    write!(out, "{value}")?;
    out.push('"');
    Ok(())
}

/// Appends a field that may hold any text.
fn field(out: &mut String, key: &str, text: &str) {
    out.push_str(key);
    let is_escaped = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
    // All of it, since that is quicker than to look for the first.
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
    use quota_semantics::{Span, in_microseconds, quantity::Quantity};

    use super::*;

    proptest! {
        #[test]
        fn it_is_shown_as_serde_would(
            texts in prop::array::uniform4(".{0,8}"),
            uid in "[!-~]{1,40}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            reserved in prop::collection::btree_map("[a-z./\"]{1,12}", "([1-9][0-9]{0,20}|[1-9]0{0,30})(m|k|Mi|e3|E|)", 0..4),
            times in prop::array::uniform4(any::<i64>()),
            options in prop::array::uniform4(any::<bool>()),
            sequence: u64,
        ) {
            let uid = Uid::new(&uid).unwrap();
            let reserved: ResourceList = reserved
                .iter()
                .map(|(name, text)| (name.as_str().into(), text.parse::<Quantity>().unwrap()))
                .collect();
            let [created_time, expiration_time, ended, time] =
                times.map(Timestamp::from_nanoseconds);
            let [detailed, over, known, lagging] = options;
            let shown = Shown {
                namespace: &texts[0],
                reserved_by: HolderView {
                    api_version: &texts[1],
                    kind: &texts[2],
                    name: &texts[3],
                    uid: &uid,
                },
                reserved: &reserved,
                state: "pending",
                detail: detailed.then_some("a \"newer\" one"),
                created_time,
                expiration_time: expiration_time.plus(Span::ZERO),
                ended_time: over.then_some(ended),
                as_of: known.then_some(Head { sequence, time }),
                lagging,
            };
            let mut text = String::new();
            shown.write(&mut text).unwrap();
            let plain = in_microseconds(|| serde_json::to_string(&shown));
            prop_assert_eq!(text, plain.unwrap());
        }
    }
}
