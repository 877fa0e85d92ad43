//! `simulate`: what other limits would have done to the recorded past. `suggest`: limits that fit it.

use std::collections::BTreeMap;

use http::Method;
use quota_client::{
    http::Address,
    wire::{
        LimitKind, LimitName, SimulateRequest, SimulatedLimit, SimulatedRefusal, Simulation,
        Suggestion, Suggestions,
    },
};
use quota_semantics::{
    Name, Period, Timestamp,
    candidate::{Candidate, CandidateError},
    quantity::Quantity,
};
use serde_json::Value;

use crate::{
    args::{Simulate, Suggest},
    failure::{Exit, Failure, Outcome},
    figures::{Units, alone, limit_name},
    group,
    manifest::{self, Document, text},
    output::{Format, Output, note},
    reservation::named,
    session::{Scope, Session},
    table::{self, Table},
    usage::full_time,
};

/// The limits in question.
pub(crate) struct Limits {
    quotas: Vec<Document>,
    groups: Vec<Document>,
    /// All of them, checked, in the order of the two lists.
    pub(crate) candidates: Vec<Candidate>,
    /// Names that are left out.
    pub(crate) delete: Vec<LimitName>,
}

/// Simulates limits, and shows what they would have refused.
pub(crate) fn run(session: &Session, args: &Simulate) -> Outcome {
    let limits = Limits::load(&session.scope, args)?;
    let period = args.period.resolve(table::now(), Some(days(14)))?;
    let (simulation, json) = limits.simulate(session, period)?;
    show(&session.output, &simulation, &json)?;
    ended(&simulation, args.fail_on_refusal)
}

/// So many days.
pub(crate) const fn days(days: u32) -> Period {
    Period::from_secs(days * 86_400)
}

/// The result of the command.
pub(crate) fn ended(simulation: &Simulation, fail_on_refusal: bool) -> Outcome {
    match fail_on_refusal && simulation.refused > 0 {
        true => Err(Failure::silent(Exit::Denied)),
        false => Ok(()),
    }
}

impl Limits {
    /// Reads the manifests and names of a command line.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn load(scope: &Scope, args: &Simulate) -> Outcome<Self> {
        if args.files.is_empty() && args.delete.is_empty() {
            return Err(Failure::usage("no limits to simulate are named")
                .hint("-f FILE names manifests, --delete quota/NAME leaves a quota out"));
        }
        let documents = match args.files.is_empty() {
            true => Vec::new(),
            false => manifest::load(&args.files)?,
        };
        let delete = args.delete.iter().map(|(is_group, name)| {
            let namespace = match is_group {
                true => None,
                false => Some(scope.of_one("a quota")?.into()),
            };
            Ok(LimitName {
                kind: match is_group {
                    true => LimitKind::ClusterResourceQuota,
                    false => LimitKind::ResourceQuota,
                },
                namespace,
                name: name.as_str().into(),
            })
        });
        let delete: Outcome<Vec<_>> = delete.collect();
        Ok(Self { delete: delete?, ..Self::new(scope, documents)? })
    }

    /// Checks manifests as new ones.
    ///
    /// # Errors
    /// With all that is wrong, and its lines.
    pub(crate) fn new(scope: &Scope, documents: Vec<Document>) -> Outcome<Self> {
        let (mut quotas, mut groups, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for mut document in documents {
            let is_group = text(&document.value, "/kind") == "ClusterResourceQuota";
            if !is_group {
                let own = text(&document.value, "/metadata/namespace");
                let place = &document.place;
                let namespace = scope.of_document(Some(own));
                let namespace = namespace.map_err(|failure| failure.about(place))?;
                if document.value["metadata"].is_object() {
                    document.value["metadata"]["namespace"] = namespace.into();
                }
            }
            match Candidate::read(document.value.to_string().as_bytes()) {
                Ok(candidate) if is_group => groups.push((document, candidate)),
                Ok(candidate) => quotas.push((document, candidate)),
                Err(error) => wrong.extend(lines(&document, error)),
            }
        }
        if !wrong.is_empty() {
            return Err(Failure {
                figures: Some(wrong.join("\n")),
                ..Failure::general("the limits are not valid")
            });
        }
        let (quotas, mut candidates): (Vec<_>, Vec<_>) = quotas.into_iter().unzip();
        let (groups, of_groups): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
        candidates.extend(of_groups);
        Ok(Self { quotas, groups, candidates, delete: Vec::new() })
    }

    /// Has the daemon simulate them. Also its answer as JSON.
    pub(crate) fn simulate(
        &self,
        session: &Session,
        (from, to): (Timestamp, Timestamp),
    ) -> Outcome<(Simulation, Value)> {
        let values = |documents: &[Document]| -> Vec<Value> {
            documents.iter().map(|document| document.value.clone()).collect()
        };
        let body = SimulateRequest {
            from,
            to: Some(to),
            quotas: values(&self.quotas),
            groups: values(&self.groups),
            delete: self.delete.clone(),
        };
        let body = super::output::to_json(&body)?;
        let address = Address::of(["v1", "simulate"]);
        let sent = session.client.send_json(Method::POST, &address, &body);
        let reply = sent.map_err(|failure| self.located(failure))?;
        Ok((reply.read()?, reply.json))
    }

    /// The document with this number, quotas first.
    pub(crate) fn document(&self, number: usize) -> Option<&Document> {
        self.quotas.iter().chain(&self.groups).nth(number)
    }

    /// A failure of the daemon, with files and lines in place of the fields of the request.
    fn located(&self, failure: Failure) -> Failure {
        let place = |line: &str| {
            let line = line.trim_start();
            let (list, rest) = line.split_once('[')?;
            let (index, rest) = rest.split_once(']')?;
            let documents = match list {
                "quotas" => &self.quotas,
                "groups" => &self.groups,
                _ => return None,
            };
            let document = documents.get(index.parse::<usize>().ok()?)?;
            let (field, message) = rest.trim_start_matches('.').split_once(": ")?;
            Some(line_of(document, field, message))
        };
        let located = |text: &str| {
            let lines = text.lines();
            let lines = lines.map(|line| place(line).unwrap_or_else(|| line.to_owned()));
            lines.collect::<Vec<_>>().join("\n")
        };
        Failure {
            message: located(&failure.message),
            figures: failure.figures.as_deref().map(located),
            ..failure
        }
    }
}

