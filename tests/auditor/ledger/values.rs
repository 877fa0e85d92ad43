//! What the entries of the ledger are about, drawn at random.

use quota_core::event::{DeadLetter, Observed, RelistScope};
use quota_semantics::{
    Name, Timestamp,
    group::{Extensions, Override, Spec as GroupSpec},
    object::{Footprint, PodTraits, Traits},
    quantity::Quantity,
    quota::spec::{ScopeExpression, ScopeSelector, Spec},
    resource::ResourceList,
    uid::Uid,
};

use super::{GROUPS, NAMESPACES, Writer};

/// Amounts in every form that the codec has.
const AMOUNTS: [&str; 12] = [
    "1",
    "2",
    "250m",
    "1Gi",
    "1536Mi",
    "1e3",
    "10e0",
    "0",
    "1n",
    "1000E",
    "123456789012345678901234567890",
    "0.1",
];

const CLASSES: [&str; 3] = ["", "high", "low"];

impl Writer {
    /// A uid without a pending reservation: nothing is granted twice.
    pub(super) fn free_uid(&mut self) -> Uid {
        let state = &self.state;
        let pending = NAMESPACES.map(|namespace| state.pending(namespace));
        let taken: Vec<Uid> =
            pending.into_iter().flatten().map(|view| view.reservation.uid.clone()).collect();
        let mut uid = self.uid();
        for number in 0.. {
            if !taken.contains(&uid) {
                break;
            }
            uid = Uid::new(&format!("object-{number}")).unwrap();
        }
        uid
    }

    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.random.index(items.len())]
    }

    pub(super) fn uid(&mut self) -> Uid {
        match self.random.below(16) {
            text @ 0..8 => Uid::new(&format!("object-{text}")).unwrap(),
            uuid => Uid::from_uuid([u8::try_from(uuid).unwrap(); 16]),
        }
    }

    pub(super) fn namespace(&mut self) -> Name {
        self.pick(&NAMESPACES).into()
    }

    pub(super) fn resources(&mut self) -> ResourceList {
        let names = ["pods", "requests.cpu", "requests.memory", "requests.storage"];
        let count = 1 + self.random.below(4);
        (0..count)
            .map(|_| {
                let name = Name::from(self.pick(&names));
                let amount: Quantity = self.pick(&AMOUNTS).parse().unwrap();
                (name, amount.canonical())
            })
            .collect()
    }

    pub(super) fn pod(&mut self) -> PodTraits {
        PodTraits {
            best_effort: self.random.below(2) == 0,
            terminating: self.random.below(2) == 0,
            priority_class: self.pick(&CLASSES).into(),
            cross_namespace_affinity: self.random.below(4) == 0,
        }
    }

    pub(super) fn charged(&mut self) -> Vec<Name> {
        match self.random.below(4) {
            0 => vec!["deployments.apps".into()],
            _ => vec!["deployments.apps".into(), "pods".into()],
        }
    }

    pub(super) fn footprint(&mut self) -> Footprint {
        let traits = match self.random.below(7) {
            0 => Traits::Plain,
            1 => Traits::VolumeClaim {
                attributes_classes: vec![self.pick(&["gold", "high"]).into()],
            },
            2 => Traits::Template { pod: self.pod(), replica: self.resources() },
            3 | 4 => Traits::Replica(self.pod()),
            _ => Traits::Pod(self.pod()),
        };
        Footprint {
            payer: None,
            resources: self.resources(),
            traits,
            labels: match self.random.below(4) {
                0 => [("app".into(), self.pick(&["web", "db"]).into())].into(),
                _ => Default::default(),
            },
        }
    }

    /// Also one that is broken.
    pub(super) fn spec(&mut self) -> Spec {
        let mut spec = Spec { hard: self.resources(), ..Spec::default() };
        if self.random.below(3) == 0 {
            let scopes = ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort"];
            spec.scopes.push(self.pick(&scopes).into());
        }
        if self.random.below(2) == 0 {
            let operator = self.pick(&["In", "NotIn", "Exists", "DoesNotExist", "Near"]);
            let values = match operator {
                "In" | "NotIn" => vec!["high".into(), "gold".into()],
                _ => Vec::new(),
            };
            let scope = self.pick(&["PriorityClass", "VolumeAttributesClass", "PriorityClass"]);
            spec.selector = Some(ScopeSelector {
                match_expressions: vec![ScopeExpression {
                    scope_name: scope.into(),
                    operator: operator.into(),
                    values,
                }],
            });
        }
        spec
    }

    pub(super) fn observed(&mut self) -> Observed {
        Observed {
            uid: self.uid(),
            namespace: self.namespace(),
            resource: "pods".into(),
            name: format!("web-{}", self.sequence).into(),
            version: self.sequence * 1000,
            footprint: self.footprint(),
            lapse: (self.random.below(2) == 0).then_some(Timestamp::MAX),
            ends_reservation: self.random.below(2) == 0,
        }
    }

    pub(super) fn far(&mut self) -> Timestamp {
        let more = i64::try_from(self.random.below(9)).unwrap();
        Timestamp::from_nanoseconds(4_000_000_000_000_000_000 + more)
    }

    pub(super) fn scope(&mut self) -> RelistScope {
        RelistScope {
            resource: "pods".into(),
            namespace: (self.random.below(2) == 0).then(|| "team-a".into()),
            source: "stream/OBJECTS".into(),
        }
    }

    pub(super) fn dead_letter(&self) -> DeadLetter {
        DeadLetter {
            source: "OBJECTS".into(),
            position: self.sequence,
            reason: "no".into(),
            payload: "x".repeat(300).into(),
        }
    }

    pub(super) fn pending_in(&self, namespace: &str) -> Option<Uid> {
        let pending = self.state.pending(namespace);
        pending.first().map(|view| view.reservation.uid.clone())
    }

    pub(super) fn group(&mut self, place: usize) -> GroupSpec {
        let selector = self.pick(&[
            r#"{"labels":{"matchLabels":{"team":"a"}},"annotations":{"owner":"somebody"}}"#,
            r#"{"labels":{"matchExpressions":[{"key":"team","operator":"NotIn","values":["a"]}]}}"#,
            r#"{"labels":{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}}"#,
            r#"{"labels":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["team-a","team-c"]}]}}"#,
            r#"{"labels":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"Exists"}]}}"#,
            r#"{"annotations":{"owner":"somebody"}}"#,
            "{}",
        ]);
        let objects = self.pick(&[
            "null",
            "null",
            r#"{"matchLabels":{"app":"web"}}"#,
            r#"{"matchExpressions":[{"key":"app","operator":"NotIn","values":["web"]}]}"#,
        ]);
        let above = &GROUPS[place + 1..];
        let parent = (!above.is_empty() && self.random.below(3) != 0).then(|| self.pick(above));
        let quota = match self.random.below(3) {
            0 => self.spec(),
            _ => Spec { hard: self.resources(), ..Spec::default() },
        };
        GroupSpec {
            selector: serde_json::from_str(selector).unwrap(),
            quota,
            extensions: Extensions {
                parent: parent.map(Name::from),
                objects: serde_json::from_str(objects).unwrap(),
                guaranteed: self.resources(),
                soft: self.resources(),
                r#override: Some(Override { hard: self.resources(), until: self.far() }),
                ..Extensions::default()
            },
        }
    }
}
