//! The layout of every record in format version 1. Tags and orders here are on disk: never change them.

use super::{DecodeError, Reader, Wire, Writer, record, variants};
use crate::event::{
    Actor, Cause, Correction, Cursor, DeadLetter, Ending, Event, GroupRecord, NamespaceRecord,
    Observed, QuotaRecord, RelistBegin, RelistClose, RelistEnd, RelistOutcome, RelistScope,
    Reservation, Watermark, Watermarks,
};
use quota_semantics::{
    Timestamp,
    group::{
        Enforcement, Extensions, LabelSelector, Load, Override, Requirement, Selector,
        Spec as GroupSpec, Values,
    },
    object::{Footprint, PodTraits, Traits},
    quantity::{Format, Quantity},
    quota::spec::{ScopeExpression, ScopeSelector, Spec},
    resource::ResourceList,
    uid::{Form, Uid},
};

record!(Actor {
    principal,
    user,
    request_id,
    traceparent,
    reason
});
record!(QuotaRecord {
    namespace,
    name,
    uid,
    created,
    spec,
    metadata
});
record!(NamespaceRecord {
    name,
    uid,
    version,
    labels,
    annotations
});
record!(GroupRecord {
    name,
    uid,
    created,
    spec,
    metadata
});
record!(GroupSpec {
    selector,
    quota,
    extensions
});
record!(Selector {
    labels,
    annotations
});
record!(LabelSelector {
    match_labels,
    match_expressions
});
record!(Requirement {
    key,
    operator,
    values
});
record!(Extensions {
    parent,
    guaranteed,
    objects,
    each,
    soft,
    enforcement,
    r#override
});
record!(Override { hard, until });
record!(Load { used, reserved, set_aside } then { without_zeros });
record!(Observed {
    uid,
    namespace,
    resource,
    name,
    version,
    footprint,
    lapse,
    ends_reservation
});
record!(Reservation {
    uid,
    namespace,
    resource,
    name,
    api_version,
    kind,
    footprint,
    created,
    expiration,
    after_version,
    request,
});
record!(Cursor {
    incarnation,
    position,
    time,
    checksum
});
record!(DeadLetter {
    source,
    position,
    reason,
    payload
});
record!(Correction { object, was });
record!(Ending {
    uid,
    namespace,
    resource,
    name,
    footprint,
    cause
});
record!(RelistScope {
    resource,
    namespace,
    source
});
record!(RelistBegin {
    scope,
    id,
    allow_empty
});
record!(RelistClose { scope, version });
record!(RelistEnd {
    scope,
    began,
    outcome,
    listed,
    ended
});
record!(Watermarks {
    source,
    cluster_uid,
    instance,
    resources
});
record!(Watermark {
    resource,
    watermark,
    version,
    is_absent,
    failing
});
record!(PodTraits {
    best_effort,
    terminating,
    priority_class,
    cross_namespace_affinity
});
record!(Spec {
    hard,
    scopes,
    selector
});
record!(ScopeSelector { match_expressions });
record!(ScopeExpression {
    scope_name,
    operator,
    values
});

variants!(Traits {
    0 => Plain,
    1 => Pod(pod),
    2 => VolumeClaim { attributes_classes },
    3 => Template { pod, replica },
    4 => Replica(pod),
});

/// The amounts, then the traits. Labels, if there are any, come before the traits, under their own tag.
impl Wire for Footprint {
    fn put(&self, writer: &mut Writer) {
        debug_assert_eq!(self.payer, None, "it is decided who pays");
        self.resources.put(writer);
        if !self.labels.is_empty() {
            LABELLED.put(writer);
            self.labels.put(writer);
        }
        self.traits.put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let resources = Wire::take(reader)?;
        let is_labelled = reader.take_tag(LABELLED);
        let labels = is_labelled.then(|| Wire::take(reader)).transpose()?;
        Ok(Self {
            resources,
            labels: labels.unwrap_or_default(),
            traits: Wire::take(reader)?,
            payer: None,
        })
    }
}

/// The tag of labels among those of traits.
const LABELLED: u8 = 5;