/// A line for each error of a manifest.
pub(crate) fn lines(document: &Document, error: CandidateError) -> Vec<String> {
    match error {
        CandidateError::Unreadable(why) => vec![line_of(document, "", &why)],
        CandidateError::Invalid(errors) => {
            let line = |error: &quota_semantics::quota::FieldError| {
                line_of(document, &error.field, &error.message())
            };
            errors.iter().map(line).collect()
        }
    }
}

fn line_of(document: &Document, field: &str, message: &str) -> String {
    let place = format!("{}:{}", document.place, document.line_of(field));
    match field {
        "" => format!("{place}: {message}"),
        field => format!("{place}: {field}: {message}"),
    }
}

/// Prints a simulation.
pub(crate) fn show(output: &Output, simulation: &Simulation, json: &Value) -> Outcome {
    if output.is_structured() {
        return output.value(json);
    }
    output.table(&limits(&simulation.limits))?;
    if !simulation.refusals.is_empty() {
        output.section("Refused", &refusals(&simulation.refusals))?;
        let more = simulation.refused - simulation.refusals.len() as u64;
        if more > 0 {
            output.line(format!("and {more} more"))?;
        }
    }
    output.line(summary(simulation))?;
    for what in &simulation.unknown {
        note(format!("not simulated: {what}"));
    }
    Ok(())
}

/// One line about a simulation.
pub(crate) fn summary(simulation: &Simulation) -> String {
    let Simulation { from, to, identity, granted, refused, left_out, denials_granted, .. } =
        simulation;
    let mut text = format!(
        "From {from} to {to}: of {} grants, {granted} would have been granted, {refused} refused",
        identity.decisions
    );
    if *left_out > 0 {
        text.push_str(&format!(", {left_out} not requested"));
    }
    if let Some(since) = simulation.denials_since {
        text.push_str(&format!(
            "; of the denials since {since}, {denials_granted} would have been granted"
        ));
    }
    text
}

