//! `explain`: the objects and reservations behind a number.

use quota_client::http::Address;
use quota_client::table::beside;
use quota_client::wire::{Contribution, Explanation, Kind};

use super::{
    age,
    args::Explain,
    failure::Outcome,
    figures::{percent, share},
    session::Session,
    table::Table,
    terminal_text::one_line,
};

/// Shows the sums of a resource, then the objects and reservations behind them.
pub(crate) fn run(session: &Session, args: &Explain) -> Outcome {
    let namespace = session.scope.of_one("an explanation")?;
    let address = Address::in_namespace(namespace, ["explain"])
        .with("resource", &args.resource)
        .with_some("quota", args.quota.as_ref());
    let answer = session
        .client
        .list::<Explanation>(&args.when.of(address), Some(args.limit))?;
    let explained = answer.content;
    session.note_lag(explained.lagging);
    if !session.output.is_structured() && !session.output.is_names() {
        session.output.line(one_line(&summary(&explained)))?;
    }
    session.output.answer(
        &answer.json,
        || explained.items.iter().map(name).collect(),
        |wide| table(&explained, wide),
    )
}

fn name(part: &Contribution) -> String {
    match part.kind {
        Kind::Object | Kind::Commit => format!("{}/{}", part.resource, part.name),
        Kind::Reservation => format!("reservation/{}", part.uid),
    }
}

/// As in `requests.cpu of quota compute in team-a: 3 used + 1 reserved of 10 (40%)`.
fn summary(explained: &Explanation) -> String {
    let Explanation {
        namespace,
        quota,
        resource,
        hard,
        used,
        reserved,
        ..
    } = explained;
    let of = quota
        .as_ref()
        .map(|quota| format!(" of quota {quota}"))
        .unwrap_or_default();
    let limit = hard.as_ref().map(|hard| {
        let share = percent(share(hard, used, reserved));
        format!(" of {} ({share})", hard.exact())
    });
    format!(
        "{resource}{of} in {namespace}: {} used + {} reserved{}",
        beside(Some(used), hard.as_ref().unwrap_or(used)),
        beside(Some(reserved), hard.as_ref().unwrap_or(used)),
        limit.unwrap_or_default()
    )
}

fn table(explained: &Explanation, wide: bool) -> Table {
    let now = age::now();
    let kind = |part: &Contribution| match part.kind {
        Kind::Object => "object".to_owned(),
        Kind::Commit => "commit".to_owned(),
        Kind::Reservation => "reservation".to_owned(),
    };
    let expires = |part: &Contribution| match part.expiration_time {
        Some(time) => age::left(time, now),
        None => "-".to_owned(),
    };
    Table::of(
        &explained.items,
        &[
            (true, "KIND", &kind),
            (true, "RESOURCE", &|it| it.resource.to_string()),
            (true, "NAME", &|it| it.name.to_string()),
            (true, ">AMOUNT", &|it| {
                beside(
                    Some(&it.amount),
                    explained.hard.as_ref().unwrap_or(&it.amount),
                )
            }),
            (true, ">ENTRY", &|it| it.sequence.to_string()),
            (true, "EXPIRES", &expires),
            (wide, "UID", &|it| it.uid.to_string()),
        ],
    )
}
