//! What a cluster holds, its history, and what goes wrong.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::watch;

/// A kind that is served.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    /// Its status is written by itself.
    pub(crate) has_status: bool,
}

impl Kind {
    pub(crate) fn name(&self) -> String {
        match self.group.is_empty() {
            true => self.plural.clone(),
            false => format!("{}.{}", self.plural, self.group),
        }
    }

    pub(crate) fn api_version(&self) -> String {
        match self.group.is_empty() {
            true => self.version.clone(),
            false => format!("{}/{}", self.group, self.version),
        }
    }
}

/// An object as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: u64,
    /// Compact JSON.
    pub(crate) text: String,
}

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) revision: u64,
    pub(crate) event: &'static str,
    pub(crate) object: Arc<Stored>,
}

/// Kind, namespace, name.
pub(crate) type Key = (String, String, String);
pub(crate) type Objects = BTreeMap<Key, Arc<Stored>>;

/// What etcd held at some time.
pub struct Backup {
    revision: u64,
    objects: Objects,
}

/// Which requests go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Which kinds there are.
    Discovery,
    /// The first page of a list.
    List,
    /// Another page of it.
    Continue,
    /// A watch from a version on.
    Watch,
    /// A watch that begins with a list.
    WatchList,
    /// A single object.
    Get,
    /// A write of an object.
    Update,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This status, and that many seconds to wait.
    Status(u16, u32),
    /// The answer is cut in its middle, also a list at the begin of a watch; another watch within its next event.
    Cut,
    /// Nothing is said any more.
    Silent,
    /// A watch says that its version is too old, in an event.
    Expired,
    /// One object is none.
    Unreadable,
    /// A list has no objects.
    Empty,
}

/// A fault of a kind (`*`: of all), for so many requests.
#[derive(Clone, Debug)]
struct Planned {
    kind: String,
    request: Request,
    fault: Fault,
    times: usize,
}

pub(crate) struct Inner {
    pub(crate) revision: u64,
    /// Older revisions are no longer available.
    pub(crate) compacted: u64,
    pub(crate) kinds: BTreeMap<String, Kind>,
    /// Kinds that discovery leaves out.
    pub(crate) hidden: BTreeSet<String>,
    pub(crate) objects: Objects,
    pub(crate) log: Vec<Logged>,
    /// Pages that are still to come, by token.
    pub(crate) pages: HashMap<String, (u64, Vec<Arc<Stored>>)>,
    /// While cut off from etcd: what is in the cache, as of which revision.
    pub(crate) cached: Option<(u64, Objects)>,
    /// Watches of earlier generations are cut.
    pub(crate) generation: u64,
    /// The only token that is taken.
    pub(crate) token: Option<String>,
    pub(crate) minor: u32,
    uids: u64,
    faults: Vec<Planned>,
    /// How often each kind of request was made, by kind.
    pub(crate) requests: BTreeMap<(String, String), u64>,
}

/// A cluster. Clones share it.
#[derive(Clone)]
pub struct World {
    inner: Arc<Mutex<Inner>>,
    changed: watch::Sender<()>,
}

