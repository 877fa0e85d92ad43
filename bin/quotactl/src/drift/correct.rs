//! Corrections, sent piece by piece.

use quota_client::{
    http::Address,
    wire::{
        CorrectionOutcome, CorrectionRequest, CorrectionsAnswer, CorrectionsRequest, ExpectedObject,
    },
};
use quota_semantics::uid::Uid;
use serde_json::{Value, value::RawValue};

use super::Difference;
use crate::{
    client::read,
    failure::{Failure, Outcome},
    session::{Session, text},
};

/// Corrections are sent when there are so many…
const PIECE_ITEMS: usize = 1000;

/// …or so many bytes of objects.
const PIECE_BYTES: usize = 512 * 1024;

/// Puts differences right; answers what became of each.
pub(super) fn correct(
    session: &Session,
    differences: &[Difference],
    reason: &str,
) -> Outcome<Vec<CorrectionOutcome>> {
    let mut outcomes = Vec::with_capacity(differences.len());
    let (mut piece, mut bytes) = (Vec::new(), 0_usize);
    for difference in differences {
        let length = difference.object.as_ref().map_or(0, |text| text.len());
        if piece.len() == PIECE_ITEMS || bytes.saturating_add(length) > PIECE_BYTES {
            outcomes.extend(send(
                session,
                reason,
                std::mem::take(&mut piece),
                outcomes.len(),
            )?);
            bytes = 0;
        }
        bytes += length;
        piece.push(wish(difference)?);
    }
    outcomes.extend(send(session, reason, piece, outcomes.len())?);
    Ok(outcomes)
}

fn wish(difference: &Difference) -> Outcome<CorrectionRequest<'_>> {
    let Difference { shown, object } = difference;
    let object: Option<&RawValue> = match object {
        Some(text) => Some(serde_json::from_str(text).map_err(not_json)?),
        None => None,
    };
    let known = shown.get("known").map(|known| ExpectedObject {
        sequence: known["sequence"].as_u64().unwrap_or_default(),
        resource_version: Some(text(known, "/resourceVersion").to_owned())
            .filter(|text| !text.is_empty()),
    });
    // Of one that took another's name nothing is known itself.
    let is_known = text(shown, "/difference") != "recreated";
    let (uid, namespace) = match object {
        Some(_) => (None, None),
        None => {
            let uid = Uid::new(text(shown, "/uid"));
            let uid = uid.map_err(|error| Failure::general(error.to_string()))?;
            (Some(uid), Some(text(shown, "/namespace").into()))
        }
    };
    Ok(CorrectionRequest {
        object,
        uid,
        namespace,
        known: known.filter(|_| is_known),
        quota_sequence: shown.pointer("/quota/sequence").and_then(Value::as_u64),
    })
}

fn not_json(error: serde_json::Error) -> Failure {
    Failure::general(error.to_string())
}

fn send(
    session: &Session,
    reason: &str,
    items: Vec<CorrectionRequest<'_>>,
    done: usize,
) -> Outcome<Vec<CorrectionOutcome>> {
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let count = items.len();
    let body = CorrectionsRequest {
        reason: Some(reason.to_owned()),
        items,
    };
    let body = serde_json::to_vec(&body).map_err(not_json)?;
    let address = Address::of(["v1", "corrections"]);
    let client = &session.client;
    let sent = client.send_patiently(&address, "application/json", body);
    let reply = sent.map_err(|failure| match done {
        0 => failure,
        _ => failure.hint(format!(
            "{done} corrections were made; to compare and correct again is safe"
        )),
    })?;
    let answer: CorrectionsAnswer = read(&reply.body)?;
    let outcomes: Vec<_> = answer.items.iter().map(|item| item.outcome).collect();
    match outcomes.len() == count {
        true => Ok(outcomes),
        false => Err(Failure::general("the answer is not about what was asked")),
    }
}
