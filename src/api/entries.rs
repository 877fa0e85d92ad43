//! The ledger's entries, and the dead letters among them.

use axum::{extract::State, response::Response};
use quota_client::wire::DeadLetter;
use quota_core::{
    event::{Entry, Sequence},
    size,
};
use serde::Deserialize;

use super::{
    App, Caller, answer,
    history::{Namespaced, Order, Walk, walk},
    page::{self, PageQuery, Params, token},
    problem::Problem,
    subjects::{self, Shown},
};
use crate::{
    auth::Principal,
    fairness::{BYTES_PER_AMOUNT, Permit, Turn},
};

#[derive(Debug, Default, Deserialize)]
pub(super) struct EntriesQuery {
    from: Option<Sequence>,
    limit: Option<usize>,
    namespace: Option<String>,
    #[serde(default)]
    order: Order,
    #[serde(rename = "continue")]
    after: Option<String>,
}

/// `GET /v1/entries`: in order, from `from` on; with `order=desc` the newest first, from `from` back. A page
/// may be shorter than requested, and even empty, while there is more.
pub(super) async fn list(
    State(app): State<App>,
    Caller(actor): Caller,
    caller: Principal,
    Params(query): Params<EntriesQuery>,
) -> Result<Response, Problem> {
    let permit = Permit::to_read(&actor.principal)?;
    let limit = page::limit(query.limit, app.page)?;
    let token_from: Option<Sequence> = page::after(query.after.as_deref())?;
    let from = token_from.or(query.from);
    let head = app.ledger.read(quota_core::state::State::head).await?;
    let wanted = Namespaced::new(query.namespace, &caller);
    let pick = move |entry| wanted.keeps(&entry).then(|| wanted.shown(entry));
    let from = match query.order {
        Order::Asc => from.unwrap_or_else(|| app.reader.first_sequence()),
        Order::Desc => from.unwrap_or(head.sequence).min(head.sequence),
    };
    let walked = walk(&app, &actor.principal, (from, query.order), limit, pick);
    let (Walk { found, next, .. }, turn) = walked.await?;
    let next = next.map(|next| token(&next)).transpose()?;
    let bytes: usize = found.iter().map(|entry| size::of_event(&entry.event)).sum();
    let (found, turn) = match subjects::are_unnamed(found.iter()) {
        true => subjects::named(&app, found, true, turn).await?,
        false => (found.into_iter().map(Shown::plain).collect(), turn),
    };
    let make = move |turn: &Turn| answer::large(turn, &app.page_of(found, next, head));
    let answer = permit.make(bytes / BYTES_PER_AMOUNT, make).await;
    // Until here the entries are in memory: the bound on readers is also a bound on them.
    drop(turn);
    Ok(answer)
}

/// `GET /v1/dead-letters`: newest first.
pub(super) async fn dead_letters(
    State(app): State<App>,
    Caller(actor): Caller,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    let permit = Permit::to_read(&actor.principal)?;
    let limit = query.limit(app.page)?;
    let before: Option<Sequence> = query.after()?;
    let read = app.ledger.read(|state| {
        let older = state.dead_letters().rev();
        let older = older.filter(|sequence| before.is_none_or(|before| *sequence < before));
        (older.take(limit + 1).collect::<Vec<_>>(), state.head())
    });
    let (mut sequences, head) = read.await?;
    let next = page::cut(&mut sequences, limit, token)?;
    let mut items: Vec<DeadLetter> = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        // Compacted entries are no longer available.
        if sequence >= app.reader.first_sequence() {
            let place = (sequence, Order::Asc);
            let (read, _) = walk(&app, &actor.principal, place, 1, letter).await?;
            items.extend(read.found);
        }
    }
    let bytes: usize = items.iter().map(|letter| letter.payload.len()).sum();
    let make = move |turn: &Turn| answer::large(turn, &app.page_of(items, next, head));
    Ok(permit.make(bytes / BYTES_PER_AMOUNT, make).await)
}

fn letter(entry: Entry) -> Option<DeadLetter> {
    let letter = entry.event.dead_letter()?.clone();
    Some(DeadLetter {
        sequence: entry.sequence,
        time: entry.time,
        source: letter.source.to_string(),
        position: letter.position,
        reason: letter.reason.into(),
        payload: letter.payload.into(),
    })
}