impl World {
    /// A cluster of a recent version, with the kinds that the ledger and the bridge know, and without objects of users.
    #[expect(clippy::new_without_default, reason = "a new cluster is no default value")]
    pub fn new() -> Self {
        let builtin = [
            ("", "v1", "pods", "Pod", true),
            ("", "v1", "services", "Service", true),
            ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true),
            ("", "v1", "resourcequotas", "ResourceQuota", true),
            ("", "v1", "configmaps", "ConfigMap", true),
            ("", "v1", "secrets", "Secret", true),
            ("", "v1", "namespaces", "Namespace", false),
            ("apps", "v1", "deployments", "Deployment", true),
            ("batch", "v1", "jobs", "Job", true),
            ("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true),
            ("coordination.k8s.io", "v1", "leases", "Lease", true),
            ("", "v1", "secrets", "Secret", true),
            (
                "admissionregistration.k8s.io",
                "v1",
                "validatingwebhookconfigurations",
                "ValidatingWebhookConfiguration",
                false,
            ),
            (
                "apiextensions.k8s.io",
                "v1",
                "customresourcedefinitions",
                "CustomResourceDefinition",
                false,
            ),
            ("apiregistration.k8s.io", "v1", "apiservices", "APIService", false),
        ];
        let kinds = builtin.map(|(group, version, plural, kind, namespaced)| Kind {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            namespaced,
            has_status: false,
        });
        let world = Self {
            inner: Arc::new(Mutex::new(Inner {
                revision: 1,
                compacted: 0,
                kinds: kinds.into_iter().map(|kind| (kind.name(), kind)).collect(),
                hidden: BTreeSet::new(),
                objects: Objects::new(),
                log: Vec::new(),
                pages: HashMap::new(),
                cached: None,
                generation: 0,
                token: None,
                minor: 36,
                uids: 0,
                faults: Vec::new(),
                requests: BTreeMap::new(),
            })),
            changed: watch::Sender::new(()),
        };
        for name in ["default", "kube-system"] {
            let namespace = json!({"metadata": {"name": name}});
            world.put("namespaces", "", namespace).unwrap_or_default();
        }
        world
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Creates or replaces an object, and gives it back as stored. The error is a status and what it says.
    pub fn put(&self, kind: &str, namespace: &str, object: Value) -> Result<String, (u16, String)> {
        let stored = self.lock().put(kind, namespace, object)?;
        self.changed.send_replace(());
        Ok(stored)
    }

    /// Creates an object of a namespace; to be called where it has to succeed.
    pub fn create(&self, kind: &str, namespace: &str, name: &str, mut object: Value) -> Value {
        object["metadata"]["name"] = json!(name);
        let text = self.put(kind, namespace, object);
        text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap_or_default())
    }

    /// Deletes an object, if it is there.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> Option<String> {
        let deleted = self.lock().delete(kind, namespace, name);
        self.changed.send_replace(());
        deleted
    }

    /// An object, as JSON.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let object = self.lock().objects.get(&key).cloned()?;
        serde_json::from_str(&object.text).ok()
    }

    /// The objects of a kind, as JSON.
    pub fn list(&self, kind: &str) -> Vec<Value> {
        let inner = self.lock();
        let objects = inner.objects.values().filter(|object| object.kind == kind);
        objects.filter_map(|object| serde_json::from_str(&object.text).ok()).collect()
    }

    /// The uids of all objects.
    pub fn uids(&self) -> BTreeSet<String> {
        let inner = self.lock();
        let objects = inner.objects.values();
        objects.map(|object| object.uid.clone()).collect()
    }

    /// The version of the latest change.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// From now on it is Kubernetes 1.`minor`, with what servers of that version can.
    pub fn set_minor(&self, minor: u32) {
        self.lock().minor = minor;
    }

    /// From now on only requests with this token are answered.
    pub fn require_token(&self, token: &str) {
        self.lock().token = Some(token.to_owned());
    }

    /// From now on discovery leaves a kind out, as that of another API server that does not serve it.
    pub fn hide(&self, kind: &str) {
        self.lock().hidden.insert(kind.to_owned());
    }

    /// Plans faults of a kind (`*`: of all).
    pub fn plan(&self, kind: &str, request: Request, fault: Fault, times: usize) {
        self.lock().faults.push(Planned { kind: kind.to_owned(), request, fault, times });
    }

    /// Whether planned faults have not all happened.
    pub fn is_planned(&self) -> bool {
        !self.lock().faults.is_empty()
    }

    /// No faults any more.
    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// Cuts all watches.
    pub fn cut(&self) {
        self.lock().generation += 1;
        self.changed.send_replace(());
    }

    /// Forgets the history up to now, and cuts all watches.
    pub fn compact(&self) {
        {
            let mut inner = self.lock();
            inner.revision += 1;
            inner.compacted = inner.revision;
            inner.log.clear();
            inner.pages.clear();
        }
        self.cut();
    }

    /// What etcd holds, to be restored.
    pub fn backup(&self) -> Backup {
        let inner = self.lock();
        Backup { revision: inner.revision, objects: inner.objects.clone() }
    }

    /// Restores a backup: versions go back.
    pub fn restore(&self, backup: Backup) {
        {
            let mut inner = self.lock();
            inner.revision = backup.revision;
            inner.compacted = 0;
            inner.objects = backup.objects;
            inner.log.clear();
            inner.pages.clear();
        }
        self.cut();
    }

    /// Cuts the API server off from etcd, or connects it again.
    pub fn cut_off(&self, is: bool) {
        {
            let mut inner = self.lock();
            inner.cached = is.then(|| (inner.revision, inner.objects.clone()));
        }
        self.changed.send_replace(());
    }

    /// How often such a request was made: `request` is the name of a [`Request`].
    pub fn requests(&self, kind: &str, request: &str) -> u64 {
        let key = (kind.to_owned(), request.to_owned());
        self.lock().requests.get(&key).copied().unwrap_or(0)
    }
}

