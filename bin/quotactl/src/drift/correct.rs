//! Corrections, sent piece by piece.

use quota_client::http::Address;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::Difference;
use crate::{
    failure::{Failure, Outcome},
    session::{Session, items, text},
};

/// Corrections are sent when there are so many…
const PIECE_ITEMS: usize = 1000;

/// …or so many bytes of objects.
const PIECE_BYTES: usize = 512 * 1024;

#[derive(Serialize)]
struct Body<'a> {
    reason: &'a str,
    items: &'a [CorrectionRequest<'a>],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CorrectionRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<ExpectedObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota_sequence: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExpectedObject<'a> {
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
}

/// Puts differences right; answers what became of each.
pub(super) fn correct(
    session: &Session,
    differences: &[Difference],
    reason: &str,
) -> Outcome<Vec<String>> {
    let mut outcomes = Vec::with_capacity(differences.len());
    let (mut piece, mut bytes) = (Vec::new(), 0_usize);
    for difference in differences {
        let length = difference.object.as_ref().map_or(0, |text| text.len());
        if piece.len() == PIECE_ITEMS || bytes.saturating_add(length) > PIECE_BYTES {
            outcomes.extend(send(session, reason, &piece, outcomes.len())?);
            piece.clear();
            bytes = 0;
        }
        bytes += length;
        piece.push(wish(difference)?);
    }
    outcomes.extend(send(session, reason, &piece, outcomes.len())?);
    Ok(outcomes)
}

fn wish(difference: &Difference) -> Outcome<CorrectionRequest<'_>> {
    let Difference { shown, object } = difference;
    let known = shown.get("known").map(|known| ExpectedObject {
        sequence: known["sequence"].as_u64().unwrap_or_default(),
        resource_version: Some(text(known, "/resourceVersion")).filter(|text| !text.is_empty()),
    });
    let not_json = |error: serde_json::Error| Failure::general(error.to_string());
    let object: Option<&RawValue> = match object {
        Some(text) => Some(serde_json::from_str(text).map_err(not_json)?),
        None => None,
    };
    // Of one that took another's name nothing is known itself.
    let is_known = text(shown, "/difference") != "recreated";
    Ok(CorrectionRequest {
        uid: object.is_none().then(|| text(shown, "/uid")),
        namespace: object.is_none().then(|| text(shown, "/namespace")),
        object,
        known: known.filter(|_| is_known),
        quota_sequence: shown.pointer("/quota/sequence").and_then(Value::as_u64),
    })
}

fn send(
    session: &Session,
    reason: &str,
    piece: &[CorrectionRequest<'_>],
    done: usize,
) -> Outcome<Vec<String>> {
    if piece.is_empty() {
        return Ok(Vec::new());
    }
    let body = Body {
        reason,
        items: piece,
    };
    let body = serde_json::to_vec(&body).map_err(|error| Failure::general(error.to_string()))?;
    let address = Address::of(["v1", "corrections"]);
    let client = &session.client;
    let sent = client.send_patiently(&address, "application/json", body);
    let reply = sent.map_err(|failure| match done {
        0 => failure,
        _ => failure.hint(format!(
            "{done} corrections were made; to compare and correct again is safe"
        )),
    })?;
    let outcome = |item: &Value| text(item, "/outcome").to_owned();
    let outcomes: Vec<_> = items(&reply.body).iter().map(outcome).collect();
    match outcomes.len() == piece.len() {
        true => Ok(outcomes),
        false => Err(Failure::general("the answer is not about what was asked")),
    }
}