variants!(Event {
    1 => QuotaSet(quota),
    2 => QuotaDeleted { namespace, name },
    3 => ObjectObserved(object),
    4 => ObjectRefreshed { uid, namespace, version, ends_reservation },
    5 => ObjectLapsed { uid, namespace, footprint },
    6 => ObjectDeleted { uid, namespace },
    7 => ReservationGranted(reservation),
    8 => ReservationGrown { uid, namespace, footprint, expiration },
    9 => ReservationExtended { uid, namespace, expiration },
    10 => ObjectCommitted { uid, namespace, resources },
    11 => ReservationReleased { uid, namespace },
    12 => ReservationExpired { uid, namespace },
    13 => ReservationSuperseded { uid, namespace, by },
    14 => SourceAdvanced { source, cursor },
    15 => SourceReset { source, incarnation },
    16 => SourceGapped { source, first, last },
    17 => MessageRejected(letter),
    18 => ObjectCorrected(correction),
    19 => ObjectEnded(ending),
    20 => RelistBegan(begin),
    21 => ObjectsListed { source, uids },
    22 => RelistClosed(close),
    23 => RelistEnded(end),
    24 => ReservationCommitted { uid, namespace, resources },
    25 => ReservationReturned { uid, namespace },
    26 => EndedBounded { bytes },
    27 => NameAwaited { uid, namespace, bearer },
    28 => WorkloadsCharged { kinds },
    29 => ChargingChanged { kinds },
    30 => WatermarksAdvanced(watermarks),
    31 => ResourceListed { source, resource },
    32 => VersionsReset(scope),
    33 => ObjectReplaced(object),
    34 => EventRejected { resource, letter },
    35 => NamespaceObserved(namespace),
    36 => NamespaceDeleted { name, uid, relist },
    37 => GroupSet(group),
    38 => GroupDeleted { name },
    39 => OverrideEnded { namespace, quota },
    40 => ObjectLabelsChanged { keys },
    41 => VersionAwaited { uid, namespace, after_version },
    45 => LeaderChanged { epoch, node, instance },
});

variants!(Enforcement {
    0 => Enforce,
    1 => Warn,
    2 => Audit,
});

variants!(Cause {
    0 => Drift,
    1 => Relist { began },
});

variants!(RelistOutcome {
    0 => Complete,
    1 => Empty,
    2 => Incomplete,
});

variants!(Form {
    0 => Uuid(bytes),
    1 => Text(text),
});

impl Wire for Values {
    fn put(&self, writer: &mut Writer) {
        (**self).put(writer);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Vec::take(reader).map(Self::from)
    }
}

impl Wire for Uid {
    fn put(&self, writer: &mut Writer) {
        self.form().put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Form::take(reader).map(Self::from_form)
    }
}

variants!(Format {
    0 => DecimalSI,
    1 => BinarySI,
    2 => DecimalExponent,
    3 => Unset,
});

/// The number under the tag of one of its two forms, then the family. The flag at the end was for a spelling; quantities
/// of the ledger are canonical.
impl Wire for Quantity {
    fn put(&self, writer: &mut Writer) {
        match self.scaled() {
            Some((digits, power)) => {
                SCALED.put(writer);
                digits.put(writer);
                power.put(writer);
            }
            None => {
                NANOS.put(writer);
                self.nanos_bytes().put(writer);
            }
        }
        self.format().put(writer);
        debug_assert_eq!(
            self.spelling(),
            None,
            "the ledger holds canonical quantities"
        );
        false.put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let plain = match u8::take(reader)? {
            SCALED => {
                let (digits, power) = (i64::take(reader)?, i8::take(reader)?);
                Self::from_scaled(digits, power, Wire::take(reader)?)
            }
            NANOS => Self::from_nanos_bytes(&Vec::take(reader)?, Wire::take(reader)?),
            tag => return Err(DecodeError(format!("Mantissa: no variant {tag}"))),
        };
        if bool::take(reader)? {
            reader.text()?;
        }
        Ok(plain)
    }
}

/// The tags of the forms of a number: digits and a power of ten, and the bytes of an integer.
const SCALED: u8 = 0;
const NANOS: u8 = 1;

impl Wire for Timestamp {
    fn put(&self, writer: &mut Writer) {
        self.nanoseconds().put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        i64::take(reader).map(Self::from_nanoseconds)
    }
}

impl Wire for ResourceList {
    fn put(&self, writer: &mut Writer) {
        writer.list(self.iter());
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let items = Vec::<(quota_semantics::Name, Quantity)>::take(reader)?;
        Ok(items.into_iter().collect())
    }
}

/// Without the zeros that earlier versions kept.
fn without_zeros(load: Load) -> Load {
    Load {
        used: load.used.without_zeros(),
        reserved: load.reserved.without_zeros(),
        set_aside: load.set_aside.without_zeros(),
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, writer: &mut Writer) {
        self.0.put(writer);
        self.1.put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::take(reader)?, B::take(reader)?))
    }
}
