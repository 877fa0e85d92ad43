//! `describe`: one object in detail. For a quota, the output of `kubectl describe quota` with a column for reserved
//! amounts.

mod namespace;
mod reservation;

pub(crate) use namespace::namespace;
pub(crate) use reservation::reservation;

use quota_client::wire::{Quota, QuotaReservation};
use quota_semantics::{Name, quantity::Quantity};

use crate::{
    age,
    failure::Outcome,
    get::{fetch_quotas, scopes},
    reservation as held,
    session::Session,
    terminal_text::one_line,
    unit::{Units, beside},
};

/// Describes one quota, or all of a namespace or of all namespaces.
pub(crate) fn quotas(session: &Session, name: Option<&str>) -> Outcome {
    let (answer, lagging) = fetch_quotas(session, name)?;
    let quotas = answer.content;
    if quotas.is_empty() {
        session.note_empty();
    }
    session.note_lag(lagging);
    if session.output.is_structured() {
        return session.output.value(&answer.json);
    }
    let texts: Vec<_> = quotas.iter().map(describe).collect();
    match texts.is_empty() {
        true => Ok(()),
        false => session.output.line(texts.join("\n\n\n")),
    }
}

/// kubectl's explanation of a scope.
fn explanation(scope: &str) -> Option<&'static str> {
    Some(match scope.split(' ').next()? {
        "Terminating" => {
            "Matches all pods that have an active deadline. These pods have a limited lifespan on a node before being actively terminated by the system."
        }
        "NotTerminating" => {
            "Matches all pods that do not have an active deadline. These pods usually include long running pods whose container command is not expected to terminate."
        }
        "BestEffort" => {
            "Matches all pods that do not have resource requirements set. These pods have a best effort quality of service."
        }
        "NotBestEffort" => {
            "Matches all pods that have at least one resource requirement set. These pods have a burstable or guaranteed quality of service."
        }
        "PriorityClass" => "Matches all pods that have a priority class named here.",
        "CrossNamespacePodAffinity" => {
            "Matches all pods that have affinity terms about pods of other namespaces."
        }
        "VolumeAttributesClass" => {
            "Matches all volume claims that have a volume attributes class named here."
        }
        _ => return None,
    })
}

fn describe(quota: &Quota<'_>) -> String {
    let mut rows = vec![
        ["Resource", "Used", "Reserved", "Hard"].map(str::to_owned),
        ["--------", "----", "--------", "----"].map(str::to_owned),
    ];
    let limits = quota.limits();
    let units = Units::of(limits.iter().map(|limit| (limit.resource, limit.hard)));
    for limit in &limits {
        let show = |amount: &Quantity| units.show(limit.resource, amount);
        let [used, reserved] =
            [limit.used, limit.reserved].map(|it| it.map_or_else(|| "0".to_owned(), show));
        rows.push([limit.resource.to_owned(), used, reserved, show(limit.hard)]);
    }
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].len())
            .max()
            .unwrap_or_default()
    };
    // kubectl's columns begin at the same place in the heading and in the table.
    let [first, used, reserved] = [width(0).max("Namespace:".len()), width(1), width(2)];

    let scopes = scopes(quota);
    let mut lines = vec![
        format!("{:first$}  {}", "Name:", quota.metadata.name),
        format!("{:first$}  {}", "Namespace:", quota.metadata.namespace),
    ];
    if !scopes.is_empty() {
        lines.push(format!("{:first$}  {}", "Scopes:", scopes.join(", ")));
        let explained = scopes.iter().filter_map(|scope| explanation(scope));
        lines.extend(explained.map(|text| format!(" * {text}")));
    }
    lines.extend(
        rows.iter()
            .map(|[a, b, c, d]| format!("{a:first$}  {b:used$}  {c:reserved$}  {d}")),
    );
    lines.extend(reservations(quota));
    let lines: Vec<_> = lines.iter().map(|line| one_line(line)).collect();
    lines.join("\n")
}

/// The lines for a quota's pending reservations.
fn reservations(quota: &Quota<'_>) -> Vec<String> {
    let pending = &quota.status.reservations;
    if pending.is_empty() {
        return Vec::new();
    }
    let now = age::now();
    let line = |reservation: &QuotaReservation<'_>| {
        let uid = &reservation.reserved_by.uid;
        let holder = match held::holder(&reservation.reserved_by).as_str() {
            "" => uid.to_string(),
            holder => format!("{holder} ({uid})"),
        };
        let expires = age::left(reservation.expiration_time, now);
        let limits = quota.limits();
        let shown = |(resource, amount): (&Name, &Quantity)| {
            let limit = limits.iter().find(|limit| limit.resource == &**resource);
            let hard = limit.map_or(amount, |limit| limit.hard);
            format!("{resource}={}", beside(resource, amount, hard))
        };
        let amounts = reservation.reserved.iter().map(shown);
        let amounts = amounts.collect::<Vec<_>>().join(",");
        format!("  {holder}: {amounts}, expires in {expires}")
    };
    let heading = std::iter::once("Reservations:".to_owned());
    let omitted = quota.status.reservations_omitted;
    let rest = (omitted > 0).then(|| format!("  and up to {omitted} more"));
    heading
        .chain(pending.iter().map(line))
        .chain(rest)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_quota_is_described_as_kubectl_does() {
        let quota = json!({
            "metadata": {"name": "rq", "namespace": "wire"},
            "spec": {"scopes": ["BestEffort"]},
            "status": {
                "hard": {"pods": "10", "requests.example.com/gpu": "2"},
                "used": {"pods": "3"}, "reserved": {"pods": "12"},
                "reservations": [{"reservedBy": {"kind": "Pod", "name": "w", "uid": "u"},
                    "reserved": {"pods": "12"}, "expirationTime": "2020-01-01T00:00:00Z"}]
            }
        });
        let quota: Quota<'static> = serde_json::from_value(quota).unwrap();
        assert_eq!(
            describe(&quota),
            "Name:                     rq\n\
             Namespace:                wire\n\
             Scopes:                   BestEffort\n \
             * Matches all pods that do not have resource requirements set. These pods have a best effort quality of service.\n\
             Resource                  Used  Reserved  Hard\n\
             --------                  ----  --------  ----\n\
             pods                      3     12        10\n\
             requests.example.com/gpu  0     0         2\n\
             Reservations:\n  \
             Pod/w (u): pods=12, expires in 0s"
        );
    }

    #[test]
    fn selectors_are_explained_by_their_scope() {
        assert!(explanation("PriorityClass In [high]").is_some());
        assert!(explanation("Unheard").is_none());
    }
}
