//! Plain events: objects of any system, measured by their sender.

use quota_core::{decide::Sighting, event::Observed};
use quota_semantics::{Name, object::Footprint, quantity::Quantity, resource::ResourceList};

use super::{
    Fault, Reader, check,
    wire::{Change, Field, Member, Text, Wire},
};
use crate::metrics::Rejection;

/// The content of a plain event.
pub(super) fn sighting(
    reader: &Reader,
    change: Change,
    event: &Wire<'_>,
) -> Result<Sighting, Fault> {
    if event.resource.is_none() && event.uid.is_none() {
        return Err(Fault::shape("the event has neither an object nor a resource and a uid"));
    }
    let namespace = text("namespace", event.namespace.as_ref())?;
    check::namespace(namespace)?;
    let uid = check::uid(text("uid", event.uid.as_ref())?)?;
    if change == Change::Deleted {
        return Ok(Sighting::Deleted { uid, namespace: Name::from(namespace), quota: None });
    }
    let kind = reader.resource(text("resource", event.resource.as_ref())?)?;
    let name = text("name", event.name.as_ref())?;
    let name = check::name(name)?;
    let observed = Observed {
        uid,
        namespace: Name::from(namespace),
        resource: kind.name.clone(),
        name,
        version: version(event.resource_version.as_ref())?,
        footprint: footprint(reader, &kind.counted, event.usage.as_ref())?,
        lapse: None,
        ends_reservation: false,
    };
    check::fits(Sighting::Alive { object: Box::new(observed), quota: None })
}

pub(super) fn text<'a>(name: &str, field: Option<&'a Field<'_>>) -> Result<&'a str, Fault> {
    let field = field.ok_or_else(|| Fault::field(format!("{name} is missing")))?;
    let text = field.text();
    text.map_err(|error| Fault::field(format!("{name}: {error}")))
}

/// A version is a string in Kubernetes; a number is accepted as well.
pub(super) fn version(field: Option<&Field<'_>>) -> Result<u64, Fault> {
    match field {
        None => Ok(0),
        Some(Field::Number(number)) => Ok(*number),
        Some(_) => check::version(text("resourceVersion", field)?),
    }
}

/// The usage, plus the footprint that every object of the kind has.
fn footprint(
    reader: &Reader,
    counted: &Footprint,
    usage: Option<&Field<'_>>,
) -> Result<Footprint, Fault> {
    let Some(usage) = usage else {
        return Ok(counted.clone());
    };
    let usage = usage.object();
    let usage = usage.map_err(|error| Fault::field(format!("usage: {error}")))?;
    let amount = |(Text(name), amount): &Member<'_>| {
        let resource = reader.resource_name(name)?;
        let quantity = Quantity::from_json_token(amount.get())
            .map_err(|error| invalid_quantity(name, &error.to_string()))?;
        match quantity.is_negative() {
            true => Err(invalid_quantity(name, "must not be negative")),
            false => Ok((resource, quantity)),
        }
    };
    // Among several amounts for one name, the last one counts.
    let mut resources: ResourceList = usage.iter().map(amount).collect::<Result<_, _>>()?;
    resources.add(&counted.resources);
    Ok(counted.with_resources(resources))
}

fn invalid_quantity(name: &str, reason: &str) -> Fault {
    Fault::new(Rejection::InvalidQuantity, format!("usage: {name}: {reason}"))
}