fn limits(limits: &[SimulatedLimit]) -> Table {
    let mut table = Table::new(&[
        "NAMESPACE",
        "LIMIT",
        "RESOURCE",
        ">HARD",
        ">PEAK",
        ">GRANTS",
        ">REFUSED",
        "FIRST REFUSED",
        ">REFUSES NONE",
        ">REFUSES 1%",
        ">TIME FULL",
    ]);
    let amounts = limits.iter().flat_map(|limit| {
        let amounts = [limit.hard.as_ref(), Some(&limit.peak)];
        amounts.into_iter().flatten().map(|it| (&*limit.resource, it))
    });
    let units = Units::of(amounts);
    for limit in limits {
        let amount = |amount: &Quantity| units.show(&limit.resource, amount);
        table.row([
            or_dash(limit.namespace.as_ref().map(ToString::to_string)),
            limit_name(limit.kind, &limit.name),
            limit.resource.to_string(),
            or_dash(limit.hard.as_ref().map(amount)),
            amount(&limit.peak),
            limit.grants.to_string(),
            limit.refused.to_string(),
            or_dash(limit.first_refused.map(|time| time.to_string())),
            amount(&limit.least_refusing_none),
            amount(&limit.least_refusing_1_percent),
            full_time(&limit.time_full),
        ]);
    }
    table
}

fn refusals(refusals: &[SimulatedRefusal]) -> Table {
    let mut table = Table::new(&["TIME", "NAMESPACE", "OBJECT", "OWNER", "REQUESTED", "LIMITS"]);
    for refusal in refusals {
        let object = &refusal.object;
        let kind = match object.kind.is_empty() {
            true => &object.resource,
            false => &object.kind,
        };
        let name = match object.name.is_empty() {
            true => object.uid.to_string(),
            false => object.name.to_string(),
        };
        let limits = refusal.limits.iter().map(|limit| {
            let name = limit_name(limit.kind, &limit.name);
            match &limit.resource {
                Some(resource) => format!("{name}/{resource}"),
                None => name,
            }
        });
        let owner = refusal.owner.user.as_ref().unwrap_or(&refusal.owner.principal);
        table.row([
            refusal.time.to_string(),
            refusal.namespace.to_string(),
            named(kind, &name),
            owner.to_string(),
            object.requested.pretty(),
            limits.collect::<Vec<_>>().join(", "),
        ]);
    }
    table
}

/// Shows suggested limits, or the manifests that set them.
pub(crate) fn suggest(session: &Session, wish: &Suggest, selector: Option<&str>) -> Outcome {
    let (from, to) = wish.period.resolve(table::now(), Some(days(30)))?;
    let mut address = Address::of(["v1", "suggestions"])
        .with("from", from)
        .with("to", to)
        .with("percentile", wish.percentile)
        .with("headroom", wish.headroom);
    match (selector, session.scope.listed()) {
        (Some(selector), _) => address = address.with("labelSelector", selector),
        (None, Some(namespace)) => address = address.with("namespace", namespace),
        (None, None) => {}
    }
    let answer = session.client.get::<Suggestions>(&address)?;
    if answer.content.items.is_empty() {
        session.note_empty();
    }
    let is_all = session.scope.listed().is_none();
    show_suggestions(&session.output, &answer.content, &answer.json, is_all, |limit| {
        let path = match &limit.namespace {
            Some(namespace) => {
                vec!["api", "v1", "namespaces", namespace, "resourcequotas", &limit.name]
            }
            None => vec!["apis", "quota.openshift.io", "v1", "clusterresourcequotas", &limit.name],
        };
        session.client.get_json(&Address::of(path))
    })
}

/// Prints suggestions, or their manifests: those of groups only for all namespaces. `manifest` gives that of a quota or
/// group as it is.
pub(crate) fn show_suggestions(
    output: &Output,
    suggestions: &Suggestions,
    json: &Value,
    is_all: bool,
    manifest: impl Fn(&Suggestion) -> Outcome<Value>,
) -> Outcome {
    let suggestions = &suggestions.items;
    if matches!(output.format, Format::Yaml) {
        let groups = suggestions.partition_point(|it| it.namespace.is_none());
        let from = if is_all { 0 } else { groups };
        return manifests(output, &suggestions[from..], manifest);
    }
    output.answer(
        json,
        || {
            suggestions
                .iter()
                .map(|it| match it.kind {
                    LimitKind::ResourceQuota => format!("resourcequota/{}", it.name),
                    LimitKind::ClusterResourceQuota => format!("{}/{}", group::KIND, it.name),
                })
                .collect()
        },
        |_| suggestions_table(suggestions),
    )?;
    if output.is_table() {
        for (resource, amount) in given_back(suggestions) {
            let amount = alone(resource, &amount);
            note(format!("{amount} of {resource} could be given back"));
        }
    }
    Ok(())
}

