//! Corrections, which are sent piece by piece.

use quota_client::{
    http::Address,
    wire::{
        CorrectionOutcome, CorrectionRequest, CorrectionsAnswer, CorrectionsRequest, Difference,
        ExpectedObject, Object,
    },
};

use super::Drifted;
use crate::{
    failure::{Failure, Outcome},
    session::Session,
};

/// The maximum number of corrections of a request.
const PIECE_ITEMS: usize = 1000;

/// The maximum size of the objects of a request, in bytes.
const PIECE_BYTES: usize = 512 * 1024;

/// Corrects differences; returns the outcome of each.
pub(super) fn correct(
    session: &Session,
    differences: &[Drifted],
    reason: &str,
) -> Outcome<Vec<CorrectionOutcome>> {
    let mut outcomes = Vec::with_capacity(differences.len());
    let (mut piece, mut bytes) = (Vec::new(), 0_usize);
    for difference in differences {
        let length = match difference {
            Drifted::Listed { text, .. } => text.len(),
            Drifted::Gone(_) => 0,
        };
        if piece.len() == PIECE_ITEMS || bytes.saturating_add(length) > PIECE_BYTES {
            outcomes.extend(send(session, reason, std::mem::take(&mut piece), outcomes.len())?);
            bytes = 0;
        }
        bytes += length;
        piece.push(correction(difference)?);
    }
    outcomes.extend(send(session, reason, piece, outcomes.len())?);
    Ok(outcomes)
}

fn correction(drifted: &Drifted) -> Outcome<CorrectionRequest<'_>> {
    Ok(match drifted {
        Drifted::Listed { compared, text } => {
            // An object that took another's name has no record of its own.
            let is_recorded = compared.difference != Difference::Recreated;
            let recorded = compared.known.as_ref().filter(|_| is_recorded);
            CorrectionRequest {
                object: Some(serde_json::from_str(text).map_err(not_json)?),
                known: recorded.map(expected),
                quota_sequence: compared.quota.as_ref().and_then(|quota| quota.sequence),
                ..CorrectionRequest::default()
            }
        }
        Drifted::Gone(object) => CorrectionRequest {
            uid: Some((*object.uid).clone()),
            namespace: Some((&*object.namespace).into()),
            known: Some(expected(object)),
            ..CorrectionRequest::default()
        },
    })
}

/// The ledger's record of an object at the time of the comparison.
fn expected(object: &Object<'_>) -> ExpectedObject {
    ExpectedObject {
        sequence: object.sequence.unwrap_or_default(),
        resource_version: object.resource_version.clone(),
    }
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
    let body = CorrectionsRequest { reason: Some(reason.to_owned()), items };
    let body = serde_json::to_vec(&body).map_err(not_json)?;
    let address = Address::of(["v1", "corrections"]);
    let client = &session.client;
    let sent = client.send_patiently(&address, "application/json", body);
    let reply = sent.map_err(|failure| match done {
        0 => failure,
        _ => failure
            .hint(format!("{done} corrections were made; to compare and correct again is safe")),
    })?;
    let answer: CorrectionsAnswer = reply.read()?;
    let outcomes: Vec<_> = answer.items.iter().map(|item| item.outcome).collect();
    match outcomes.len() == count {
        true => Ok(outcomes),
        false => Err(Failure::general("the response does not match the request")),
    }
}