impl Inner {
    /// The next planned fault for such a request.
    pub(crate) fn fault(&mut self, kind: &str, request: Request) -> Option<Fault> {
        let counted = (kind.to_owned(), format!("{request:?}"));
        *self.requests.entry(counted).or_default() += 1;
        let fits = |planned: &Planned| {
            planned.request == request && (planned.kind == kind || planned.kind == "*")
        };
        let at = self.faults.iter().position(fits)?;
        let fault = self.faults[at].fault;
        self.faults[at].times -= 1;
        if self.faults[at].times == 0 {
            self.faults.remove(at);
        }
        Some(fault)
    }

    /// What this server can see: as of which revision, and what.
    pub(crate) fn visible(&self) -> (u64, &Objects) {
        match &self.cached {
            Some((revision, objects)) => (*revision, objects),
            None => (self.revision, &self.objects),
        }
    }

    fn put(
        &mut self,
        kind: &str,
        namespace: &str,
        mut object: Value,
    ) -> Result<String, (u16, String)> {
        let definition = self.kinds.get(kind).cloned();
        let definition = definition.ok_or((404, format!("there is no {kind}")))?;
        let Some(name) = object["metadata"]["name"].as_str().map(str::to_owned) else {
            return Err((422, "metadata.name: Required value".to_owned()));
        };
        let key = (kind.to_owned(), namespace.to_owned(), name.clone());
        let before = self.objects.get(&key).cloned();
        let expected = object["metadata"]["resourceVersion"].as_str();
        if let Some(before) = &before
            && expected.is_some_and(|expected| expected != before.version.to_string())
        {
            return Err((409, format!("{name} has been modified")));
        }
        self.revision += 1;
        let uid = match &before {
            Some(before) => before.uid.clone(),
            None => {
                self.uids += 1;
                let given = object["metadata"]["uid"].as_str().map(str::to_owned);
                given.unwrap_or_else(|| format!("00000000-0000-4000-8000-{:012x}", self.uids))
            }
        };
        object["apiVersion"] = json!(definition.api_version());
        object["kind"] = json!(definition.kind);
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(uid);
        metadata["resourceVersion"] = json!(self.revision.to_string());
        if definition.namespaced {
            metadata["namespace"] = json!(namespace);
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        if kind.starts_with("customresourcedefinitions.") {
            self.define(&object);
        }
        let stored = Arc::new(Stored {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name,
            uid,
            version: self.revision,
            text: object.to_string(),
        });
        let event = match before {
            Some(_) => "MODIFIED",
            None => "ADDED",
        };
        self.objects.insert(key, stored.clone());
        let text = stored.text.clone();
        self.log.push(Logged { revision: self.revision, event, object: stored });
        Ok(text)
    }

    fn define(&mut self, definition: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = &definition["spec"];
        let kind = Kind {
            group: text(&spec["group"]),
            version: text(&spec["versions"][0]["name"]),
            plural: text(&spec["names"]["plural"]),
            kind: text(&spec["names"]["kind"]),
            namespaced: spec["scope"] == "Namespaced",
            has_status: spec["versions"][0]["subresources"]["status"].is_object(),
        };
        self.kinds.insert(kind.name(), kind);
    }

    fn delete(&mut self, kind: &str, namespace: &str, name: &str) -> Option<String> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let object = self.objects.remove(&key)?;
        self.revision += 1;
        let version = format!("\"resourceVersion\":\"{}\"", object.version);
        let later = format!("\"resourceVersion\":\"{}\"", self.revision);
        let deleted = Arc::new(Stored {
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
            version: self.revision,
            text: object.text.replacen(&version, &later, 1),
        });
        let text = deleted.text.clone();
        self.log.push(Logged { revision: self.revision, event: "DELETED", object: deleted });
        if kind.starts_with("customresourcedefinitions.") {
            // Its objects go without a word, and its watches are cut.
            self.kinds.remove(name);
            self.objects.retain(|(kind, ..), _| kind != name);
            self.generation += 1;
        }
        Some(text)
    }
}

/// How long the faults of silence last.
pub(crate) const SILENCE: Duration = Duration::from_secs(3600);