/// Prints the manifest of each quota and group, with the suggested limits.
fn manifests(
    output: &Output,
    suggestions: &[Suggestion],
    manifest: impl Fn(&Suggestion) -> Outcome<Value>,
) -> Outcome {
    // They are sorted by quota and group.
    let of_one =
        |a: &Suggestion, b: &Suggestion| (&a.namespace, &a.name) == (&b.namespace, &b.name);
    for suggestions in suggestions.chunk_by(of_one) {
        let [first, ..] = suggestions else { continue };
        let mut manifest = manifest(first)?;
        let hard = match &first.namespace {
            Some(_) => "/spec/hard",
            None => "/spec/quota/hard",
        };
        for suggestion in suggestions {
            let limit =
                manifest.pointer_mut(hard).and_then(|hard| hard.get_mut(&*suggestion.resource));
            if let (Some(limit), Some(suggested)) = (limit, &suggestion.suggested) {
                *limit = suggested.to_string().into();
            }
        }
        output.value(&as_written(manifest))?;
    }
    Ok(())
}

/// A manifest without what the store has assigned.
fn as_written(mut manifest: Value) -> Value {
    if let Some(fields) = manifest.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = manifest["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"]
        {
            metadata.remove(field);
        }
    }
    manifest
}

/// How much less the suggested limits are, by resource.
fn given_back(suggestions: &[Suggestion]) -> BTreeMap<&Name, Quantity> {
    let mut sums: BTreeMap<&Name, Quantity> = BTreeMap::new();
    // What a group gives back its namespaces may give back, too.
    let quotas = suggestions.iter().filter(|it| it.kind == LimitKind::ResourceQuota);
    for suggestion in quotas {
        let Some(suggested) = &suggestion.suggested else {
            continue;
        };
        let mut less = suggestion.hard.clone();
        less.sub_assign(suggested);
        if less.is_positive() {
            sums.entry(&suggestion.resource).or_default().add_assign(&less);
        }
    }
    sums
}

fn suggestions_table(suggestions: &[Suggestion]) -> Table {
    let mut table = Table::new(&[
        "NAMESPACE",
        "LIMIT",
        "RESOURCE",
        ">HARD",
        ">PEAK",
        ">PERCENTILE",
        ">SUGGESTED",
        ">CHANGE",
        ">TIME FULL",
        ">DENIALS",
        ">FULL IN",
    ]);
    let units = Units::of(suggestions.iter().map(|it| (&*it.resource, &it.hard)));
    for it in suggestions {
        let amount = |amount: &Quantity| units.show(&it.resource, amount);
        let change = it.suggested.as_ref().map(|suggested| {
            let mut change = suggested.clone();
            change.sub_assign(&it.hard);
            let sign = if change.is_positive() { "+" } else { "" };
            format!("{sign}{}", amount(&change))
        });
        table.row([
            or_dash(it.namespace.as_ref().map(ToString::to_string)),
            limit_name(it.kind, &it.name),
            it.resource.to_string(),
            amount(&it.hard),
            amount(&it.peak),
            amount(&it.percentile),
            or_dash(it.suggested.as_ref().map(amount)),
            or_dash(change),
            full_time(&it.time_full),
            it.denials.to_string(),
            or_dash(it.full_in_seconds.map(full_in)),
        ]);
    }
    table
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// A time until a limit is reached.
pub(crate) fn full_in(seconds: u64) -> String {
    match seconds {
        0 => "now".to_owned(),
        seconds if seconds >= 2 * 86_400 => format!("{}d", seconds / 86_400),
        seconds => format!("{}h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_away_is_told_in_days() {
        let shown = [0, 60, 86_400, 172_800, 3_000_000].map(full_in);
        assert_eq!(shown, ["now", "1h", "24h", "2d", "34d"]);
    }
}
