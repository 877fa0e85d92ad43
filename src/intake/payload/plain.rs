//! Plain events: objects of any system, measured by whoever sends them.

use std::{borrow::Cow, collections::BTreeMap};

use quota_ledger::{
    Name, Timestamp,
    decide::Sighting,
    event::Observed,
    object::{Footprint, GroupResource, NoContext, Object},
    quantity::Quantity,
    resource::ResourceList,
};
use serde_json::value::RawValue;

use super::{
    Fault, check,
    wire::{Change, Text},
};
use crate::metrics::Rejection;

/// The fields of a plain event, not looked at yet.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    pub(super) namespace: Option<&'a RawValue>,
    pub(super) resource: Option<&'a RawValue>,
    pub(super) name: Option<&'a RawValue>,
    pub(super) uid: Option<&'a RawValue>,
    pub(super) resource_version: Option<&'a RawValue>,
    pub(super) usage: Option<&'a RawValue>,
}

/// What a plain event tells.
pub(super) fn sighting(change: Change, fields: &Fields<'_>) -> Result<Sighting, Fault> {
    if fields.resource.is_none() && fields.uid.is_none() {
        return Err(Fault::shape(
            "the event has neither an object nor a resource and a uid",
        ));
    }
    let namespace = text("namespace", fields.namespace)?;
    check::namespace(&namespace)?;
    let uid = check::uid(&text("uid", fields.uid)?)?;
    if change == Change::Deleted {
        return Ok(Sighting::Deleted {
            uid,
            namespace: Name::from(&*namespace),
            quota: None,
        });
    }
    let kind: GroupResource = text("resource", fields.resource)?
        .parse()
        .map_err(|error| Fault::field(format!("resource: {error}")))?;
    check::resource(&kind)?;
    let name = text("name", fields.name)?;
    check::name(&name)?;
    let observed = Observed {
        uid,
        namespace: Name::from(&*namespace),
        resource: Name::from(kind.to_string()),
        name: name.into(),
        version: version(fields.resource_version)?,
        footprint: footprint(&kind, fields.usage)?,
        lapse: None,
        ends_reservation: false,
    };
    check::fits(Sighting::Alive {
        object: Box::new(observed),
        quota: None,
    })
}

pub(super) fn text<'a>(name: &str, field: Option<&'a RawValue>) -> Result<Cow<'a, str>, Fault> {
    let field = field.ok_or_else(|| Fault::field(format!("{name} is missing")))?;
    let Text(text) = serde_json::from_str(field.get())
        .map_err(|error| Fault::field(format!("{name}: {error}")))?;
    Ok(text)
}

/// A version is a string in Kubernetes; a number is taken as well.
pub(super) fn version(field: Option<&RawValue>) -> Result<u64, Fault> {
    match field.map(RawValue::get) {
        None => Ok(0),
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => check::version(number),
        Some(_) => check::version(&text("resourceVersion", field)?),
    }
}

/// The usage, added to the count that every object has.
fn footprint(kind: &GroupResource, usage: Option<&RawValue>) -> Result<Footprint, Fault> {
    let object = Object::Other(Box::default());
    let mut footprint = object.footprint(kind, Timestamp::EPOCH, &NoContext);
    let Some(usage) = usage else {
        return Ok(footprint);
    };
    let usage: BTreeMap<Text<'_>, &RawValue> = serde_json::from_str(usage.get())
        .map_err(|error| Fault::field(format!("usage: {error}")))?;
    let mut amounts = ResourceList::new();
    for (Text(name), amount) in usage {
        check::resource_name(&name)?;
        let quantity: Quantity = serde_json::from_str(amount.get())
            .map_err(|error| invalid_quantity(&name, &error.to_string()))?;
        if quantity.is_negative() {
            return Err(invalid_quantity(&name, "must not be negative"));
        }
        amounts.insert(Name::from(&*name), quantity);
    }
    footprint.resources.add(&amounts);
    Ok(footprint)
}

fn invalid_quantity(name: &str, what: &str) -> Fault {
    Fault::new(Rejection::InvalidQuantity, format!("usage: {name}: {what}"))
}
