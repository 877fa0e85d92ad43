//! `simulate`: what other limits would have done to the recorded past.

use http::Method;
use quota_client::{
    http::Address,
    wire::{LimitKind, LimitName, SimulateRequest, SimulatedLimit, SimulatedRefusal, Simulation},
};
use quota_semantics::{
    Period, Timestamp,
    candidate::{Candidate, CandidateError},
};
use serde_json::Value;

use super::{
    age,
    args::Simulate,
    failure::{Exit, Failure, Outcome},
    group,
    manifest::{self, Document, text},
    output::{Output, note},
    reservation::named,
    session::{Scope, Session},
    table::Table,
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
    let period = args.period.resolve(age::now(), Some(days(14)))?;
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
    /// As [`Self::of`].
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
        Ok(Self {
            delete: delete?,
            ..Self::of(scope, documents)?
        })
    }

    /// Checks manifests as new ones.
    ///
    /// # Errors
    /// With all that is wrong, and its lines.
    pub(crate) fn of(scope: &Scope, documents: Vec<Document>) -> Outcome<Self> {
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
        Ok(Self {
            quotas,
            groups,
            candidates,
            delete: Vec::new(),
        })
    }

    /// Has the daemon simulate them. Also its answer as JSON.
    pub(crate) fn simulate(
        &self,
        session: &Session,
        (from, to): (Timestamp, Timestamp),
    ) -> Outcome<(Simulation, Value)> {
        let values = |documents: &[Document]| -> Vec<Value> {
            documents
                .iter()
                .map(|document| document.value.clone())
                .collect()
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
    let Simulation {
        from,
        to,
        identity,
        granted,
        refused,
        left_out,
        denials_granted,
        ..
    } = simulation;
    let mut text = format!(
        "From {from} to {to}: of {} grants, {granted} would have been granted, {refused} refused",
        identity.decisions
    );
    if *left_out > 0 {
        text.push_str(&format!(", {left_out} not asked for"));
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
    for limit in limits {
        let amount = |amount: &quota_semantics::quantity::Quantity| amount.to_string();
        table.row([
            limit.namespace.as_deref().unwrap_or_default().to_owned(),
            limit_name(limit.kind, &limit.name),
            limit.resource.to_string(),
            limit.hard.as_ref().map(amount).unwrap_or_default(),
            amount(&limit.peak),
            limit.grants.to_string(),
            limit.refused.to_string(),
            limit
                .first_refused
                .map(|time| time.to_string())
                .unwrap_or_default(),
            amount(&limit.least_refusing_none),
            amount(&limit.least_refusing_1_percent),
            limit.time_full.clone(),
        ]);
    }
    table
}

fn refusals(refusals: &[SimulatedRefusal]) -> Table {
    let mut table = Table::new(&[
        "TIME",
        "NAMESPACE",
        "OBJECT",
        "OWNER",
        "REQUESTED",
        "LIMITS",
    ]);
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
                Some(resource) => format!("{name}:{resource}"),
                None => name,
            }
        });
        let owner = refusal
            .owner
            .user
            .as_ref()
            .unwrap_or(&refusal.owner.principal);
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

/// A quota or group, as kubectl names it.
pub(crate) fn limit_name(kind: LimitKind, name: &str) -> String {
    match kind {
        LimitKind::ResourceQuota => format!("resourcequota/{name}"),
        LimitKind::ClusterResourceQuota => format!("{}/{name}", group::KIND),
    }
}
